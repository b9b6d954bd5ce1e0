// The memory of the process is faked: what a test machine has must not matter.

import { totalmem } from "node:os";
import { afterEach, expect, test, vi } from "vitest";
import { fittingMemory, memoryLimitBytes, rowMemoryBytes } from "./memory-limit.ts";

afterEach(() => vi.restoreAllMocks());

test.each<[what: string, limitBytes: number, expected: number]>([
  ["the limit of the cgroup", 2 ** 28, 2 ** 28],
  ["the memory of the machine without a limit", 0, totalmem()],
  ["the memory of the machine where the limit is higher", 2 ** 63, totalmem()],
])("a process may use %s", (_, limitBytes, expected) => {
  vi.spyOn(process, "constrainedMemory").mockReturnValue(limitBytes);

  expect(memoryLimitBytes()).toBe(expected);
});

test("a default is lower where its ratio of the memory is, and never 0", () => {
  const fitting = [2 ** 40, 2 ** 31, 1].map((memoryBytes) =>
    fittingMemory(2 ** 29, 1 / 8, memoryBytes),
  );

  expect(fitting).toEqual([2 ** 29, 2 ** 28, 1]);
});

test("rows leave a worker's other memory alone, in a small container as well", () => {
  const rows = [2 ** 34, 2 ** 30, 2 ** 29 + 2 ** 28, 2 ** 28].map(rowMemoryBytes);

  expect(rows).toEqual([Math.floor(0.7 * 2 ** 34), Math.floor(0.7 * 2 ** 30), 2 ** 29, 2 ** 27]);
});
