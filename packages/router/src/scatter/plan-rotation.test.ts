// Searches of small tables stay together for longer than those of large ones.

import { expect, test } from "vitest";
import { PlanRotation } from "./plan-rotation.ts";

/** Lengths of the first runs of searches that have the same plan. */
function runs(rotation: PlanRotation, values: readonly number[]): number[] {
  const lengths: number[] = [];
  let last = -1;
  for (const count of values) {
    const plan = rotation.next(count);
    if (plan !== last) lengths.push(0);
    lengths[lengths.length - 1]! += 1;
    last = plan;
  }
  return lengths;
}

test("a large table changes its plan every 8 searches", () => {
  expect(runs(new PlanRotation(), Array<number>(32).fill(64e6))).toEqual([8, 8, 8, 8]);
});

test("a table of 10,000 × 32 keeps its plan until 2^24 values are scanned", () => {
  expect(runs(new PlanRotation(), Array<number>(106).fill(320_000))).toEqual([53, 53]);
});

test("the smallest table changes its plan every 64 searches", () => {
  expect(runs(new PlanRotation(), Array<number>(192).fill(10))).toEqual([64, 64, 64]);
});

test("searches of small and large tables that alternate count together", () => {
  const mixed = Array.from({ length: 32 }, (_, search) => (search % 2 === 0 ? 10 : 64e6));
  expect(runs(new PlanRotation(), mixed)).toEqual([8, 8, 8, 8]);
});
