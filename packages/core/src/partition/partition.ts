// How embedding tables are cut. A candidate table is cut into contiguous row ranges, so that global
// row order (which breaks ties) survives; a keyed table is cut by a hash of the key. The number of
// partitions depends on the table's size and one setting of the cluster, so every process computes
// the same cut. A partition is small enough for one worker to scan in a few milliseconds; a table
// of that size is not cut, and a query for it asks one worker.

import type { StringColumn } from "../tensor/string-column.ts";

/** A half-open range of global rows, `[firstRow, endRow)`. */
export interface RowRange {
  readonly firstRow: number;
  readonly endRow: number;
}

/** Default of the cluster's setting: bytes of float32 values in one partition, at most. */
export const PARTITION_BYTES: number = 2 ** 26;
const PARTITIONS_MAX = 1024;
const VALUE_BYTES = 4;

/**
 * Partitions of a table: the next power of two of its bytes ÷ `partitionBytes` in 1…1024, at most
 * one per row.
 */
export function partitionCountOf(
  table: { readonly rows: number; readonly dim: number },
  partitionBytes: number,
): number {
  const bytes = table.rows * table.dim * VALUE_BYTES;
  const wanted = 2 ** Math.ceil(Math.log2(Math.max(1, bytes / partitionBytes)));
  return Math.max(1, Math.min(table.rows, PARTITIONS_MAX, wanted));
}

/** Rows of one partition of a candidate table; sizes differ by at most one row. */
export function rowRangeOf(
  partition: number,
  table: { readonly rows: number; readonly partitions: number },
): RowRange {
  return {
    firstRow: Math.floor((partition * table.rows) / table.partitions),
    endRow: Math.floor(((partition + 1) * table.rows) / table.partitions),
  };
}

/** The partition of a keyed table that holds a string key: FNV-1a of its bytes, mixed, modulo. */
export function partitionOfBytes(key: Uint8Array, partitions: number): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < key.length; index += 1) {
    hash = Math.imul(hash ^ key[index]!, 0x01000193);
  }
  return mix(hash) % partitions;
}

/** `partitionOfBytes` of one string of a column, without a view of it. */
export function partitionOfString(
  { offsets, bytes }: StringColumn,
  position: number,
  partitions: number,
): number {
  let hash = 0x811c9dc5;
  const end = offsets[position + 1]!;
  for (let index = offsets[position]!; index < end; index += 1) {
    hash = Math.imul(hash ^ bytes[index]!, 0x01000193);
  }
  return mix(hash) % partitions;
}

/** The partition of a keyed table that holds an integer key (an id, or a row number). */
export function partitionOfInteger(key: bigint, partitions: number): number {
  const low = Number(BigInt.asIntN(32, key));
  const high = Number(BigInt.asIntN(32, key >> 32n));
  return mix(low ^ mix(high + 0x9e3779b9)) % partitions;
}

/** `partitionOfInteger` of a row number below 2³², without a bigint. */
export function partitionOfRow(row: number, partitions: number): number {
  return mix((row | 0) ^ mix(0x9e3779b9)) % partitions;
}

/** The finaliser of MurmurHash3 (Austin Appleby, public domain): each bit affects every bit. */
function mix(value: number): number {
  let hash = value | 0;
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
