// When requests of an open loop start, and from when their latency counts.

import { describe, expect, test } from "vitest";
import { seededRandom } from "../questions/seeded-random.ts";
import { countedFromMs, openSchedule } from "./open-schedule.ts";

describe("a schedule", () => {
  test("of even arrivals does not drift", () => {
    const schedule = openSchedule(3, "even", () => 0.5);
    let last = 0;
    for (let number = 0; number <= 3000; number += 1) last = schedule.take();

    expect(last).toBeCloseTo(1_000_000, 6);
    expect(schedule.nextMs).toBeCloseTo(1_000_333.333, 2);
  });

  test("of independent clients keeps the rate, and its gaps differ as much as they are long", () => {
    const schedule = openSchedule(1000, "poisson", seededRandom("gaps"));
    const starts = Array.from({ length: 50_001 }, () => schedule.take());
    const gaps = starts.slice(1).map((start, at) => start - starts[at]!);
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    const variance = gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length;

    expect(mean).toBeCloseTo(1, 1);
    expect(Math.sqrt(variance)).toBeCloseTo(1, 1);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(0);
  });
});

describe("a latency counts", () => {
  test("from the intended start where the request waited for a connection, however shortly", () => {
    expect(countedFromMs({ intendedMs: 100, sentMs: 100.5, hasWaited: true })).toBe(100);
  });

  test("from the sending where a timer alone was a moment late, and no longer than that", () => {
    expect(countedFromMs({ intendedMs: 100, sentMs: 101.2, hasWaited: false })).toBe(101.2);
    expect(countedFromMs({ intendedMs: 100, sentMs: 103, hasWaited: false })).toBe(100);
  });
});
