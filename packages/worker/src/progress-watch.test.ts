// Stalls are told apart from idleness and from slow but living work.

import { ManualClock } from "../../../test/doubles/manual-clock.ts";
import type { Clock } from "@winnow/core";
import { expect, test } from "vitest";

import { ProgressWatch } from "./progress-watch.ts";

function watching() {
  const clock = new ManualClock();
  const signs = { isBusy: false, progress: 0 };
  const changes: boolean[] = [];
  const watch = new ProgressWatch(
    { clock, signs: () => signs, onChange: (stalled) => changes.push(stalled) },
    { stallMs: 1000, checkIntervalMs: 100 },
  );
  return { clock, signs, changes, watch };
}

test("an idle worker never stalls, and is not woken", () => {
  const { clock, changes, watch } = watching();

  watch.noteWork();
  clock.advance(60_000);

  expect(changes).toEqual([]);
  expect(clock.pendingTimers).toBe(0);
});

test("work that waits while the counter stands still for a second is a stall, until it moves", () => {
  const { clock, signs, changes, watch } = watching();
  signs.isBusy = true;
  watch.noteWork();

  clock.advance(900);
  expect(watch.isStalled).toBe(false);
  clock.advance(200);
  expect(watch.isStalled).toBe(true);
  signs.progress += 1;
  clock.advance(100);

  expect(changes).toEqual([true, false]);
});

test("slow work that moves is no stall; a stall ends when nothing waits any more", () => {
  const { clock, signs, changes, watch } = watching();
  signs.isBusy = true;
  watch.noteWork();

  for (let step = 0; step < 20; step += 1) {
    signs.progress += 1;
    clock.advance(900);
  }
  expect(changes).toEqual([]);
  clock.advance(2000);
  signs.isBusy = false;
  clock.advance(100);

  expect(changes).toEqual([true, false]);
  watch.close();
  expect(clock.pendingTimers).toBe(0);
});

test("an event loop that stood still takes its own lag for no stall", () => {
  const clock = new ManualClock();
  let heldMs = 0;
  const loop: Clock = {
    nowMs: () => clock.nowMs() + heldMs,
    setTimer: (delayMs, run) => clock.setTimer(delayMs, run),
    clearTimer: (timer) => clock.clearTimer(timer),
  };
  const changes: boolean[] = [];
  const watch = new ProgressWatch(
    {
      clock: loop,
      signs: () => ({ isBusy: true, progress: 0 }),
      onChange: (stalled) => changes.push(stalled),
    },
    { stallMs: 1000, checkIntervalMs: 100 },
  );
  watch.noteWork();
  clock.advance(250);

  heldMs = 5000;
  clock.advance(300);
  const afterBlock = [...changes];
  clock.advance(2000);

  expect([afterBlock, changes]).toEqual([[], [true]]);
  watch.close();
});
