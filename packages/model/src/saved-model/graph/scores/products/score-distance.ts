// Distances between queries and items, as what a search can rank: Σ(q - c)² = |q|² - (2 q·c - |c|²). The sum of
// squares |c|² is one dimension more of each row (`RowDerivation.hasSquares`), |q|² is the same for all items of a
// query. It does not matter whether a graph writes the difference or the terms:
//
//   reduce_sum(square(q[:, None] - items), 2)                              `distanceOf`
//   reduce_sum(q², 1, keepdims) - 2 · matmul(q, itemsᵀ) + reduce_sum(items², 1)   the last term: `squaresOf`
//
// The terms are exact to float32 each; where they are much larger than their difference, TensorFlow's own sum of
// terms is as rough, and its sum of differences is not (docs/models.md says so).

import type { CandidateMatrix } from "./candidate-matrix.ts";
import { integerOf, producerOf } from "../../graph-value.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import {
  withRemovedAxis,
  withoutAddedAxis,
  withoutRearrangement,
} from "../values/rearrangement.ts";
import { scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { isSet, operandsOf } from "./score-product.ts";
import type { ScoreProduct, SearchedItems } from "./score-product.ts";
import { anyItemsOf } from "./item-tower.ts";
import { areSameComputations } from "../../tables/table-registry.ts";

/** The queries and items whose squared distances a value holds; `undefined` for any other value. */
export function distanceOf(value: GraphValue, scalars: ScalarReader): ScoreProduct | undefined {
  const sum = producerOf(value, "Sum");
  const [squares, axes] = operandsOf(sum) ?? [];
  const isLast = [2, -1].includes(integerOf(axes) ?? NaN) && squares?.shape?.length === 3;
  const sides = squares && isLast ? differenceIn(squares, scalars) : undefined;
  if (sum === undefined || sides === undefined) return undefined;
  const [left, right] = sides;
  return broadcast(left, right, sum, scalars) ?? broadcast(right, left, sum, scalars);
}

function broadcast(
  left: GraphValue,
  right: GraphValue,
  ...[node, scalars]: [OperationNode, ScalarReader]
): ScoreProduct | undefined {
  const query = withoutAddedAxis(withoutRearrangement(left), 1);
  const matrix = withoutAddedAxis(withoutRearrangement(right), 0) ?? right;
  if (query?.dtype !== "float32" || query.shape?.length !== 2 || matrix.shape?.length !== 2) {
    return undefined;
  }
  const items = query.shape[1] === matrix.shape[1] && anyItemsOf({ matrix, kept: 0 }, scalars);
  return items ? { query, ...items, node, isDistance: true } : undefined;
}

/** The operands of a difference whose squares a value holds. */
export function differenceIn(
  squares: GraphValue,
  scalars: ScalarReader,
): readonly [GraphValue, GraphValue] | undefined {
  const both = operandsOf(producerOf(squares, "SquaredDifference"));
  const root = both === undefined ? rootOf(squares, scalars) : undefined;
  return both ?? (root && operandsOf(producerOf(root, "Sub")));
}

/** The value whose squares a value holds: of square(x), x · x, x ** 2. */
function rootOf(squares: GraphValue, scalars: ScalarReader): GraphValue | undefined {
  const [square] = producerOf(squares, "Square")?.inputs ?? [];
  if (square !== undefined) return square;
  const [left, right] = operandsOf(producerOf(squares, "Mul")) ?? [];
  if (left !== undefined && left === right) return left;
  const [base, power] = operandsOf(producerOf(squares, "Pow")) ?? [];
  return power !== undefined && scalarOf(power, scalars) === 2 ? base : undefined;
}

/** The items of which a value holds the sums of squares, one for each. */
export function squaresOf(value: GraphValue, scalars: ScalarReader): SearchedItems | undefined {
  const [squares, axes] = operandsOf(producerOf(value, "Sum")) ?? [];
  const matrix = squares?.shape?.length === 2 ? rootOf(squares, scalars) : undefined;
  const axis = AXES.get(integerOf(axes) ?? NaN);
  if (matrix === undefined || axis === undefined) return undefined;
  return anyItemsOf({ matrix, kept: axis === 1 ? 0 : 1 }, scalars);
}

const AXES: ReadonlyMap<number, 0 | 1> = new Map([
  [0, 0],
  [-2, 0],
  [1, 1],
  [-1, 1],
]);

/** Whether two products search the same items as they are. */
export function areSameItems(a: SearchedItems, b: SearchedItems): boolean {
  const [one, other] = [a.candidates, b.candidates];
  return (
    areSameRows(one, other) &&
    areSameComputations(one.computed, other.computed) &&
    a.itemAxis === b.itemAxis &&
    one.firstItem === other.firstItem &&
    JSON.stringify(one.normalised) === JSON.stringify(other.normalised)
  );
}

function areSameRows({ stored: a }: CandidateMatrix, { stored: b }: CandidateMatrix): boolean {
  if (a.kind !== "rows" || b.kind !== "rows") return a === b;
  return a.of === b.of && a.firstRow === b.firstRow && a.rows === b.rows;
}

/** Distances of which the last axis, of size 1, is removed behind a function: `tf.norm`. */
export function withoutKeptAxis(value: GraphValue): GraphValue {
  const whole = withRemovedAxis(value, 2);
  return whole?.shape?.[2] === 1 && summedWithAxis(whole) ? whole : value;
}

const FUNCTIONS_MAX = 4;

/** Whether a value is made of a sum that keeps its last axis, by operations of one operand. */
function summedWithAxis(value: GraphValue): boolean {
  let sum = value;
  for (let step = 0; step < FUNCTIONS_MAX; step += 1) {
    const node = sum.producer?.kind === "operation" ? sum.producer : undefined;
    if (node?.op === "Sum") return isSet(node, "keep_dims");
    const [input] = node?.inputs ?? [];
    if (input === undefined) return false;
    sum = input;
  }
  return false;
}
