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

/** So many rows in so many partitions. */
export interface EvenCut {
  readonly rows: number;
  readonly partitions: number;
}

/** How a candidate table is cut. */
export interface TableCut extends EvenCut {
  /**
   * The rows and partitions that the model itself has, where items were added to it. Theirs follow in partitions of their own,
   * so that those before them keep their rows whatever is added. Absent: all of them.
   */
  readonly original?: EvenCut | undefined;
}

/** Rows of one partition of a candidate table; sizes differ by at most one row, in the added rows too. */
export function rowRangeOf(partition: number, table: TableCut): RowRange {
  const { original } = table;
  if (original === undefined) return evenRangeOf(partition, table);
  if (partition < original.partitions) return evenRangeOf(partition, original);
  const { firstRow, endRow } = evenRangeOf(partition - original.partitions, addedCutOf(table));
  return { firstRow: original.rows + firstRow, endRow: original.rows + endRow };
}

/** The partition of a candidate table that holds a row, see `rowRangeOf`. */
export function partitionHolding(row: number, table: TableCut): number {
  const { original } = table;
  if (original === undefined) return evenPartitionOf(row, table);
  if (row < original.rows) return evenPartitionOf(row, original);
  return original.partitions + evenPartitionOf(row - original.rows, addedCutOf(table));
}

function addedCutOf({
  rows,
  partitions,
  original = { rows: 0, partitions: 0 },
}: TableCut): EvenCut {
  return { rows: rows - original.rows, partitions: partitions - original.partitions };
}

function evenRangeOf(partition: number, { rows, partitions }: EvenCut): RowRange {
  return {
    firstRow: Math.floor((partition * rows) / partitions),
    endRow: Math.floor(((partition + 1) * rows) / partitions),
  };
}

/** The last partition that begins at or before the row. */
function evenPartitionOf(row: number, { rows, partitions }: EvenCut): number {
  return Math.ceil(((row + 1) * partitions) / rows) - 1;
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
