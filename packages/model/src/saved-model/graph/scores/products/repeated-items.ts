// Items that a graph repeats for each query before it multiplies them: `tile(items[None], [batch, 1, 1])` or
// `broadcast_to(items, [batch, n, dim])`, as models of Keras do whose layers want an axis of queries on both sides. A product
// with the items themselves is the same, as long as there are as many of them as queries.

import type { GraphValue } from "../../graph-value.ts";
import { integersOf, producerOf } from "../../graph-value.ts";
import { withoutAddedAxis, withoutRearrangement } from "../values/rearrangement.ts";

/** Values on the way from a query to what its batch size is taken of, at most. */
const VALUES_MAX = 512;

/** `[items, dim]` or `[1, items, dim]` before it was repeated for each of these queries; any other value itself. */
export function unrepeatedFor(query: GraphValue, value: GraphValue): GraphValue {
  const plain = withoutRearrangement(value);
  const [, items = -1, dim = -1, ...others] = plain.shape ?? [];
  if (items < 1 || dim < 1 || others.length > 0) return value;
  const once = tiled(plain, query) ?? spread(plain, query) ?? repeated(plain, query);
  return once?.shape?.slice(-2).join() === `${items},${dim}` ? once : value;
}

/** Of `tile(items[None], [batch, 1, 1])`. */
function tiled(value: GraphValue, query: GraphValue): GraphValue | undefined {
  const [once, times] = producerOf(value, "Tile")?.inputs ?? [];
  const isSingle = once?.shape?.length === 3 && once.shape[0] === 1;
  return isSingle && isForEach(query, value, countAt(times, 0)) ? once : undefined;
}

/** Of `broadcast_to(items, [batch, n, dim])`. */
function spread(value: GraphValue, query: GraphValue): GraphValue | undefined {
  const [once, sizes] = producerOf(value, "BroadcastTo")?.inputs ?? [];
  const isSingle = once?.shape?.length === 2 || once?.shape?.[0] === 1;
  return isSingle && isForEach(query, value, countAt(sizes, 0)) ? once : undefined;
}

/** Of `repeat(items[None], batch, axis=0)`, which tiles an axis of its own and joins it with the first one. */
function repeated(value: GraphValue, query: GraphValue): GraphValue | undefined {
  const [whole] = producerOf(value, "Reshape")?.inputs ?? [];
  const [apart, times] = (whole && producerOf(whole, "Tile")?.inputs) ?? [];
  const once = apart && withoutAddedAxis(apart, 1);
  const isFirst = once?.shape?.[0] === 1 && countAt(times, 1) !== undefined;
  return isFirst && isBatchOf(query, countAt(times, 1)) ? once : undefined;
}

/** One of the sizes that a graph puts together. */
function countAt(sizes: GraphValue | undefined, at: number): GraphValue | undefined {
  const counts = (sizes && producerOf(sizes, "Pack")?.inputs) ?? [];
  const count = counts.length >= 2 ? counts[at] : undefined;
  return count && withoutRearrangement(count);
}

/** Whether a value has as many parts as there are queries: one, or those that the first size says. */
function isForEach(query: GraphValue, value: GraphValue, count: GraphValue | undefined): boolean {
  return value.shape?.[0] === 1 || isBatchOf(query, count);
}

/** Whether a count is that of some queries: the first size of what these are computed of. */
function isBatchOf(query: GraphValue, count: GraphValue | undefined): boolean {
  const counted = count?.shape?.length === 0 ? countedBy(count) : undefined;
  const areOpen = [query, counted].every((each) => each?.shape?.[0] === -1);
  return counted !== undefined && areOpen && isMadeOf(query, counted);
}

/** The value of which a count is the first size. */
function countedBy(count: GraphValue): GraphValue | undefined {
  const [sizes, begin] = producerOf(count, "StridedSlice")?.inputs ?? [];
  const isFirst = integersOf(begin)?.join() === "0";
  return sizes && isFirst ? producerOf(sizes, "Shape")?.inputs[0] : undefined;
}

function isMadeOf(query: GraphValue, wanted: GraphValue): boolean {
  const values = new Set([query]);
  for (const { producer } of values) {
    for (const input of producer?.inputs ?? []) {
      if (values.size < VALUES_MAX) values.add(input);
    }
  }
  return values.has(wanted);
}
