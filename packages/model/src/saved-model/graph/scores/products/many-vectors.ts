// Scores of queries that have several vectors each (the interests of a user), of which the best one counts:
// `reduce_max(einsum("bvd,nd->bvn", interests, items), axis=1)`. What follows for the search stands in
// core/program/search/many-vector-search.ts.

import type { GraphValue } from "../../graph-value.ts";
import { integerOf, integersOf, producerOf } from "../../graph-value.ts";
import {
  withRemovedAxis,
  withoutAddedAxis,
  withoutRearrangement,
} from "../values/rearrangement.ts";
import { anyItemsOf } from "./item-tower.ts";
import { unrepeatedFor } from "./repeated-items.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import {
  BATCH_PRODUCTS,
  equationOf,
  isSet,
  leftSide,
  matrixSidesOf,
  ofAllQueries,
  operandsOf,
  rightSide,
  sideOfAll,
} from "./score-product.ts";
import type { ScoreProduct, Side } from "./score-product.ts";

/** Vectors of a query; each is a search of its own. */
const VECTORS_MAX = 256;

/** Scores of which the best over one axis are ranked. */
interface BestOfVectors {
  /** `[queries, vectors, items]`, or `[queries, items, vectors]`. */
  readonly scores: GraphValue;
  /** The axis of the vectors. */
  readonly vectorAxis: 1 | 2;
}

const AXES: ReadonlyMap<number, 1 | 2> = new Map([
  [1, 1],
  [-2, 1],
  [2, 2],
  [-1, 2],
]);

/** The scores of all vectors behind the best of them; `undefined` for any other value. */
export function bestOfVectors(value: GraphValue): BestOfVectors | undefined {
  const kept = producerOf(value, "Squeeze", "Reshape")?.inputs[0];
  const node = producerOf(value, "Max") ?? (kept && producerOf(kept, "Max"));
  if (node === undefined) return undefined;
  const [scores, axes] = node.inputs;
  const vectorAxis = AXES.get(integerOf(axes) ?? NaN);
  if (scores?.shape?.length !== 3 || vectorAxis === undefined) return undefined;
  // An axis that the best are kept with is taken away.
  const removed = withRemovedAxis(value, vectorAxis);
  if (removed !== (isSet(node, "keep_dims") ? kept : undefined)) return undefined;
  return { scores: withoutRearrangement(scores), vectorAxis };
}

/** Recognises a product of several vectors of each query and stored candidates. */
export function manyVectorProductOf(
  value: GraphValue,
  vectorAxis: 1 | 2,
  scalars: ScalarReader,
): ScoreProduct | undefined {
  const sides = sidesOfEinsum(value, vectorAxis) ?? sidesOf(value, vectorAxis);
  if (sides?.query.dtype !== "float32") return undefined;
  const { query, items } = sides;
  const vectors = query.shape?.[1] ?? -1;
  if (vectors < 1 || vectors > VECTORS_MAX) return undefined;
  const searched = anyItemsOf(items, scalars);
  const node = value.producer?.kind === "operation" ? value.producer : undefined;
  return searched && { query, vectors, ...searched, node };
}

/** The sides of a product of `[queries, positions, dim]`, in any number of positions, and a matrix of items. */
export function sequenceSidesOf(value: GraphValue): ManyVectorSides | undefined {
  return sidesOfEinsum(value, 1) ?? sidesOfBatch(value);
}

interface ManyVectorSides {
  /** `[queries, vectors, dim]`. */
  readonly query: GraphValue;
  readonly items: Side;
}

function sidesOf(value: GraphValue, vectorAxis: 1 | 2): ManyVectorSides | undefined {
  if (vectorAxis === 1) return sidesOfBatch(value) ?? sidesOfFlat(value) ?? sidesOfSum(value);
  const before = turnedWithin(value);
  if (before === undefined) return sidesOfTurnedBatch(value);
  return sidesOfEinsum(before, 1) ?? sidesOf(before, 1);
}

/** `[queries, a, b]` of which a value is `[queries, b, a]`. */
function turnedWithin(value: GraphValue): GraphValue | undefined {
  const [before, order] = producerOf(value, "Transpose")?.inputs ?? [];
  return integersOf(order)?.join() === "0,2,1" ? before && withoutRearrangement(before) : undefined;
}

/** The items of all and each query's vectors, the other way round: `matmul(items, interests, transpose_b=True)`. */
function sidesOfTurnedBatch(value: GraphValue): ManyVectorSides | undefined {
  const product = producerOf(value, ...BATCH_PRODUCTS);
  const [items, right] = operandsOf(product) ?? [];
  const left = items && ofAllQueries(unrepeatedFor(right!, items));
  if (product === undefined || right === undefined || left?.shape?.length !== 2) return undefined;
  const vectors = withoutRearrangement(right);
  const query = isSet(product, "adj_y") ? vectors : turnedWithin(vectors);
  return query?.shape?.length === 3 ? { query, items: leftSide(product, left) } : undefined;
}

/** A matrix product of each query's vectors and the items of all. */
function sidesOfBatch(value: GraphValue): ManyVectorSides | undefined {
  const product = producerOf(value, ...BATCH_PRODUCTS);
  const [left, right] = operandsOf(product) ?? [];
  if (product === undefined || left === undefined || right === undefined) return undefined;
  const items = sideOfAll(right, left, (matrix) => rightSide(product, matrix));
  const query = withoutRearrangement(left);
  if (items === undefined || query.shape?.length !== 3 || isSet(product, "adj_x")) return undefined;
  return { query, items };
}

/** `bvd,nd->bvn`, `nd,bvd->bnv` and equals. */
function sidesOfEinsum(value: GraphValue, vectorAxis: 1 | 2): ManyVectorSides | undefined {
  const node = producerOf(value, "Einsum");
  const operands = operandsOf(node);
  const equation = node === undefined ? "" : equationOf(node);
  const parts = /^([a-z]+),([a-z]+)->([a-z]{3})$/i.exec(equation)?.slice(1);
  if (operands === undefined || parts === undefined) return undefined;
  const ofQuery = parts[0]!.length === 3 ? 0 : 1;
  const kept = keptAxisOf(parts[ofQuery]!, parts[1 - ofQuery]!, { result: parts[2]!, vectorAxis });
  if (kept === undefined) return undefined;
  const items = { matrix: operands[1 - ofQuery]!, kept };
  return { query: withoutRearrangement(operands[ofQuery]), items };
}

/** The axis of the items that a product of `[queries, vectors, dim]` keeps, by the letters of its axes. */
function keptAxisOf(
  query: string,
  items: string,
  { result, vectorAxis }: { readonly result: string; readonly vectorAxis: 1 | 2 },
): 0 | 1 | undefined {
  if (query.length !== 3 || items.length !== 2) return undefined;
  const [instance, vector, dimension] = Array.from(query);
  const kept = items[0] === dimension ? 1 : 0;
  const item = items[kept]!;
  const isProduct =
    new Set([instance, vector, dimension, item]).size === 4 && items[1 - kept] === dimension;
  const wanted = vectorAxis === 1 ? [instance, vector, item] : [instance, item, vector];
  return isProduct && result === wanted.join("") ? kept : undefined;
}

/** `tf.tensordot`: a product of matrices, of which one has the vectors of all queries in its rows. */
function sidesOfFlat(value: GraphValue): ManyVectorSides | undefined {
  const flat = producerOf(value, "Reshape")?.inputs[0];
  const [rows, items] = (flat && matrixSidesOf(flat)) ?? [];
  if (rows?.kept !== 0 || items === undefined) return undefined;
  const query = flattenedOf(rows.matrix);
  return query !== undefined && query.shape?.[1] === value.shape?.[1]
    ? { query, items }
    : undefined;
}

/** The `[queries, vectors, dim]` whose vectors are the rows of a matrix. */
function flattenedOf(matrix: GraphValue): GraphValue | undefined {
  const apart = producerOf(withoutRearrangement(matrix), "Reshape")?.inputs[0];
  const query = apart && withoutRearrangement(apart);
  const [, vectors = -1, dim = -1] = query?.shape?.length === 3 ? query.shape : [];
  return vectors > 0 && dim > 0 && dim === matrix.shape?.[1] ? query : undefined;
}

/** Σ over the last axis of [queries, vectors, 1, dim] · [items, dim]. */
function sidesOfSum(value: GraphValue): ManyVectorSides | undefined {
  const sum = producerOf(value, "Sum");
  const [summed, axes] = operandsOf(sum) ?? [];
  const isLast = [3, -1].includes(integerOf(axes) ?? NaN);
  if (sum === undefined || summed === undefined || !isLast) return undefined;
  const [left, right] = operandsOf(producerOf(summed, "Mul")) ?? [];
  if (left === undefined || right === undefined || isSet(sum, "keep_dims")) return undefined;
  return broadcastSides(left, right) ?? broadcastSides(right, left);
}

function broadcastSides(queries: GraphValue, items: GraphValue): ManyVectorSides | undefined {
  const query = withoutAddedAxis(queries, 2);
  const isProduct = items.shape?.length === 2 && items.shape[1] === query?.shape?.[2];
  return query && isProduct ? { query, items: { matrix: items, kept: 0 } } : undefined;
}
