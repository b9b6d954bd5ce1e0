// The vectors of a query: as a matrix of floats, and with one value more for each bias.

import { numberOfDtype } from "../../../bundle/data-type.ts";
import type { AttributeValue } from "../../definition/attributes.ts";
import { constantValue } from "../../graph-value.ts";
import type { GraphValue } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import { otherAxis } from "../products/candidate-matrix.ts";
import type { ScoreProduct } from "../products/score-product.ts";
import type { ItemBias } from "../steps/score-steps.ts";
import { applied, reshaped } from "../values/added-operations.ts";

/** A product whose query is a matrix: that of all vectors of all queries, or without an axis of size 1. */
export function withFlatQuery(lowering: Lowering, product: ScoreProduct): ScoreProduct {
  if (product.query.dtype === "int8") {
    return { ...product, query: asFloats(lowering, product.query) };
  }
  if (product.vectors === undefined && product.query.shape?.length !== 3) return product;
  return { ...product, query: vectorsOf(lowering, product.query, dimOf(product)) };
}

/** Values of a product's query vectors. */
function dimOf({ candidates: { shape }, itemAxis }: ScoreProduct): number {
  return shape[otherAxis(itemAxis)];
}

/** Queries as a matrix whose rows have this many values. */
export function vectorsOf(lowering: Lowering, query: GraphValue, dim: number): GraphValue {
  const name = `${query.producer?.name ?? "query"}/vectors`;
  return reshaped(lowering, query, { name, sizes: [-1, dim] });
}

/** Integers of a quantised layer, all of which are float32 values. */
function asFloats(lowering: Lowering, query: GraphValue): GraphValue {
  const name = `${query.producer?.name ?? "query"}/floats`;
  const attributes = new Map<string, AttributeValue>([
    ["SrcT", { kind: "type", value: numberOfDtype("int8") }],
    ["DstT", { kind: "type", value: numberOfDtype("float32") }],
  ]);
  return applied(lowering, "Cast", { name, of: [query], attributes });
}

/** Queries with the weight of a bias behind them: a constant, or a value of each query. */
export function withBias(
  lowering: Lowering,
  query: GraphValue,
  { factor, weight }: ItemBias,
): GraphValue {
  if (weight === undefined) return withDimension(lowering, query, factor);
  const name = `${weight.producer?.name ?? "weight"}/bias`;
  const scale = constantValue({ dtype: "float32", shape: [], data: Float32Array.of(factor) });
  const scaled = applied(lowering, "Mul", { name, of: [weight, scale] });
  const axis = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(1) });
  const attributes = new Map<string, AttributeValue>([["N", { kind: "int", value: 2 }]]);
  return applied(lowering, "ConcatV2", { name, of: [query, scaled, axis], attributes });
}

/** Queries with a constant behind them. */
function withDimension(lowering: Lowering, query: GraphValue, weight: number): GraphValue {
  const data = Int32Array.of(0, 0, 0, 1);
  const paddings = constantValue({ dtype: "int32", shape: [2, 2], data });
  const filler = constantValue({ dtype: "float32", shape: [], data: Float32Array.of(weight) });
  const name = `${query.producer?.name ?? "query"}/bias`;
  return applied(lowering, "PadV2", { name, of: [query, paddings, filler] });
}
