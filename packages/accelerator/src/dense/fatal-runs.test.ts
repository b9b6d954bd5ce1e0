// What becomes of runs that end processes: by count, by inputs and by time.

import { expect, test } from "vitest";
import { FatalRuns } from "./fatal-runs.ts";

const inputs = (name: string): Uint8Array => new TextEncoder().encode(name);

test("runs that end processes: the first is run again, the same inputs are refused from then on", () => {
  const fatal = new FatalRuns();

  const first = fatal.ended(1, inputs("a"), 0);
  const endsAfterOne = fatal.endsOf(1, inputs("a"), 1);
  const second = fatal.ended(1, inputs("a"), 2);

  expect([first, endsAfterOne]).toEqual([{ runAgain: true, ends: 1 }, 0]);
  expect(second).toEqual({ runAgain: false, ends: 2 });
  expect(fatal.endsOf(1, inputs("a"), 3)).toBe(2);
  expect([fatal.endsOf(1, inputs("b"), 3), fatal.endsOf(2, inputs("a"), 3)]).toEqual([0, 0]);
  expect(fatal.endsOf(1, inputs("a"), 600_003)).toBe(0);
});

test("whoever invents inputs ends one process in a pause, which doubles up to its most", () => {
  const fatal = new FatalRuns();
  const pauses: number[] = [];
  let nowMs = 0;
  for (let at = 0; at < 9; at += 1) {
    fatal.ended(7, inputs(`${at}`), nowMs);
    const pauseMs = fatal.pauseMsOf(7, nowMs);
    pauses.push(pauseMs);
    nowMs += pauseMs;
  }

  expect(pauses).toEqual([0, 250, 500, 1000, 2000, 4000, 5000, 5000, 5000]);
  expect([fatal.pauseMsOf(7, nowMs), fatal.pauseMsOf(8, 0)]).toEqual([0, 0]);
});

test("remembers the inputs that ended a process last, and no model that is gone", () => {
  const fatal = new FatalRuns();
  for (let at = 0; at < 65; at += 1) {
    for (const time of [1, 2]) fatal.ended(1, inputs(`${at}`), time);
  }

  expect(fatal.endsOf(1, inputs("0"), 3)).toBe(0);
  expect(fatal.endsOf(1, inputs("64"), 3)).toBe(2);
  fatal.forget(1);
  expect([fatal.endsOf(1, inputs("64"), 3), fatal.pauseMsOf(1, 3)]).toEqual([0, 0]);
});
