// A judgement that was itself late gives replies that have arrived a turn to be read.

import { ManualClock } from "@winnow/core";
import type { Clock } from "@winnow/core";
import { expect, test } from "vitest";
import { setGraceTimer } from "./grace-timer.ts";
import { LatencyWindow } from "./latency-window.ts";

/** A clock whose timers run `lateMs` late, as after a blocked event loop. */
function lateClock(clock: ManualClock, lateMs: number): Clock {
  return {
    nowMs: () => clock.nowMs(),
    setTimer: (delayMs, run) => clock.setTimer(delayMs > 5 ? delayMs + lateMs : delayMs, run),
    clearTimer: (timer) => clock.clearTimer(timer),
  };
}

test("a timer on time decides at once", () => {
  const clock = new ManualClock();
  let decided = 0;

  setGraceTimer(clock, { delayMs: 300, ownLagMs: 20 }, () => (decided += 1));
  clock.advance(300);

  expect(decided).toBe(1);
});

test("a late timer decides a turn later, unless it is cleared by then", () => {
  const clock = new ManualClock();
  let decided = 0;
  const late = lateClock(clock, 100);

  setGraceTimer(late, { delayMs: 300, ownLagMs: 20 }, () => (decided += 1));
  const cleared = setGraceTimer(late, { delayMs: 300, ownLagMs: 20 }, () => (decided += 10));
  clock.advance(402);
  cleared.clear();
  const before = decided;
  clock.advance(10);

  expect([before, decided]).toEqual([0, 1]);
  expect(clock.pendingTimers).toBe(0);
});

test("the 95th percentile is of the last ten seconds", () => {
  const clock = new ManualClock();
  const window = new LatencyWindow(clock);

  const empty = window.percentile95Ms();
  for (let sample = 1; sample <= 100; sample += 1) window.add(sample);
  clock.advance(300);
  const recent = window.percentile95Ms();
  clock.advance(11_000);

  expect([empty, recent, window.percentile95Ms()]).toEqual([undefined, 96, undefined]);
});
