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

  const usual = { p50Ms: 50, p95Ms: 95, p99Ms: 99, answers: 100 };
  expect([empty, recent, window.percentiles()]).toEqual([undefined, usual, undefined]);
});

test("the first answers count at once, later ones with the next look after 250 ms", () => {
  const clock = new ManualClock();
  const window = new LatencyWindow(clock);
  const p50Ms = () => window.percentiles()?.p50Ms;
  expect([window.isEmpty, p50Ms()]).toEqual([true, undefined]);

  window.add(8);
  const first = p50Ms();
  for (let sample = 0; sample < 2; sample += 1) window.add(2);
  const second = p50Ms();
  for (let sample = 0; sample < 253; sample += 1) window.add(2);
  const full = p50Ms();
  for (let sample = 0; sample < 1000; sample += 1) window.add(6);
  const early = p50Ms();
  clock.advance(250);

  expect([first, second, full, early, p50Ms()]).toEqual([8, 2, 2, 2, 6]);
  expect(window.isEmpty).toBe(false);
});
