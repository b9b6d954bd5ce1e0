// What a worker's replies usually take.

import { ManualClock } from "@winnow/core";
import { expect, test } from "vitest";
import { LatencyWindow } from "./latency-window.ts";

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
