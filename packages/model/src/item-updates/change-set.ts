// What lines of changes come to, and lines that are appended to them: without reading those of before again. The last change
// of an item counts, so one of before is left out where a later one is of the same item.

import { IdIndex, StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";

/** What the lines of a file come to. */
export interface ItemChangeSet {
  /** Ids of all items that they name, in the order of their last lines. */
  readonly names: Tensor;
  /** By name: 1 for an item with a vector, 0 for one that is removed. */
  readonly hasVector: Uint8Array;
  /** Finds the names. */
  readonly changed: IdIndex;
  /** Ids `[rows]` of items with a vector, in the same order, and the vectors, `[rows, dim]`. */
  readonly ids: Tensor;
  readonly values: Float32Array<ArrayBuffer>;
}

/** What both come to, one after the other. */
export function withMoreChanges(before: ItemChangeSet, more: ItemChangeSet): ItemChangeSet {
  const isReplaced = new Uint8Array(before.names.data.length);
  for (let at = 0; at < more.names.data.length; at += 1) {
    const name = before.changed.rowOf(more.names, at);
    if (name >= 0) isReplaced[name] = 1;
  }
  const isRowReplaced = isReplaced.filter((_, name) => before.hasVector[name] === 1);
  const kept = positionsOf(isReplaced);
  const keptRows = positionsOf(isRowReplaced);
  const names = joined(before.names, kept, more.names);
  const hasVector = new Uint8Array(kept.length + more.hasVector.length);
  hasVector.set(before.hasVector.filter((_, name) => isReplaced[name] === 0));
  hasVector.set(more.hasVector, kept.length);
  return {
    names,
    hasVector,
    changed: IdIndex.of(names),
    ids: joined(before.ids, keptRows, more.ids),
    values: joinedVectors(before, keptRows, more),
  };
}

/** Where a zero is. */
function positionsOf(marks: Uint8Array): Uint32Array {
  const positions = new Uint32Array(marks.length);
  let count = 0;
  for (let at = 0; at < marks.length; at += 1) {
    positions[count] = at;
    if (marks[at] === 0) count += 1;
  }
  return positions.subarray(0, count);
}

/** The ids at some positions, and all others behind them. */
function joined(before: Tensor, kept: Uint32Array, more: Tensor): Tensor {
  const rows = kept.length + more.data.length;
  const shape = [rows];
  if (before.dtype === "string" && more.dtype === "string") {
    const data = StringColumn.joined([before.data.take(kept), more.data]);
    return { dtype: "string", shape, data };
  }
  if (before.dtype === "int32" && more.dtype === "int32") {
    const data = new Int32Array(rows);
    for (let at = 0; at < kept.length; at += 1) data[at] = before.data[kept[at]!]!;
    data.set(more.data, kept.length);
    return { dtype: "int32", shape, data };
  }
  if (before.dtype !== "int64" || more.dtype !== "int64") {
    throw new RangeError(`ids of ${before.dtype} and of ${more.dtype}`);
  }
  const data = new BigInt64Array(rows);
  for (let at = 0; at < kept.length; at += 1) data[at] = before.data[kept[at]!]!;
  data.set(more.data, kept.length);
  return { dtype: "int64", shape, data };
}

/** The vectors at some positions, and all others behind them. Those that stay together are copied together. */
function joinedVectors(
  before: ItemChangeSet,
  kept: Uint32Array,
  more: ItemChangeSet,
): Float32Array<ArrayBuffer> {
  const dim = dimOf(before) ?? dimOf(more) ?? 0;
  const values = new Float32Array(kept.length * dim + more.values.length);
  for (let from = 0, end = 0; from < kept.length; from = end) {
    const first = kept[from]!;
    while (end < kept.length && kept[end]! - first === end - from) end += 1;
    values.set(before.values.subarray(first * dim, (first + end - from) * dim), from * dim);
  }
  values.set(more.values, kept.length * dim);
  return values;
}

/** `undefined` where there are no vectors. */
function dimOf({ ids, values }: ItemChangeSet): number | undefined {
  return ids.data.length === 0 ? undefined : values.length / ids.data.length;
}
