// Scores that a layer makes of the products of a query and an item, dimension by dimension: generalised matrix
// factorisation, `Dense(1)(q[:, None] * items)` (He et al., "Neural Collaborative Filtering", 2017, equation 11). What the
// layer weighs may as well be weighed in the query:
//
//   h · (q ∘ item) = (q ∘ h) · item
//
// The layer leaves an axis of size 1 behind, which a graph takes away at once, or behind a bias and a function.

import { elementCount } from "@winnow/core";
import { integerOf, producerOf } from "../../graph-value.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import { anyItemsOf } from "./item-tower.ts";
import { withRemovedAxis, withoutRearrangement } from "../values/rearrangement.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { BATCH_PRODUCTS, broadcastProductOf, isSet, operandsOf } from "./score-product.ts";
import type { ScoreProduct } from "./score-product.ts";

/** Recognises a weighed product of queries and items, `[queries, items]` or `[queries, items, 1]`. */
export function gatedProductOf(value: GraphValue, scalars: ScalarReader): ScoreProduct | undefined {
  const { products, weights } = value.dtype === "float32" ? (weighedIn(value) ?? {}) : {};
  const sides = products && broadcastProductOf(withoutRearrangement(products));
  if (weights === undefined || sides === undefined) return undefined;
  const [{ matrix: query }, items] = sides;
  const areFloats = query.dtype === "float32" && weights.dtype === "float32";
  const searched = areFloats ? anyItemsOf(items, scalars) : undefined;
  if (searched === undefined) return undefined;
  const node = operationOf(value);
  const dim = query.shape![1]!;
  const changes = [{ kind: "weighted", by: weights, dim, isDivisor: false }] as const;
  return { query, ...searched, node, changes };
}

/** `[queries, items, dim]` whose last axis is summed, each dimension with a weight of its own. */
interface Weighed {
  readonly products: GraphValue;
  readonly weights: GraphValue;
}

function weighedIn(value: GraphValue): Weighed | undefined {
  const found = ofBatches(value) ?? ofFlatRows(value) ?? ofEinsum(value) ?? ofSum(value);
  // Weights that each query has of its own are another product.
  const weights = elementCount(found?.weights.shape ?? [-1]);
  return weights === found?.products.shape?.[2] ? found : undefined;
}

/** matmul(products, weights), with an axis of size 1 or without it. */
function ofBatches(value: GraphValue): Weighed | undefined {
  const whole = value.shape?.length === 2 ? withRemovedAxis(value, 2) : value;
  const node = whole && producerOf(withoutRearrangement(whole), ...BATCH_PRODUCTS);
  const [products, weights] = operandsOf(node) ?? [];
  const isPlain = node !== undefined && !isSet(node, "adj_x");
  return isPlain && weights && isOfVector(products, value) ? { products, weights } : undefined;
}

/** The same with the queries and items on one axis, as `tf.tensordot` and Keras' Dense write it. */
function ofFlatRows(value: GraphValue): Weighed | undefined {
  const flat = columnOf(producerOf(value, "Reshape")?.inputs[0]);
  const products = flat && producerOf(withoutRearrangement(flat.rows), "Reshape")?.inputs[0];
  const isOfRows = products?.shape?.at(-1) === flat?.rows.shape?.[1];
  if (flat === undefined || !isOfRows || !isOfVector(products, value)) return undefined;
  return { products, weights: flat.weights };
}

/** The rows and the weights of a product of matrices, `[rows, 1]`. */
function columnOf(
  value: GraphValue | undefined,
): { readonly rows: GraphValue; readonly weights: GraphValue } | undefined {
  const node = value && producerOf(withoutRearrangement(value), "MatMul");
  const operands = operandsOf(node);
  if (node === undefined || operands === undefined || isSet(node, "transpose_a")) return undefined;
  const [rows, weights] = operands;
  const isColumn = value?.shape?.[1] === 1 && rows.shape?.length === 2;
  return isColumn ? { rows, weights } : undefined;
}

/** einsum("bnd,d->bn", products, weights), einsum("bnd,do->bno", products, weights). */
function ofEinsum(value: GraphValue): Weighed | undefined {
  const node = producerOf(value, "Einsum");
  const [products, weights] = operandsOf(node) ?? [];
  const equation = node?.attributes.text("equation").replaceAll(" ", "") ?? "";
  const [, kept, summed, others = "", result] =
    /^([a-z]{2})([a-z]),\2([a-z]?)->([a-z]{2,3})$/i.exec(equation) ?? [];
  const isSum = summed !== undefined && result === `${kept}${others}`;
  const areDistinct = new Set(`${kept}${summed}${others}`).size === 3 + others.length;
  if (!isSum || !areDistinct || weights === undefined) return undefined;
  return isOfVector(products, value) ? { products, weights } : undefined;
}

/** reduce_sum(products · weights, -1), with an axis of size 1 or without it. */
function ofSum(value: GraphValue): Weighed | undefined {
  const sum = producerOf(value, "Sum");
  const [weighed, axes] = operandsOf(sum) ?? [];
  const factors = weighed && operandsOf(producerOf(withoutRearrangement(weighed), "Mul"));
  if (factors === undefined || ![2, -1].includes(integerOf(axes) ?? NaN)) return undefined;
  const [left, right] = factors;
  const isOnLeft = isOfVector(left, value) && isAlongLast(right);
  if (isOnLeft) return { products: left, weights: right };
  return isOfVector(right, value) && isAlongLast(left)
    ? { products: right, weights: left }
    : undefined;
}

/** Whether a value has all of its elements along its last axis. */
function isAlongLast({ shape }: GraphValue): boolean {
  return shape?.slice(0, -1).every((size) => size === 1) === true;
}

/** Whether a value has the sizes of products, `[queries, items, dim]`, of which another one keeps queries and items. */
function isOfVector(products: GraphValue | undefined, value: GraphValue): products is GraphValue {
  const [queries, items, dim, ...more] = products?.shape ?? [];
  const [, kept, last = 1, ...others] = value.shape ?? [];
  if (queries === undefined || items === undefined || dim === undefined) return false;
  const isWhole = items > 1 && dim > 0 && more.length + others.length === 0;
  return isWhole && kept === items && last === 1;
}

const FUNCTIONS_MAX = 8;

/** A weighed product, and what is done to it, before the axis that its layer left is taken away; or the value itself. */
export function withoutLayerAxis(value: GraphValue): GraphValue {
  const whole = withRemovedAxis(value, 2);
  return whole !== undefined && isWeighed(whole) ? whole : value;
}

/** Operations over all items, which an axis of size 1 behind them makes others. */
const OF_ALL_ITEMS: ReadonlySet<string> = new Set(["Softmax", "LogSoftmax"]);

/** Whether a value is a weighed product with an axis of size 1, behind operations on each score that leave its sizes as they are. */
function isWeighed(value: GraphValue): boolean {
  let below = value;
  for (let step = 0; step <= FUNCTIONS_MAX; step += 1) {
    const plain = withoutRearrangement(below);
    if (plain.shape?.length !== 3 || plain.shape[2] !== 1) return false;
    if (weighedIn(plain) !== undefined) return true;
    const node = operationOf(plain);
    const next = node?.inputs.find(({ shape }) => shape?.length === 3);
    if (node === undefined || next === undefined || OF_ALL_ITEMS.has(node.op)) return false;
    below = next;
  }
  return false;
}

function operationOf({ producer }: GraphValue): OperationNode | undefined {
  return producer?.kind === "operation" ? producer : undefined;
}
