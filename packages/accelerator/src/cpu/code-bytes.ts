// What a search keeps of rows beside their values: codes that a first scan reads (8 bits per value and
// bounds per row, in blocks). `winnow inspect` tells the memory of a worker before there is one.

import { loadNativeAddon } from "./native-addon.ts";

/**
 * Bytes that a CPU accelerator on this machine keeps for the search of a resident, beside its float32
 * values; 0 where the machine has no addon, as the plain scan reads the values alone.
 */
export function codeBytesOf(rows: number, dim: number): number {
  const { addon } = loadNativeAddon();
  if (addon === undefined) return 0;
  const { occupied } = addon.tableBytes(rows, dim, 0, true);
  return occupied - rows * dim * Float32Array.BYTES_PER_ELEMENT;
}
