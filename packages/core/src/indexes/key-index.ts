// Keys → local rows of one partition of a keyed table, for a worker's answers to Lookup. Vocabulary
// keys are found in an open-addressing table of 8 to 16 bytes per key; rows are found by bisection,
// so that nothing else is stored. Unknown keys are treated as in Keras' StringLookup and
// IntegerLookup.

import { WinnowError, excerpt } from "../errors/errors.ts";
import type { KeyedPartition } from "../partition/keyed-partition.ts";
import { hashBucketFast } from "../program/hashes/farm-hash.ts";
import type { MissingKey, TableKeys } from "../program/program.ts";
import { type RepeatedKey, indexVocabulary } from "../program/vocabulary-index.ts";
import type { Tensor } from "../tensor/tensor.ts";

/** Finds the rows of keys in one partition. */
export interface KeyIndex {
  /**
   * Local row of each key of a one-dimensional tensor; every key must belong to this partition.
   * @throws WinnowError INVALID_ARGUMENT for a row outside of the table or the partition, for an
   * unknown key of a table that refuses these, or for keys of another dtype
   */
  localRows(keys: Tensor): Uint32Array;
  /**
   * For each key of a one-dimensional tensor 1, or 0 where it is treated as unknown. A mask token is known: it has a row
   * of its own. @throws WinnowError INVALID_ARGUMENT for keys of another dtype
   */
  known(keys: Tensor): Uint8Array;
  /**
   * The hash table of a vocabulary's keys, in shared memory if the keys are: with it, another thread indexes the same
   * partition without work. `undefined` for rows.
   */
  readonly slots: Int32Array | undefined;
}

/** The keys of a keyed table; a `KeyedTable` is one. */
export interface KeyedTableKeys {
  readonly keys: TableKeys;
  /** Rows of the whole table, for the range check of row keys. */
  readonly rows: number;
}

/**
 * Indexes one partition, with the slots of another index of it if there are any.
 * @throws WinnowError DATA_LOSS when its keys do not fit the table's
 */
export function createKeyIndex(
  table: KeyedTableKeys,
  partition: KeyedPartition,
  slots?: Int32Array,
): KeyIndex {
  return table.keys.kind === "row"
    ? rowIndex(table.rows, partition)
    : vocabularyIndex(table.keys, partition, slots);
}

function rowIndex(rows: number, partition: KeyedPartition): KeyIndex {
  return {
    localRows(keys) {
      if (keys.dtype !== "int64" && keys.dtype !== "int32") throw wrongDtype(keys, "int64");
      const local = new Uint32Array(keys.data.length);
      for (let at = 0; at < local.length; at += 1) {
        const row = Number(keys.data[at]!);
        if (row < 0 || row >= rows) {
          const text = `indices[${at}] = ${keys.data[at]} is not in [0, ${rows})`;
          throw new WinnowError("INVALID_ARGUMENT", text);
        }
        local[at] = localRowOf(partition, row);
      }
      return local;
    },
    known: (keys) => new Uint8Array(keys.data.length).fill(1),
    slots: undefined,
  };
}

type VocabularyKeys = TableKeys & { readonly kind: "vocabulary" };

function vocabularyIndex(
  table: VocabularyKeys,
  partition: KeyedPartition,
  slots: Int32Array | undefined,
): KeyIndex {
  const keys = partition.keys;
  if (keys?.dtype !== table.keyDtype || keys.data.length !== partition.keyRows.length) {
    throw new WinnowError("DATA_LOSS", `A partition without its ${table.keyDtype} keys`);
  }
  const values: Tensor = { dtype: "int64", shape: [0], data: new BigInt64Array() };
  const known = indexVocabulary({ name: "keys", keys, values }, slots);
  const fixed = indexVocabulary({ name: "fixed keys", keys: table.fixed.keys, values });
  if (known.repeated !== undefined) assertOneRow(partition, keys, known.repeated);
  const hasFixed = table.fixed.rows.length > 0;
  const { globalRows, keyRows } = partition;
  // Where the other rows, those of unknown keys and of fixed ones, come before those of the keys, as they do in most
  // tables, this is their number.
  const others = globalRows.length - keyRows.length;
  return {
    slots: known.slots,
    localRows(asked) {
      if (asked.dtype !== table.keyDtype) throw wrongDtype(asked, table.keyDtype);
      const positions = known.positionsOf(asked);
      const fixedPositions = hasFixed ? fixed.positionsOf(asked) : undefined;
      const local = new Uint32Array(positions.length);
      // Read for all keys first, as in a vocabulary's index: such reads wait for memory together.
      let read = 0;
      for (let at = 0; at < local.length; at += 1) {
        const position = positions[at]!;
        if (position >= 0) read |= keyRows[position]! | globalRows[position + others]!;
      }
      if (local.length > 0) local[0] = read;
      for (let at = 0; at < local.length; at += 1) {
        const fixedRow = fixedPositions && fixedRowAt(table, fixedPositions[at]!);
        const position = positions[at]!;
        const row = fixedRow ?? keyRows[position] ?? rowOfMissing(table.missing, asked, at);
        const expected = position + others;
        local[at] = globalRows[expected] === row ? expected : localRowOf(partition, row);
      }
      return local;
    },
    known(asked) {
      if (asked.dtype !== table.keyDtype) throw wrongDtype(asked, table.keyDtype);
      const positions = known.positionsOf(asked);
      const fixedPositions = hasFixed ? fixed.positionsOf(asked) : undefined;
      return Uint8Array.from(positions, (position, at) =>
        Number(position >= 0 || (fixedPositions?.[at] ?? -1) >= 0),
      );
    },
  };
}

/** `undefined` for −1, with which no array should be asked: V8 looks it up as it does a name. */
function fixedRowAt({ fixed }: VocabularyKeys, position: number): number | undefined {
  return position < 0 ? undefined : fixed.rows[position];
}

/** Refuses a key that leads to two rows, as TensorFlow does: no answer for it would be right. */
function assertOneRow(
  { keyRows }: KeyedPartition,
  keys: Tensor,
  { first, second }: RepeatedKey,
): void {
  if (keyRows[first] === keyRows[second]) return;
  const key =
    keys.dtype === "string" ? excerpt(keys.data.textAt(first)) : String(dataAt(keys, first));
  const rows = `rows ${keyRows[first]} and ${keyRows[second]}`;
  const text = `The key "${key}" leads to ${rows}: its vocabulary has it twice and may be damaged`;
  throw new WinnowError("DATA_LOSS", text);
}

function rowOfMissing(missing: MissingKey, keys: Tensor, at: number): number {
  if (missing.kind === "row") return missing.row;
  if (missing.kind === "hash") return missing.firstRow + bucketOf(keys, at, missing.buckets);
  const key = keys.dtype === "string" ? excerpt(keys.data.textAt(at)) : String(dataAt(keys, at));
  const text =
    "When `num_oov_indices=0` all inputs should be in vocabulary, " +
    `found OOV values ["${key}"], consider setting \`num_oov_indices=1\`.`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

function bucketOf(keys: Tensor, at: number, buckets: number): number {
  if (keys.dtype === "string") return hashBucketFast(keys.data.at(at), buckets);
  const count = BigInt(buckets);
  const rest = BigInt(dataAt(keys, at)) % count;
  return Number(rest < 0n ? rest + count : rest);
}

function dataAt(keys: Tensor, at: number): number | bigint {
  if (keys.dtype === "string") throw new RangeError("a string where a number belongs");
  return keys.data[at]!;
}

/** Rows on each side of where a row is expected, among which it is looked for first. */
const NEAR_ROWS = 2 ** 9;

/**
 * Position of a global row in the partition, by bisection. Keys are spread over partitions by their hash, so that the rows
 * of one are spread evenly, and a row lies near its share of the way from the first one to the last one. Bisection among
 * its neighbours stays in few lines of memory; in all rows of a large partition it would miss the cache at each step.
 */
function localRowOf({ globalRows }: KeyedPartition, row: number): number {
  let low = 0;
  let high = globalRows.length;
  if (high > 2 * NEAR_ROWS) {
    const [first, last] = [globalRows[0]!, globalRows[high - 1]!];
    const expected = Math.floor(((row - first) / (last - first)) * (high - 1));
    const [before, behind] = [expected - NEAR_ROWS, expected + NEAR_ROWS];
    if (before >= 0 && before < high && globalRows[before]! < row) low = before + 1;
    if (behind >= low && behind < high && globalRows[behind]! >= row) high = behind;
  }
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (globalRows[middle]! < row) low = middle + 1;
    else high = middle;
  }
  if (globalRows[low] === row) return low;
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `Row ${row} does not lie in the partition asked for it`,
  );
}

function wrongDtype(keys: Tensor, wanted: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Keys of type ${keys.dtype} where ${wanted} belongs`);
}
