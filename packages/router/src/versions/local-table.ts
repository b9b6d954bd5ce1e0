// A keyed table that is so small that it came with the program: looked up in this process, which saves a
// round trip.

import type { InlineTable, KeyedTable, Tensor } from "@winnow/core";
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
      const localRows = index.localRows(flat(keys));
      const rows = new Float32Array(localRows.length * dim);
      for (let position = 0; position < localRows.length; position += 1) {
        const from = localRows[position]! * dim;
        const to = position * dim;
        for (let at = 0; at < dim; at += 1) rows[to + at] = values[from + at]!;
      }
      return tensor("float32", [...keys.shape, dim], rows);
    },
  };
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
