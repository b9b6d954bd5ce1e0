// Bytes that a search keeps in addition to the rows' values: the codes that the filter reads (8 bits per
// value, and bounds per row, in blocks). `winnow inspect` uses this to estimate the memory of a worker.

import { loadNativeAddon } from "./native-addon.ts";

/**
 * Bytes that a CPU accelerator on this machine keeps for searching a resident, beside its float32 values; 0
 * on a machine without the addon, whose plain scan reads only the values.
 */
export function codeBytesOf(rows: number, dim: number): number {
  const { addon } = loadNativeAddon();
  if (addon === undefined) return 0;
  const { occupied } = addon.tableBytes(rows, dim, 0, true);
  return occupied - rows * dim * Float32Array.BYTES_PER_ELEMENT;
}
