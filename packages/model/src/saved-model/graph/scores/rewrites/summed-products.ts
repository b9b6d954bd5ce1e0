// Scores that are the sum of several products, as of a user's long-term and short-term interests, each with items of its
// own. They are one product of longer vectors:
//
//   w · (q · A) - p · B = [w q ‖ -p] · [A ‖ B]
//   q · A + p · A       = (q + p) · A
//
// So the rows of all matrices are put together as they are read (partitions/row-computation.ts), and the queries by a
// request's own steps.

import { constantValue, producerOf } from "../../graph-value.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import { anyItemsOf, rowsIn, TowerReading } from "../products/item-tower.ts";
import { matrixSidesOf, operandsOf, queryOf } from "../products/score-product.ts";
import type { QueryPart, ScoreProduct, Side } from "../products/score-product.ts";
import type { ItemValues } from "../products/tower-steps.ts";
import { applied } from "../values/added-operations.ts";
import { withoutRearrangement } from "../values/rearrangement.ts";
import { isSingle } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";

const ADDENDS_MAX = 32;

/** One of the products that are added. */
export interface Addend extends QueryPart {
  readonly items: Side;
}

/** Recognises a sum of products of queries and items; `undefined` for any other value. */
export function summedProductOf(
  value: GraphValue,
  scalars: ScalarReader,
): ScoreProduct | undefined {
  const items = value.shape?.length === 2 ? value.shape[1]! : -1;
  const isOfItems = value.dtype === "float32" && items > 1;
  const addends = isOfItems ? (addendsOf(value) ?? []) : [];
  const [first] = addends;
  if (first === undefined || addends.length < 2) return undefined;
  const tower = new TowerReading(items, scalars);
  const parts = partsOf(addends, tower);
  if (parts === undefined) return undefined;
  const found =
    parts.size === 1 ? anyItemsOf(first.items, scalars) : tower.joined([...parts.keys()]);
  const [query, node] = [first.query, operationOf(value)];
  return found && { query, ...found, node, parts: [...parts.values()] };
}

function operationOf({ producer }: GraphValue): OperationNode | undefined {
  return producer?.kind === "operation" ? producer : undefined;
}

/** The products by the values of their items. */
export function partsOf(
  addends: readonly Addend[],
  tower: TowerReading,
): ReadonlyMap<ItemValues, readonly Addend[]> | undefined {
  const parts = new Map<ItemValues, Addend[]>();
  for (const addend of addends) {
    const rows = rowsIn(addend.items);
    const values = rows && tower.valuesOf(rows);
    if (values === undefined) return undefined;
    parts.set(values, [...(parts.get(values) ?? []), addend]);
  }
  return parts;
}

/** The products whose sum a value is; `undefined` where it is the sum of something else too. */
function addendsOf(value: GraphValue): readonly Addend[] | undefined {
  const addends: Addend[] = [];
  const left: Scaled[] = [{ value, factors: [] }];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const plain = { ...next, value: withoutRearrangement(next.value) };
    const terms = termsOf(plain) ?? scaledOf(plain);
    if (terms !== undefined) {
      left.push(...terms);
    } else {
      const product = productOf(plain);
      if (product === undefined) return undefined;
      addends.push(product);
    }
    if (addends.length + left.length > ADDENDS_MAX) return undefined;
  }
  return addends;
}

/** A value that stands in a sum with some factors. */
interface Scaled {
  readonly value: GraphValue;
  readonly factors: QueryPart["factors"];
}

function termsOf({ value, factors }: Scaled): readonly Scaled[] | undefined {
  const node = producerOf(value, "Add", "AddV2", "AddN", "Sub", "Neg");
  if (node?.inputs.every(({ shape }) => shape?.length === 2) !== true) return undefined;
  const { op, inputs } = node;
  return inputs.map((input, at) => {
    const isNegative = op === "Neg" || (op === "Sub" && at === 1);
    return { value: input, factors: isNegative ? [...factors, { op: "Neg" }] : factors };
  });
}

/** Of scores and a factor; `Mul` has them either way round. */
const FACTORS = ["Mul", "MulNoNan", "RealDiv"] as const;

/** Scores times a number, or one for each query, or divided by it. */
function scaledOf({ value, factors }: Scaled): readonly Scaled[] | undefined {
  const node = producerOf(value, ...FACTORS);
  const operands = operandsOf(node);
  const at = node === undefined ? -1 : factorIn(node);
  const [factor, scores] = [operands?.[at], operands?.[1 - at]];
  if (node === undefined || factor === undefined || scores?.shape?.length !== 2) return undefined;
  const op = FACTORS.find((each) => each === node.op)!;
  return [{ value: scores, factors: [...factors, { op, operand: factor }] }];
}

/** Which operand is one number, or one for each query; -1 where none is. */
function factorIn({ op, inputs }: OperationNode): number {
  return inputs.findIndex((operand, at) => {
    const { dtype, shape } = operand;
    const isForAll = isSingle(operand) && shape!.length < 3;
    const isFactor = dtype === "float32" && (isForAll || shape?.join() === "-1,1");
    return isFactor && (op === "Mul" || at === 1);
  });
}

/** A product, or a multiple of one; `undefined` for any other value. */
export function scaledProductOf(value: GraphValue): Addend | undefined {
  let scaled: Scaled = { value: withoutRearrangement(value), factors: [] };
  for (let step = 0; step < ADDENDS_MAX; step += 1) {
    const product = productOf(scaled);
    if (product !== undefined) return product;
    const [below, ...others] = termsOf(scaled) ?? scaledOf(scaled) ?? [];
    if (below === undefined || others.length > 0) return undefined;
    scaled = { ...below, value: withoutRearrangement(below.value) };
  }
  return undefined;
}

function productOf({ value, factors }: Scaled): Addend | undefined {
  const [queries, items] = value.dtype === "float32" ? (matrixSidesOf(value) ?? []) : [];
  const query = queries && queryOf(queries);
  if (query?.dtype !== "float32" || items === undefined) return undefined;
  return { query, factors, items };
}

/** A product with one query for all of its parts. */
export function withJoinedQuery(
  lowering: Lowering,
  { parts = [], ...product }: ScoreProduct,
): ScoreProduct {
  const name = product.node?.name ?? "scores";
  const queries = parts.map((part) => {
    const [first, ...others] = part.map((each) => scaledQuery(lowering, each, name));
    return others.reduce(
      (sum, query) => applied(lowering, "AddV2", { name, of: [sum, query] }),
      first!,
    );
  });
  const [query] = queries;
  if (query === undefined) return product;
  if (queries.length === 1) return { ...product, query };
  const axis = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(1) });
  const joined = applied(lowering, "ConcatV2", { name, of: [...queries, axis] });
  return { ...product, query: joined };
}

/** A query with the factors of its scores. */
export function scaledQuery(
  lowering: Lowering,
  { query, factors }: QueryPart,
  name: string,
): GraphValue {
  return factors.reduce((of, { op, operand }) => {
    return applied(lowering, op, { name, of: operand === undefined ? [of] : [of, operand] });
  }, query);
}
