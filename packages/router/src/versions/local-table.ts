// A keyed table that is so small that it came with the program: looked up in this process, which saves a
// round trip.

import type { InlineTable, KeyedTable, StringColumn, Tensor } from "@winnow/core";
import { createKeyIndex, tensor } from "@winnow/core";

/** A keyed table that this process holds completely. */
export interface LocalTable {
  /** Rows of keys of any shape, float32 `[...keys, dim]`. @throws WinnowError INVALID_ARGUMENT */
  lookup(keys: Tensor): Tensor;
  /** For each key 1, or 0 where the table does not know it. @throws WinnowError INVALID_ARGUMENT */
  known(keys: Tensor): Uint8Array;
}

/** Indexes a table that came with its program. */
export function createLocalTable(
  table: KeyedTable,
  { partition, values }: InlineTable,
): LocalTable {
  const index = createKeyIndex({ keys: table.keys, rows: table.rows }, partition);
  const { dim } = table;
  return {
    known: (keys) => index.known(flat(keys)),
    lookup: (keys) => {
      const { starts, firsts } = runsOf(flat(keys));
      const localRows = index.localRows(firsts);
      const rows = new Float32Array(keys.data.length * dim);
      for (let run = 0; run < localRows.length; run += 1) {
        const from = localRows[run]! * dim;
        const to = starts[run]! * dim;
        for (let at = 0; at < dim; at += 1) rows[to + at] = values[from + at]!;
        repeat(rows, { from: to, length: dim, end: starts[run + 1]! * dim });
      }
      return tensor("float32", [...keys.shape, dim], rows);
    },
  };
}

/** Runs of equal keys: where each begins, with the number of keys at the end, and its key. */
interface Runs {
  readonly starts: readonly number[];
  readonly firsts: Tensor;
}

/**
 * A ranking looks one user up for each of hundreds of items. Numbers are runs of one, because an error names the
 * position of a number.
 */
function runsOf(keys: Tensor): Runs {
  const { length } = keys.data;
  if (keys.dtype !== "string") {
    return { starts: Array.from({ length: length + 1 }, (_, at) => at), firsts: keys };
  }
  const starts: number[] = [];
  for (let at = 0; at < length; at += 1) {
    if (at === 0 || !isSameAsBefore(keys.data, at)) starts.push(at);
  }
  const firsts = starts.length === length ? keys.data : keys.data.take(starts);
  starts.push(length);
  return { starts, firsts: { dtype: "string", shape: [firsts.length], data: firsts } };
}

function isSameAsBefore({ offsets, bytes }: StringColumn, at: number): boolean {
  const [before, from, end] = [offsets[at - 1]!, offsets[at]!, offsets[at + 1]!];
  const length = end - from;
  if (from - before !== length) return false;
  for (let byte = 0; byte < length; byte += 1) {
    if (bytes[before + byte] !== bytes[from + byte]) return false;
  }
  return true;
}

/** Fills values up to `end` with the `length` values at `from`, each time twice as many. */
function repeat(
  values: Float32Array,
  { from, length, end }: { readonly from: number; readonly length: number; readonly end: number },
): void {
  for (let filled = from + length; filled < end;) {
    const copied = Math.min(filled - from, end - filled);
    values.copyWithin(filled, from, from + copied);
    filled += copied;
  }
}

/** The keys as a one-dimensional tensor, with 32-bit row numbers widened. */
function flat(keys: Tensor): Tensor {
  const shape = [keys.data.length];
  if (keys.dtype !== "int32") return { ...keys, shape };
  return tensor(
    "int64",
    shape,
    BigInt64Array.from(keys.data, (key) => BigInt(key)),
  );
}
