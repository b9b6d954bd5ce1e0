// How much memory this process may use, and defaults that follow from it. What a process may hold for its
// clients has to fit the container that it runs in; a fixed number would end a small one.

import { totalmem } from "node:os";

/** Bytes of memory that this process may use: the limit of its cgroup, or all memory of the machine. */
export function memoryLimitBytes(): number {
  const limitBytes = process.constrainedMemory();
  return limitBytes > 0 ? Math.min(limitBytes, totalmem()) : totalmem();
}

/** The default of a setting, `most`, or `ratio` of the memory where that is less; at least 1. */
export function fittingMemory(most: number, ratio: number, memoryBytes: number): number {
  return Math.max(1, Math.min(most, Math.floor(ratio * memoryBytes)));
}
