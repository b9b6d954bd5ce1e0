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

/** What a worker takes besides rows, ids and keys: 240 to 270 MB with models of 100,000 to 600,000 items. */
const OVERHEAD_BYTES = 2 ** 28;

/**
 * Bytes that the rows, ids and keys of a worker may occupy by default: 70 % of the memory, and with less than 850 MiB
 * what a worker takes besides less, but at least a half.
 */
export function rowMemoryBytes(memoryBytes: number): number {
  const most = Math.max(0.5 * memoryBytes, memoryBytes - OVERHEAD_BYTES);
  return Math.floor(Math.min(0.7 * memoryBytes, most));
}
