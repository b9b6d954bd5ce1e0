// Keys → local rows of one partition of a keyed table.

import type { KeyedPartition } from "./keyed-partition.ts";
import type { TableKeys } from "./program/program.ts";
import type { Tensor } from "./tensor.ts";

/** A partition that can be asked for its rows. */
export interface KeyIndex {
  /**
   * Local row of each key of a one-dimensional tensor; every key must belong to this partition.
   * @throws WinnowError INVALID_ARGUMENT for a row outside the table or a key that must be known
   */
  localRows(keys: Tensor): Uint32Array;
  /** Bytes the index occupies beyond the partition's own arrays. */
  readonly bytes: number;
}

/** How a key index answers, and what it is of. */
export interface KeyedTableKeys {
  readonly keys: TableKeys;
  /** Rows of the whole table, for the range check of row keys. */
  readonly rows: number;
}

/** Indexes one partition. */
export function createKeyIndex(table: KeyedTableKeys, partition: KeyedPartition): KeyIndex {
  throw new RangeError(`${table.rows} ${partition.globalRows.length}`);
}
