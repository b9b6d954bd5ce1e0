// Scores of which the best of several products counts: `maximum(q · A, p · A)`, `reduce_max(stack([...]), 0)`. They are those
// of a query with several vectors (../products/many-vectors.ts):
//
//   max(q · A, w · (p · A)) = best of [q, w p] · A
//   max(q · A, p · B)       = best of [q ‖ 0, 0 ‖ p] · [A ‖ B]

import type { AttributeValue } from "../../definition/attributes.ts";
import { constantValue, integerOf, producerOf } from "../../graph-value.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import { anyItemsOf, TowerReading } from "../products/item-tower.ts";
import { isSet } from "../products/score-product.ts";
import type { ScoreProduct } from "../products/score-product.ts";
import { applied } from "../values/added-operations.ts";
import { withoutRearrangement } from "../values/rearrangement.ts";
import { scalarReader } from "../values/scalar-value.ts";
import { partsOf, scaledProductOf, scaledQuery } from "./summed-products.ts";
import type { Addend } from "./summed-products.ts";

/** Products of which the best counts, at most; each is a search of its own. */
const PRODUCTS_MAX = 16;

/** Recognises the best of several products of queries and items; `undefined` for any other value. */
export function bestProductOf(lowering: Lowering, value: GraphValue): ScoreProduct | undefined {
  const items = value.shape?.length === 2 ? value.shape[1]! : -1;
  return productOfAll(lowering, value, { items, rivals: rivalsOf(value) ?? [] });
}

/** Recognises several products that a graph stacks along the axis of vectors, of which the best is taken behind it. */
export function stackedProductOf(
  lowering: Lowering,
  value: GraphValue,
  vectorAxis: 1 | 2,
): ScoreProduct | undefined {
  const pack = value.shape?.length === 3 ? producerOf(value, "Pack") : undefined;
  const isOfVectors = atOf(pack?.attributes.int("axis", 0) ?? -1) === vectorAxis;
  const items = isOfVectors ? value.shape![vectorAxis === 1 ? 2 : 1]! : -1;
  return productOfAll(lowering, value, { items, rivals: pack?.inputs ?? [] });
}

function productOfAll(
  lowering: Lowering,
  { dtype, producer }: GraphValue,
  { items, rivals }: { readonly items: number; readonly rivals: readonly GraphValue[] },
): ScoreProduct | undefined {
  if (lowering.isInDataset || dtype !== "float32" || items < 2) return undefined;
  if (rivals.length < 2 || rivals.length > PRODUCTS_MAX) return undefined;
  const products = rivals.flatMap((rival) => scaledProductOf(rival) ?? []);
  if (products.length < rivals.length) return undefined;
  const scalars = scalarReader(lowering);
  const tower = new TowerReading(items, scalars);
  const parts = partsOf(products, tower);
  if (parts === undefined) return undefined;
  const isOfOne = parts.size === 1;
  const found = isOfOne ? anyItemsOf(products[0]!.items, scalars) : tower.joined([...parts.keys()]);
  const query = found && vectorsOf(lowering, { products, parts: [...parts.values()] });
  if (query === undefined) return undefined;
  return { query, vectors: products.length, ...found!, node: operationOf(producer) };
}

function operationOf(producer: GraphValue["producer"]): OperationNode | undefined {
  return producer?.kind === "operation" ? producer : undefined;
}

/** The scores of which a value has the best; `undefined` for any other value. */
function rivalsOf(value: GraphValue): readonly GraphValue[] | undefined {
  const stacked = stackedIn(value);
  if (stacked !== undefined) return stacked;
  const rivals = new Set([value]);
  for (const rival of rivals) {
    const pair = producerOf(withoutRearrangement(rival), "Maximum")?.inputs ?? [];
    if (!pair.every(({ shape }) => shape?.join() === value.shape?.join())) return undefined;
    if (pair.length === 0) continue;
    rivals.delete(rival);
    for (const each of pair) rivals.add(each);
    if (rivals.size > PRODUCTS_MAX) return undefined;
  }
  return rivals.size > 1 ? [...rivals] : undefined;
}

/** Of `reduce_max(stack([...], axis), axis)`. */
function stackedIn(value: GraphValue): readonly GraphValue[] | undefined {
  const node = producerOf(withoutRearrangement(value), "Max");
  const [stack, over] = node?.inputs ?? [];
  const pack = stack && producerOf(withoutRearrangement(stack), "Pack");
  const [axis, stackedAt] = [integerOf(over), pack?.attributes.int("axis", 0)];
  if (node === undefined || axis === undefined || stackedAt === undefined) return undefined;
  return !isSet(node, "keep_dims") && atOf(axis) === atOf(stackedAt) ? pack?.inputs : undefined;
}

/** Which of three axes is meant. */
function atOf(axis: number): number {
  return axis < 0 ? axis + 3 : axis;
}

/** `[queries, vectors, dim]`: each product's query where its items stand in the rows, and 0 where others do. */
function vectorsOf(
  lowering: Lowering,
  {
    products,
    parts,
  }: { readonly products: readonly Addend[]; readonly parts: readonly (readonly Addend[])[] },
): GraphValue | undefined {
  const name = products[0]!.query.producer?.name ?? "query";
  const widths = parts.map(([first]) => first!.query.shape?.[1] ?? -1);
  if (widths.some((width) => width < 1)) return undefined;
  const vectors = products.map((product) => {
    const query = scaledQuery(lowering, product, name);
    const at = parts.findIndex((part) => part.includes(product));
    const before = sumOf(widths.slice(0, at));
    const behind = sumOf(widths.slice(at + 1));
    if (before + behind === 0) return query;
    const data = Int32Array.of(0, 0, before, behind);
    const paddings = constantValue({ dtype: "int32", shape: [2, 2], data });
    return applied(lowering, "Pad", { name, of: [query, paddings] });
  });
  const attributes = new Map<string, AttributeValue>([
    ["N", { kind: "int", value: vectors.length }],
    ["axis", { kind: "int", value: 1 }],
  ]);
  return applied(lowering, "Pack", { name, of: vectors, attributes });
}

function sumOf(sizes: readonly number[]): number {
  return sizes.reduce((sum, size) => sum + size, 0);
}
