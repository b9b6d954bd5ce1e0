// What the compute thread tells the event loop of the rows that the event loop may search itself: small
// partitions, which it is told of with the answer to their load, and filters and copies of the rows that they admit; and of
// partitions in which it may look keys up.

import type { KeyedTable, TableKeys } from "@winnow/core";

import type { PackedKeys, ReplicaName } from "../compute.ts";

/** Values (rows × dim) up to which a partition or a copy is small: 2 MiB of codes. */
export const SMALL_VALUES_MAX: number = 2 ** 21;
/** Values up to which these are shared with the event loop, which scans a large one with helper threads. */
export const SHARED_VALUES_MAX: number = 2 ** 27;

/** Whether rows of this shape are scanned with helper threads. A copy of so many has no ids: its partition has them. */
export function isLargeShape({
  rows,
  dim,
}: {
  readonly rows: number;
  readonly dim: number;
}): boolean {
  return rows * dim > SMALL_VALUES_MAX;
}

/** A partition of the compute thread that other threads can read. */
export interface SharedPartition {
  /** The number that `Accelerator.share` gave the partition. */
  readonly share: number;
  readonly rows: number;
  readonly dim: number;
  /** How many values of a row, from the first one on, are the item's vector. */
  readonly vectorDim: number;
  readonly firstRow: number;
  /** Ids by local row, in memory shared by all threads; `undefined` for a table that stores none. */
  readonly ids: PackedKeys | undefined;
}

/** A table in which keys are looked up, as it crosses threads. */
export interface SharedKeyedTable extends Pick<KeyedTable, "name" | "rows" | "dim" | "partitions"> {
  readonly keys:
    | Extract<TableKeys, { readonly kind: "row" }>
    | (Omit<Extract<TableKeys, { readonly kind: "vocabulary" }>, "fixed"> & {
        readonly fixed: { readonly keys: PackedKeys; readonly rows: readonly number[] };
      });
}

/** A partition of such a table, in which other threads can look keys up. */
export interface SharedKeyedPartition {
  /** The number that `Accelerator.share` gave the partition. */
  readonly share: number;
  readonly table: SharedKeyedTable;
  /** As in `KeyedPartition`, in memory shared by all threads. */
  readonly globalRows: Uint32Array;
  readonly keyRows: Uint32Array;
  readonly keys: PackedKeys | undefined;
  /** The hash table of the keys (`KeyIndex.slots`), in memory shared by all threads. */
  readonly slots: Int32Array | undefined;
}

/** What the event loop may read of a partition. */
export interface SharedRows {
  /** How the partition can be searched; `undefined` for one that is too large for that, or not searched. */
  readonly shared?: SharedPartition;
  /** How keys can be looked up in the partition. */
  readonly sharedKeyed?: SharedKeyedPartition;
}

/** The filter of a partition that is known to the event loop. */
export interface AdmittedName {
  readonly name: ReplicaName;
  readonly text: string;
}

/** A copy that the event loop can search. */
export interface SharedCopy extends AdmittedName {
  /** The number that `Accelerator.share` gave the copy; `undefined` where no row is admitted. */
  readonly share: number | undefined;
  /** Row i of the copy is this row of the partition; ascending, in memory shared by all threads. */
  readonly localRows: Uint32Array;
  /** Ids by row of the copy, in memory shared by all threads; `undefined` for a large one or a table that stores none. */
  readonly ids: PackedKeys | undefined;
  readonly dim: number;
  /** As in `SharedPartition`. */
  readonly vectorDim: number;
  readonly firstRow: number;
  /** Rows of the partition. */
  readonly partitionRows: number;
  /** One flag, in memory shared by all threads: set by each search. */
  readonly uses: Uint32Array;
}

/** A filter with which the event loop can search a whole partition. */
export interface SharedMask extends AdmittedName {
  /** The number that `Accelerator.shareFilter` gave the filter. */
  readonly share: number;
  /** Whether it admits every row of the partition. */
  readonly admitsAll: boolean;
  /** As in `SharedCopy`. */
  readonly uses: Uint32Array;
}

/** What the event loop is told of filters. */
export type AdmittedNews =
  | { readonly copied: SharedCopy }
  | { readonly masked: SharedMask }
  | { readonly dropped: AdmittedName };
