// What a worker's replies usually take.

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { expect, test } from "vitest";
import { seededEnvironment } from "../../../../test/doubles/seeded-environment.ts";
import { LatencyWindow } from "./latency-window.ts";

function windowAndClock() {
  const clock = new ManualClock();
  return { clock, window: new LatencyWindow(clock) };
}

/** Adds `count` answers of `ms` each. */
function addMany(window: LatencyWindow, count: number, ms: number): void {
  for (let answer = 0; answer < count; answer += 1) window.add(ms);
}

test("the percentiles are of the last ten seconds", () => {
  const { clock, window } = windowAndClock();

  const empty = window.percentiles();
  addMany(window, 50, 8);
  clock.advance(5000);
  addMany(window, 45, 16);
  addMany(window, 5, 64);
  const both = window.percentiles();
  clock.advance(5000);
  const later = window.percentiles();
  clock.advance(5000);

  expect([empty, both, later, window.percentiles()]).toEqual([
    undefined,
    { p50Ms: 8, p95Ms: 16, p99Ms: 64, answers: 100 },
    { p50Ms: 16, p95Ms: 64, p99Ms: 64, answers: 50 },
    undefined,
  ]);
});

test("a pause of a busy worker counts for as long as a rare one of an idle worker", () => {
  const { clock, window } = windowAndClock();
  // A thousand answers a second, of which the hundred of one moment waited 64 ms.
  for (let second = 0; second < 8; second += 1) {
    addMany(window, second === 1 ? 900 : 1000, 4);
    addMany(window, second === 1 ? 100 : 0, 64);
    clock.advance(1000);
  }

  expect(window.percentiles()).toEqual({ p50Ms: 4, p95Ms: 4, p99Ms: 64, answers: 8000 });
});

test("the first answers count at once, later ones with the next look after 250 ms", () => {
  const { clock, window } = windowAndClock();
  const p50Ms = () => window.percentiles()?.p50Ms;
  expect([window.isEmpty, p50Ms()]).toEqual([true, undefined]);

  window.add(8);
  const first = p50Ms();
  addMany(window, 2, 2);
  const second = p50Ms();
  addMany(window, 1000, 2);
  const full = p50Ms();
  addMany(window, 1003, 4);
  const early = p50Ms();
  addMany(window, 1, 4);
  const doubled = p50Ms();
  addMany(window, 900, 16);
  addMany(window, 1100, 16);
  const still = p50Ms();
  clock.advance(250);

  expect([first, second, full, early, doubled, still, p50Ms()]).toEqual([8, 2, 2, 2, 4, 4, 4]);
  expect(window.isEmpty).toBe(false);
});

test("percentiles are at most 4.5 % above those of all answers, and never below", () => {
  const { random } = seededEnvironment;
  for (let trial = 0; trial < 50; trial += 1) {
    const { window } = windowAndClock();
    const count = 1 + Math.floor(random() * 2000);
    const answers = Array.from({ length: count }, () => 0.07 * 2 ** (random() * 20)).toSorted(
      (a, b) => a - b,
    );
    answers.forEach((ms) => window.add(ms));
    const usual = window.percentiles()!;

    for (const [fraction, ms] of [
      [0.5, usual.p50Ms],
      [0.95, usual.p95Ms],
      [0.99, usual.p99Ms],
    ] as const) {
      const exact = answers[Math.floor((count - 1) * fraction)]!;
      expect(ms / exact).toBeGreaterThanOrEqual(1 - 1e-12);
      expect(ms / exact).toBeLessThan(1.045);
    }
  }
});

test("answers quicker or slower than the histogram's ends count with them", () => {
  const { window } = windowAndClock();
  [0, 1e-9, Infinity, 1e9, 1e9].forEach((ms) => window.add(ms));

  const usual = window.percentiles();
  expect(usual?.answers).toBe(5);
  expect(usual?.p50Ms).toBeGreaterThan(100_000);
});
