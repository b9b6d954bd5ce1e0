// What a search does to queries and rows: a bias of each item is one more dimension of both, a factor of each item
// multiplies rows, and a constant or a factor of the request multiplies queries.

import type { RowFactor } from "../../../partitions/stored-table.ts";
import type { GraphValue, NodeFunction } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import type { StoredRows } from "../../tables/table-registry.ts";
import { areSameItems } from "../products/score-distance.ts";
import type { ItemFactor, ScoreProduct, SearchedItems } from "../products/score-product.ts";
import type { ItemBias, Obstacle, ScoreOperation, ScoreStep } from "../steps/score-steps.ts";
import { isSingle } from "../values/scalar-value.ts";
import { withBias } from "./query-vectors.ts";

const BIASES_MAX = 8;

/** A query and rows that have taken up some steps. */
export interface BiasedQuery {
  /** With the weights of the first `weighed` biases. */
  readonly query: GraphValue;
  readonly biases: readonly ItemBias[];
  readonly factors: readonly RowFactor[];
  readonly weighed: number;
  readonly functions: readonly NodeFunction[];
}

/**
 * The steps up to the last bias or negative factor. They must be linear: factors change the query and the biases before
 * them, and what is added for each query may as well be added at the end.
 */
export function withBiases(
  lowering: Lowering,
  items: ScoreProduct,
  steps: readonly ScoreStep[],
): BiasedQuery | Obstacle {
  let functions: NodeFunction[] = [];
  let biases: ItemBias[] = [];
  const factors: RowFactor[] = [];
  let weighed = 0;
  let scaled = items.query;
  for (const step of steps) {
    if (step.kind === "bias" && mayAppend(step.bias, biases, items)) {
      biases.push(step.bias);
    } else if (step.kind === "scaled") {
      const { operation, factor } = step;
      scaled = onOther(lowering, operation, scaled);
      biases = biases.map((bias) => Object.assign({}, bias, { factor: bias.factor * factor }));
      functions = functions.map(({ op, operand }) => {
        return { op, operand: operand && onOther(lowering, operation, operand) };
      });
    } else if (step.kind === "weighted") {
      if (!isForEach(step.operand, items)) return step.operation;
      for (const bias of biases.slice(weighed)) scaled = withBias(lowering, scaled, bias);
      weighed = biases.length;
      scaled = onOther(lowering, step.operation, scaled);
      functions = functions.map(({ op, operand }) => {
        return { op, operand: operand && onOther(lowering, step.operation, operand) };
      });
    } else if (step.kind === "added") {
      functions.push(...step.functions);
    } else if (step.kind === "itemFactor" && mayMultiply(step.factor, functions, items)) {
      const { stored, isDivisor } = step.factor;
      factors.push({ stored, isDivisor, appended: biases.length });
    } else {
      return step.operation;
    }
  }
  const obstacle = obstacleOfSquares(biases, steps, weighed);
  if (obstacle !== undefined) return obstacle.operation;
  return { query: scaled, biases: inOrderOfRows(biases), factors, weighed, functions };
}

/** Whether a factor is one for all rows of the query, or one for each: several vectors have more rows than factors. */
function isForEach(factor: GraphValue, { vectors }: ScoreProduct): boolean {
  return vectors === undefined || isSingle(factor);
}

/** Whether rows may be multiplied, so that all before is: what was added to all scores of a query is not in a row. */
function mayMultiply(
  { items }: ItemFactor,
  added: readonly NodeFunction[],
  { candidates, itemAxis }: SearchedItems,
): boolean {
  return added.length === 0 && items === candidates.shape[itemAxis];
}

/** Biases in the order of the dimensions of a row: sums of squares are the last one. */
function inOrderOfRows(biases: readonly ItemBias[]): readonly ItemBias[] {
  const stored = biases.filter(({ squares }) => squares === undefined);
  return [...stored, ...biases.filter(({ squares }) => squares !== undefined)];
}

/** The step that sums of squares do not go with: a weight behind those that move, a factor of each item. */
function obstacleOfSquares(
  biases: readonly ItemBias[],
  steps: readonly ScoreStep[],
  weighed: number,
): ScoreStep | undefined {
  const inOrder = inOrderOfRows(biases);
  const isMoved = inOrder.slice(0, weighed).some((bias, at) => bias !== biases[at]);
  const weight = isMoved ? steps.find(({ kind }) => kind === "weighted") : undefined;
  const hasSquares = biases.some(({ squares }) => squares !== undefined);
  return weight ?? (hasSquares ? steps.find(({ kind }) => kind === "itemFactor") : undefined);
}

/** Whether a bias fits the items, beside those before it. */
function mayAppend(bias: ItemBias, others: readonly ItemBias[], items: ScoreProduct): boolean {
  const { squares, weight } = bias;
  if (bias.items !== items.candidates.shape[items.itemAxis]) return false;
  if (weight !== undefined && items.vectors !== undefined) return false;
  if (squares === undefined) return others.length < BIASES_MAX;
  return areSameItems(squares, items) && others.every((other) => other.squares === undefined);
}

/** The rows that a search reads, with what was appended to them. */
export function storedRows(
  { candidates, itemAxis }: ScoreProduct,
  { biases, factors }: Pick<BiasedQuery, "biases" | "factors">,
): StoredRows {
  const { stored, shape, normalised, firstItem, computed } = candidates;
  const isByColumn = itemAxis === 1;
  const rows = shape[itemAxis];
  const appended = biases.flatMap((bias) => bias.stored ?? []);
  const dim = shape[isByColumn ? 0 : 1] + biases.length;
  const isAsStored = biases.length + factors.length === 0;
  const isMade = isByColumn || normalised !== undefined || computed !== undefined;
  const hasSquares = biases.length > appended.length;
  if (!isMade && isAsStored) return { stored, rows, dim };
  return {
    stored,
    rows,
    dim,
    derivation: {
      isByColumn,
      ...(firstItem !== undefined && { firstColumn: firstItem }),
      normalisation: normalised?.how,
      ...(computed !== undefined && { computed }),
      appended,
      ...(factors.length > 0 && { factors }),
      ...(hasSquares && { hasSquares }),
    },
  };
}

/** The results of an operation of the graph on other values than the scores of all items. */
function onOther(
  lowering: Lowering,
  { node, position }: ScoreOperation,
  value: GraphValue,
): GraphValue {
  const { op, name, attributes, outputs } = node;
  const outputDtypes = outputs.map(({ dtype }) => dtype);
  const inputs = node.inputs.with(position, value);
  return lowering.operation({ op, name, attributes, outputDtypes }, inputs).outputs[0]!;
}
