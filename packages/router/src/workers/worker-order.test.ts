// Workers are shown in one order everywhere, by the numbers that people give them.

import { expect, test } from "vitest";
import { byWorkerId } from "./worker-order.ts";

test("workers are shown by the numbers in their ids", () => {
  const ids = ["w10", "winnow-shard-11", "w2", "w02", "winnow-shard-2", "w1", "W1"];
  const ordered = ["w1", "W1", "w02", "w2", "w10", "winnow-shard-2", "winnow-shard-11"];

  const sorted = (from: readonly string[]): string[] =>
    from
      .map((id) => ({ id }))
      .toSorted(byWorkerId)
      .map(({ id }) => id);
  expect(sorted(ids)).toEqual(ordered);
  expect(sorted(ids.toReversed())).toEqual(ordered);
});
