// What a worker's replies usually take.

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { expect, test } from "vitest";
import { LatencyWindow } from "./latency-window.ts";

test("the percentiles are of the last ten seconds", () => {
  const clock = new ManualClock();
  const window = new LatencyWindow(clock);

  const empty = window.percentiles();
  for (let sample = 1; sample <= 100; sample += 1) window.add(sample);
  clock.advance(300);
  const recent = window.percentiles();
  clock.advance(11_000);

  const usual = { p50Ms: 50, p95Ms: 95, p99Ms: 99 };
  expect([empty, recent, window.percentiles()]).toEqual([undefined, usual, undefined]);
});
