// The product of queries and candidates, in any of its spellings: MatMul and BatchMatMul, Einsum,
// `tf.tensordot`, `tf.linalg.matvec`, a product of broadcast vectors that is summed, and each of
// them the other way round. All say which axis of either side is summed over; the axis that is kept
// numbers the queries, or the items.

import type { RowStep } from "../../../partitions/row-computation.ts";
import type { StoredTensor } from "../../../partitions/stored-table.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import { constantValue, integerOf, integersOf, producerOf } from "../../graph-value.ts";
import type { VersionFiles } from "../../../version-files.ts";
import { spelledOut } from "../../shapes/einsum-equation.ts";
import { storedTogether } from "../../tables/stored-together.ts";
import { candidateMatrixOf, otherAxis } from "./candidate-matrix.ts";
import type { CandidateMatrix } from "./candidate-matrix.ts";
import {
  withRemovedAxis,
  withoutAddedAxis,
  withoutRearrangement,
} from "../values/rearrangement.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { unrepeatedFor } from "./repeated-items.ts";

/** Stored candidates, and the axis of them, as they are stored, that numbers the items. */
export interface SearchedItems {
  readonly candidates: CandidateMatrix;
  readonly itemAxis: 0 | 1;
}

/** Scores `[queries, items]` as one product. */
export interface ScoreProduct extends SearchedItems {
  /** float32 or int8 `[queries, dim]`, or float32 `[queries, vectors, dim]` where there are several. */
  readonly query: GraphValue;
  /** How many vectors each query has; absent: one. */
  readonly vectors?: number | undefined;
  /** Whether the scores are squared distances between the vectors, not their products; absent: no. */
  readonly isDistance?: boolean | undefined;
  /** The operation that gives the scores. */
  readonly node: OperationNode | undefined;
  /** What the graph does to the stored items before the product, last one first; absent: nothing. */
  readonly changes?: readonly ItemChange[] | undefined;
  /**
   * Of a sum of products: for each part of a row, the queries that are added up to be its part of the query; absent:
   * `query` is all of it.
   */
  readonly parts?: readonly (readonly QueryPart[])[] | undefined;
}

/** The query of one of the products that are added, and what its scores are multiplied with or divided by. */
export interface QueryPart {
  readonly query: GraphValue;
  readonly factors: readonly {
    readonly op: "Mul" | "MulNoNan" | "RealDiv" | "Neg";
    readonly operand?: GraphValue;
  }[];
}

/** A value per item, which its scores are multiplied with or divided by. */
export interface ItemFactor {
  readonly stored: StoredTensor;
  readonly items: number;
  readonly isDivisor: boolean;
}

/** What a graph makes of all items before they are multiplied with queries (../rewrites/computed-items.ts). */
export type ItemChange =
  | { readonly kind: "projected"; readonly by: GraphValue; readonly isTurned: boolean }
  | { readonly kind: "moved"; readonly by: GraphValue; readonly dim: number }
  | {
      readonly kind: "weighted";
      readonly by: GraphValue;
      readonly dim: number;
      readonly isDivisor: boolean;
    }
  | { readonly kind: "multiplied"; readonly by: GraphValue; readonly factor: ItemFactor };

/** A matrix in a product, and its axis that the product keeps. */
export interface Side {
  readonly matrix: GraphValue;
  readonly kept: 0 | 1;
}

/** The sides of a product in the order of the result's axes. */
type Sides = readonly [Side, Side];

/** Recognises a product of queries and stored candidates; `undefined` for any other value. */
export function scoreProductOf(value: GraphValue, scalars: ScalarReader): ScoreProduct | undefined {
  if (value.dtype !== "float32") return undefined;
  const sides = matrixSidesOf(ofIntegers(value) ?? value);
  const [queries, items] = sides ?? [];
  const query = queries === undefined ? undefined : queryOf(queries);
  if (query === undefined || items === undefined) return undefined;
  const searched = itemsOf(items, scalars);
  const node = value.producer?.kind === "operation" ? value.producer : undefined;
  return searched && { query, ...searched, node };
}

/**
 * Scores of several tables one after the other, `concat([matmul(q, a), matmul(q, b)], 1)`: those of one table, which is
 * stored in several variables.
 */
export function joinedProductOf(
  value: GraphValue,
  scalars: ScalarReader,
  files: VersionFiles,
): ScoreProduct | undefined {
  const parts = partsOfItems(value).map((part) => scoreProductOf(part, scalars));
  const [first] = parts;
  const areAlike = parts.every(
    (part) => part && isOfWholeRows(part) && part.query === first?.query,
  );
  if (first === undefined || !areAlike) return undefined;
  const tables = parts.map((part): GraphValue => {
    const { stored, shape } = part!.candidates;
    return { dtype: "float32", stored, shape };
  });
  const { stored, shape } = storedTogether(tables, 0, files) ?? {};
  if (stored === undefined) return undefined;
  const candidates = { ...first.candidates, stored, shape: [shape![0]!, shape![1]!] as const };
  return { ...first, candidates };
}

/** Scores that a value has one after the other along its last axis. */
function partsOfItems(value: GraphValue): readonly GraphValue[] {
  const inputs = producerOf(value, "ConcatV2")?.inputs ?? [];
  const isOfItems = value.shape?.length === 2 && [1, -1].includes(integerOf(inputs.at(-1)) ?? 0);
  return isOfItems ? inputs.slice(0, -1) : [];
}

/** Whether items are rows as they are stored. */
function isOfWholeRows({ candidates, itemAxis }: SearchedItems): boolean {
  const { normalised, computed, rounding } = candidates;
  return itemAxis === 0 && [normalised, computed, rounding].every((each) => each === undefined);
}

/** The stored candidates on one side of a product; `undefined` for anything else. */
export function itemsOf({ matrix, kept }: Side, scalars: ScalarReader): SearchedItems | undefined {
  const candidates = candidateMatrixOf(matrix, scalars);
  if (candidates === undefined) return undefined;
  const { firstAxis, normalised } = candidates;
  const itemAxis = kept === 0 ? firstAxis : otherAxis(firstAxis);
  if (normalised?.axis === itemAxis) return undefined;
  return { candidates: withRounding(candidates, itemAxis), itemAxis };
}

/** Candidates whose rows are rounded as they are read. */
function withRounding(candidates: CandidateMatrix, itemAxis: 0 | 1): CandidateMatrix {
  const { rounding, shape } = candidates;
  if (rounding === undefined) return candidates;
  const dim = shape[otherAxis(itemAxis)];
  const steps: readonly RowStep[] = [
    { kind: "stored", matrix: 0, dim },
    { kind: "elementwise", op: rounding, of: 0, by: undefined, dim },
  ];
  return { ...candidates, rounding: undefined, computed: { beside: [], steps } };
}

/** The int32 product of int8 matrices that a value is as float32: a quantised layer. Its sums are exact. */
function ofIntegers(value: GraphValue): GraphValue | undefined {
  const sums = producerOf(value, "Cast")?.inputs[0];
  if (sums?.dtype !== "int32") return undefined;
  const product = producerOf(withoutRearrangement(sums), "MatMul", ...BATCH_PRODUCTS);
  return product?.inputs.every(({ dtype }) => dtype === "int8") === true ? sums : undefined;
}

/** The queries as `[queries, dim]`. */
export function queryOf({ matrix, kept }: Side): GraphValue | undefined {
  const plain = withoutRearrangement(matrix);
  const query = kept === 0 ? plain : turned(plain);
  const isNumeric = query?.dtype === "float32" || query?.dtype === "int8";
  const isMatrix = isNumeric && (query.shape?.length ?? 2) === 2;
  return isMatrix ? query : undefined;
}

/** The matrix that a value is the transposition of. */
function turned(value: GraphValue): GraphValue | undefined {
  const [matrix, order] = producerOf(value, "Transpose")?.inputs ?? [];
  return integersOf(order)?.join() === "1,0" ? matrix : undefined;
}

/** The sides of a product of two matrices, in the order of its axes; `undefined` for any other value. */
export function matrixSidesOf(value: GraphValue): Sides | undefined {
  const plain = withoutRearrangement(value);
  const before = turned(plain);
  if (before === undefined) return sidesOfProduct(plain);
  const sides = sidesOfProduct(withoutRearrangement(before));
  return sides && [sides[1], sides[0]];
}

function sidesOfProduct(value: GraphValue): Sides | undefined {
  const product = producerOf(value, "MatMul", ...BATCH_PRODUCTS);
  if (product !== undefined) return sidesOfMatrices(product);
  const einsum = producerOf(value, "Einsum");
  if (einsum !== undefined) return sidesOfEinsum(einsum);
  return sidesOfSum(value) ?? sidesOfBatch(value);
}

/** Names of the operation that multiplies matrices of equal place. */
export const BATCH_PRODUCTS: readonly string[] = ["BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"];

/** Whether any of these attributes is true. */
export function isSet({ attributes }: OperationNode, ...names: readonly string[]): boolean {
  return names.some((name) => attributes.flag(name));
}

/** The two operands of a node; `undefined` where there is no node, or not both. */
export function operandsOf(
  node: OperationNode | undefined,
): readonly [GraphValue, GraphValue] | undefined {
  const [left, right] = node?.inputs ?? [];
  return left && right && [left, right];
}

function sidesOfMatrices(product: OperationNode): Sides | undefined {
  const operands = operandsOf(product);
  return operands && [leftSide(product, operands[0]), rightSide(product, operands[1])];
}

/** The left operand of a product. */
export function leftSide(product: OperationNode, matrix: GraphValue): Side {
  return { matrix, kept: isSet(product, "transpose_a", "adj_x") ? 1 : 0 };
}

/** The right operand of a product. */
export function rightSide(product: OperationNode, matrix: GraphValue): Side {
  return { matrix, kept: isSet(product, "transpose_b", "adj_y") ? 0 : 1 };
}

/** `bd,nd->bn` and equals: two letters each, the one they share is not kept. */
function sidesOfEinsum(node: OperationNode): Sides | undefined {
  const { equation, operands } = withoutLetterOfQueries(node);
  const [, left = "", right = "", result = ""] =
    /^([a-z]{2}),([a-z]{2})->([a-z]{2})$/i.exec(equation) ?? [];
  const shared = Array.from(left).find((letter) => right.includes(letter));
  if (operands === undefined || shared === undefined) return undefined;
  const sideOf = (letters: string, matrix: GraphValue): Side & { readonly letter: string } => {
    const kept = letters[0] === shared ? 1 : 0;
    return { matrix, kept, letter: letters[kept]! };
  };
  const [one, other] = [sideOf(left, operands[0]), sideOf(right, operands[1])];
  const areKept = one.letter !== shared && other.letter !== shared && one.letter !== other.letter;
  if (!areKept) return undefined;
  if (result === one.letter + other.letter) return [one, other];
  return result === other.letter + one.letter ? [other, one] : undefined;
}

/** The equation of an Einsum, with a letter for each axis. */
export function equationOf({ attributes, inputs }: OperationNode): string {
  return spelledOut(attributes.text("equation"), inputs);
}

/** The equation of a product, and its operands. */
interface EinsumParts {
  readonly equation: string;
  readonly operands: readonly [GraphValue, GraphValue] | undefined;
}

/** An equation and its operands: `bd,bnd->bn` as `bd,nd->bn`, where the items are repeated for each query. */
function withoutLetterOfQueries(node: OperationNode): EinsumParts {
  const equation = equationOf(node);
  const operands = operandsOf(node);
  const [, left = "", right = ""] = /^([a-z]{2,3}),([a-z]{2,3})->[a-z]{2}$/i.exec(equation) ?? [];
  if (operands === undefined || left.length + right.length !== 5) return { equation, operands };
  const [first, second] = operands;
  const isOnLeft = left.length === 3;
  const [whole, letters] = isOnLeft ? [left, right] : [right, left];
  const once = isOnLeft ? unrepeatedFor(second, first) : unrepeatedFor(first, second);
  const items = ofAllQueries(once);
  // The first axis of the query is the one by which the items are repeated.
  if (items.shape?.length !== 2 || whole[0] !== letters[0]) return { equation, operands };
  return {
    equation: equation.replace(whole, whole.slice(1)),
    operands: isOnLeft ? [items, second] : [first, items],
  };
}

/** Σ over the last axis of [queries, 1, dim] · [1, items, dim], or · [items, dim]. */
function sidesOfSum(value: GraphValue): Sides | undefined {
  const summed = summedOverLast(value);
  return summed && broadcastProductOf(summed);
}

/** What is summed over the last of three axes, which is not kept. */
function summedOverLast(value: GraphValue): GraphValue | undefined {
  const sum = producerOf(value, "Sum");
  const axes = integersOf(sum?.inputs[1])?.join();
  if (sum === undefined || isSet(sum, "keep_dims")) return undefined;
  return axes === "2" || axes === "-1" ? sum.inputs[0] : undefined;
}

/**
 * Σ over the last axis of [queries, 1, dim] · [1, items, dim], or the product of both, where either is computed with these
 * axes, as Keras' cosine similarity and its `Dot(normalize=True)` bring both to one length there. The query keeps its axis
 * of size 1.
 */
export function widenedProductOf(
  value: GraphValue,
  scalars: ScalarReader,
): ScoreProduct | undefined {
  const [left, right] = (value.dtype === "float32" && widenedOperands(value)) || [];
  if (left === undefined || right === undefined) return undefined;
  const [query, matrix] = isWidenedQuery(left) ? [left, right] : [right, left];
  if (!isWidenedQuery(query) || !isForAll(matrix, query.shape![2]!)) return undefined;
  const searched = itemsOf({ matrix, kept: 0 }, scalars);
  const node = value.producer?.kind === "operation" ? value.producer : undefined;
  return searched && { query, ...searched, node };
}

/** `[queries, 1, dim]` and `[1, items, dim]`, of which a value is the product. */
function widenedOperands(value: GraphValue): readonly [GraphValue, GraphValue] | undefined {
  const summed = summedOverLast(value);
  return operandsOf(summed && producerOf(summed, "Mul")) ?? widenedMatrices(value);
}

function widenedMatrices(value: GraphValue): readonly [GraphValue, GraphValue] | undefined {
  const whole = withRemovedAxis(value, 1);
  const product = whole && producerOf(whole, ...BATCH_PRODUCTS);
  const [query, right] = operandsOf(product) ?? [];
  if (product === undefined || right === undefined || isSet(product, "adj_x")) return undefined;
  if (isSet(product, "adj_y")) return [query!, right];
  const [matrix, order] = producerOf(withoutRearrangement(right), "Transpose")?.inputs ?? [];
  return matrix && integersOf(order)?.join() === "0,2,1" ? [query!, matrix] : undefined;
}

/** Whether a value is `[items, dim]` or `[1, items, dim]`. */
function isForAll({ shape = [] }: GraphValue, dim: number): boolean {
  const isMatrix = shape.length === 2 || (shape.length === 3 && shape[0] === 1);
  return isMatrix && dim > 0 && shape.at(-1) === dim;
}

/** Whether a value is `[queries, 1, dim]`, where the number of queries is known to a request alone. */
function isWidenedQuery({ dtype, shape }: GraphValue): boolean {
  return dtype === "float32" && shape?.length === 3 && shape[0] === -1 && shape[1] === 1;
}

/** The sides of [queries, 1, dim] · [1, items, dim], or · [items, dim], before anything is summed. */
export function broadcastProductOf(products: GraphValue): Sides | undefined {
  const [left, right] = operandsOf(producerOf(products, "Mul")) ?? [];
  if (left === undefined || right === undefined) return undefined;
  return broadcastSides(left, right) ?? broadcastSides(right, left);
}

function broadcastSides(left: GraphValue, right: GraphValue): Sides | undefined {
  const queries = withoutAddedAxis(withoutRearrangement(unrepeated(left)), 1);
  const once = queries === undefined ? right : unrepeatedFor(queries, right);
  const items = ofAllQueries(once);
  // A product that broadcasts along the summed axis is another one.
  const isProduct = items.shape?.length === 2 && items.shape[1] === queries?.shape?.[1];
  if (queries === undefined || !isProduct) return undefined;
  return [
    { matrix: queries, kept: 0 },
    { matrix: items, kept: 0 },
  ];
}

/** Queries `[queries, 1, dim]` before each was repeated for every item, by `tf.tile` or by `tf.repeat`: a product repeats them too. */
function unrepeated(value: GraphValue): GraphValue {
  const plain = withoutRearrangement(value);
  const spread = producerOf(plain, "Reshape")?.inputs[0];
  const single = tiledAlong(spread ?? plain, plain.shape?.[1] ?? -1);
  // tf.repeat tiles an axis of its own, and joins it with the one before.
  const queries = spread === undefined ? single : single && withoutAddedAxis(single, 2);
  return queries?.shape?.length === 3 && queries.shape[1] === 1 ? queries : value;
}

/** What a tile repeats so many times along one axis. */
function tiledAlong(value: GraphValue, wanted: number): GraphValue | undefined {
  const [single, multiples] = producerOf(value, "Tile")?.inputs ?? [];
  const [times, ...others] = (integersOf(multiples) ?? []).filter((each) => each !== 1);
  return times === wanted && others.length === 0 ? single : undefined;
}

/** [queries, 1, dim] · candidates or candidates · [queries, dim, 1], without the axis of size 1. */
function sidesOfBatch(value: GraphValue): Sides | undefined {
  return rowwiseSides(value) ?? columnwiseSides(value);
}

/** A matrix that is the same for all queries, with or without an axis of size 1 for them. */
export function ofAllQueries(items: GraphValue): GraphValue {
  const { constant } = items;
  const [one, ...sizes] = constant?.shape ?? [];
  // The axis may have been added to constants when the graph was read.
  if (constant !== undefined && one === 1 && sizes.length === 2) {
    return constantValue({ ...constant, shape: sizes });
  }
  return withoutAddedAxis(withoutRearrangement(items), 0) ?? items;
}

/** The side of items that are the same for all queries; a graph may turn them with the axis of the queries (Keras' Dot). */
export function sideOfAll(
  items: GraphValue,
  queries: GraphValue,
  sideOf: (matrix: GraphValue) => Side,
): Side | undefined {
  const [whole, order] = producerOf(withoutRearrangement(items), "Transpose")?.inputs ?? [];
  const isTurned = whole !== undefined && integersOf(order)?.join() === "0,2,1";
  const side = sideOf(ofAllQueries(unrepeatedFor(queries, isTurned ? whole : items)));
  if (side.matrix.shape?.length !== 2) return undefined;
  return isTurned ? { ...side, kept: side.kept === 0 ? 1 : 0 } : side;
}

function rowwiseSides(value: GraphValue): Sides | undefined {
  const whole = withRemovedAxis(value, 1);
  const product = whole && producerOf(whole, ...BATCH_PRODUCTS);
  const [left, items] = operandsOf(product) ?? [];
  if (product === undefined || left === undefined || items === undefined) return undefined;
  const queries = withoutAddedAxis(withoutRearrangement(left), 1);
  const side = queries && sideOfAll(items, queries, (matrix) => rightSide(product, matrix));
  if (queries === undefined || side === undefined || isSet(product, "adj_x")) return undefined;
  return [{ matrix: queries, kept: 0 }, side];
}

function columnwiseSides(value: GraphValue): Sides | undefined {
  const whole = withRemovedAxis(value, 2);
  const product = whole && producerOf(whole, ...BATCH_PRODUCTS);
  const [items, right] = operandsOf(product) ?? [];
  if (product === undefined || items === undefined || right === undefined) return undefined;
  const queries = withoutAddedAxis(withoutRearrangement(right), 2);
  const side = queries && sideOfAll(items, queries, (matrix) => leftSide(product, matrix));
  if (queries === undefined || side === undefined || isSet(product, "adj_y")) return undefined;
  return [{ matrix: queries, kept: 0 }, side];
}
