// Brings rows to one length as they are read, where the graph does so before the product with a query
// (`tf.nn.l2_normalize`, a division by `tf.norm`).

import type { RowLength, RowNormalisation } from "./stored-table.ts";

/** Normalises rows in place, in float32 as a graph does: every intermediate result is rounded. */
export function normaliseRows(values: Float32Array, dim: number, how: RowNormalisation): void {
  for (let start = 0; start < values.length; start += dim) {
    const end = start + dim;
    let sum = 0;
    for (let at = start; at < end; at += 1) sum += Math.fround(values[at]! * values[at]!);
    const root = Math.sqrt(bounded(Math.fround(sum), how.squares));
    const length = bounded(Math.fround(root), how.length);
    if (how.operation === "reciprocal") {
      const factor = Math.fround(Math.min(1 / root, how.factorMax ?? Infinity));
      for (let at = start; at < end; at += 1) values[at]! *= factor;
    } else {
      const isZero = how.operation === "divisionOrZero" && length === 0;
      for (let at = start; at < end; at += 1) values[at] = isZero ? 0 : values[at]! / length;
    }
  }
}

function bounded(value: number, bound: RowLength | undefined): number {
  if (bound === undefined) return value;
  const limit = Math.fround(bound.value);
  return bound.kind === "atLeast" ? Math.max(value, limit) : Math.fround(value + limit);
}
