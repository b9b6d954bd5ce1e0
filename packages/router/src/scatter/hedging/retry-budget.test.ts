// R3 of the reliability notes: second attempts stay within a fraction of the first ones, over any 10 s.

import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import fc from "fast-check";
import { expect, test } from "vitest";
import { RetryBudget } from "./retry-budget.ts";
import type { SecondAttempt } from "../../router-observer.ts";

const limits = { secondAttemptRatio: 0.1, secondAttemptsPerSecond: 2 };

function takeSecond(budget: RetryBudget, kind: SecondAttempt, weight?: number): boolean {
  if (!budget.allowsSecond(kind, weight)) return false;
  budget.countSecond(weight);
  return true;
}

test("second attempts stay within 10 % of the first plus the floor, over any ten seconds", () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          waitMs: fc.integer({ min: 0, max: 900 }),
          attempt: fc.constantFrom("first", "hedge", "retry"),
        }),
        {
          maxLength: 400,
        },
      ),
      (steps) => {
        const clock = new ManualClock();
        const budget = new RetryBudget(clock, limits);
        const first: number[] = [];
        const second: number[] = [];
        for (const step of steps) {
          clock.advance(step.waitMs);
          if (step.attempt === "first") {
            budget.countFirst();
            first.push(clock.nowMs());
          } else if (takeSecond(budget, step.attempt)) second.push(clock.nowMs());
          // Slots are whole seconds: the window is the current one and the nine before.
          const since = (Math.floor(clock.nowMs() / 1000) - 9) * 1000;
          const within = (times: readonly number[]): number =>
            times.filter((atMs) => atMs >= since).length;
          expect(within(second)).toBeLessThanOrEqual(0.1 * within(first) + 20);
        }
      },
    ),
    { numRuns: 50 },
  );
});

test("the floor is there without any traffic, and comes back with time", () => {
  const clock = new ManualClock();
  const budget = new RetryBudget(clock, limits);

  const taken = Array.from({ length: 25 }, () => takeSecond(budget, "retry"));
  clock.advance(10_000);
  const later = takeSecond(budget, "retry");

  expect(taken.filter(Boolean)).toHaveLength(20);
  expect(later).toBe(true);
});

test("hedges stop at half of the budget, so that retries find the other half", () => {
  const budget = new RetryBudget(new ManualClock(), limits);

  const hedges = Array.from({ length: 25 }, () => takeSecond(budget, "hedge"));
  const retries = Array.from({ length: 25 }, () => takeSecond(budget, "retry"));

  expect(hedges.filter(Boolean)).toHaveLength(10);
  expect(retries.filter(Boolean)).toHaveLength(10);
});

test("a retry spread over three workers costs what one on a single worker does", () => {
  const budget = new RetryBudget(new ManualClock(), limits);

  const thirds = Array.from({ length: 75 }, () => takeSecond(budget, "retry", 1 / 3));

  expect(thirds.filter(Boolean)).toHaveLength(60);
});
