// What stands between the product of queries and candidates and the top-k of scores. A search ranks
// rows by one product of vectors, so every operation on the scores must become one of these:
//
//   scores + bias of each item        one more dimension: row [item ‖ bias], query [query ‖ 1]
//   scores · constant, before a bias  the query is multiplied
//   a function that keeps the order   part of the search, which ranks by its values
//   where(condition, scores, c)       the mask of a search, with functions before and behind it
//
// A function may give several scores one value: whole ranges behind a relu, neighbours behind any. The search
// orders such rows as TensorFlow does (core/program/search/ranked-search.ts). A softmax is no such function:
// its values need the scores of all items.

import { Attributes } from "../definition/attributes.ts";
import type { AttributeValue } from "../definition/attributes.ts";
import { constantValue } from "../graph-value.ts";
import type { GraphValue, NodeFunction, OperationNode } from "../graph-value.ts";
import type { Lowering } from "../lowered-nodes.ts";
import { withoutRearrangement } from "./rearrangement.ts";
import type { ScalarReader } from "./scalar-value.ts";
import { maskedScoresOf } from "./score-mask.ts";
import type { ScoreMask } from "./score-mask.ts";
import { scoreProductOf } from "./score-product.ts";
import type { ScoreProduct } from "./score-product.ts";
import { scoreStepOf } from "./score-steps.ts";
import type { ItemBias, ScoreOperation, ScoreStep } from "./score-steps.ts";
import type { StoredRows } from "../tables/table-registry.ts";

/** Scores that a search can rank. */
export interface SearchedScores {
  /** float32 `[queries, dim]`, with one value more for each bias. */
  readonly query: GraphValue;
  readonly candidates: StoredRows;
  /** What the scores go through before they are ranked, in order. */
  readonly functions: readonly NodeFunction[];
  /** Which rows keep their scores; absent where all do. */
  readonly mask?: PlacedMask | undefined;
}

/** A mask among functions. */
export interface PlacedMask extends ScoreMask {
  /** How many of the functions stand before it. */
  readonly functionsBefore: number;
}

/** Why scores are not searched: the operation that stood in the way, or `undefined` for an input. */
export interface Obstacle {
  readonly node: OperationNode | undefined;
}

const STEPS_MAX = 32;
const BIASES_MAX = 8;
/** Values per row that every device can search; a longer product stays dense. */
const DIM_MAX = 32_768;

/** Traces scores back to a product with stored candidates. */
export function searchedScoresOf(
  lowering: Lowering,
  scored: GraphValue,
): SearchedScores | Obstacle {
  const scalars = scalarReader(lowering);
  const steps: ScoreStep[] = [];
  let masked: { readonly mask: ScoreMask; readonly stepsBehind: number } | undefined;
  let value = withoutRearrangement(scored);
  for (let step = 0; step <= STEPS_MAX; step += 1) {
    // A data set's batches would each have their own masked rows.
    const isOpen = masked === undefined && !lowering.isInDataset;
    const found = isOpen ? maskedScoresOf(value, scalars) : undefined;
    if (found !== undefined) {
      masked = { mask: found.mask, stepsBehind: steps.length };
      value = found.scores;
    }
    const product = scoreProductOf(value, scalars);
    if (product !== undefined) {
      const { mask, stepsBehind = 0 } = masked ?? {};
      const stepsBefore = steps.length - stepsBehind;
      return composed(lowering, { product, steps: steps.toReversed(), mask, stepsBefore });
    }
    const next = scoreStepOf(value, scalars);
    if (next === undefined) break;
    steps.push(next.step);
    value = withoutRearrangement(next.scores);
  }
  return { node: value.producer?.kind === "operation" ? value.producer : undefined };
}

function scalarReader({ sources }: Lowering): ScalarReader {
  return ({ stored }) =>
    stored?.kind === "bundle" ? sources.files.readTensor(stored.key) : undefined;
}

/** What scores are made of. */
interface Composition {
  readonly product: ScoreProduct;
  /** First step first. */
  readonly steps: readonly ScoreStep[];
  readonly mask: ScoreMask | undefined;
  /** Of the mask: how many steps stand before it. */
  readonly stepsBefore: number;
}

/** The search that a product becomes with the steps behind it, first step first. */
function composed(
  lowering: Lowering,
  { product, steps, mask, stepsBefore }: Composition,
): SearchedScores | Obstacle {
  const end = steps.findLastIndex(changesOrder) + 1;
  // Masked rows would have other scores each, or come first.
  if (mask !== undefined && end > stepsBefore) return steps[end - 1]!.operation;
  const within = withBiases(lowering, product, steps.slice(0, end));
  if ("node" in within) return within;
  const before = [...within.functions, ...functionsOf(steps.slice(end, mask && stepsBefore))];
  const behind = mask === undefined ? [] : functionsOf(steps.slice(stepsBefore));
  const candidates = storedRows(product, within.biases);
  if (candidates.dim > DIM_MAX) return { node: product.node };
  let { query } = within;
  for (const { factor } of within.biases) query = withDimension(lowering, query, factor);
  const functions = [...before, ...behind];
  const placed = mask && { ...mask, functionsBefore: before.length };
  return { query, candidates, functions, ...(placed && { mask: placed }) };
}

/** Whether a step differs by item, or turns the order of scores round. */
function changesOrder(step: ScoreStep): boolean {
  return step.kind === "bias" || (step.kind === "scaled" && step.factor < 0);
}

function functionsOf(steps: readonly ScoreStep[]): readonly NodeFunction[] {
  return steps.flatMap((step) => (step.kind === "bias" ? [] : step.functions));
}

interface BiasedQuery {
  readonly query: GraphValue;
  readonly biases: readonly ItemBias[];
  readonly functions: readonly NodeFunction[];
}

/**
 * The steps up to the last bias or negative factor. They must be linear: factors change the query and the biases before
 * them, and what is added for each query may as well be added at the end.
 */
function withBiases(
  lowering: Lowering,
  { query, candidates, itemAxis }: ScoreProduct,
  steps: readonly ScoreStep[],
): BiasedQuery | Obstacle {
  const functions: NodeFunction[] = [];
  let biases: ItemBias[] = [];
  let scaled = query;
  for (const step of steps) {
    const isBias = step.kind === "bias";
    if (isBias && step.bias.items === candidates.shape[itemAxis] && biases.length < BIASES_MAX) {
      biases.push(step.bias);
    } else if (step.kind === "scaled" && functions.length === 0) {
      scaled = applied(lowering, step.operation, scaled);
      const { factor } = step;
      biases = biases.map((bias) => Object.assign({}, bias, { factor: bias.factor * factor }));
    } else if (step.kind === "added") {
      functions.push(...step.functions);
    } else {
      return step.operation;
    }
  }
  return { query: scaled, biases, functions };
}

function storedRows(
  { candidates, itemAxis }: ScoreProduct,
  biases: readonly ItemBias[],
): StoredRows {
  const { stored, shape, normalised } = candidates;
  const isByColumn = itemAxis === 1;
  const rows = shape[itemAxis];
  const appended = biases.map((bias) => bias.stored);
  const dim = shape[isByColumn ? 0 : 1] + appended.length;
  const isPlain = !isByColumn && normalised === undefined && appended.length === 0;
  if (isPlain) return { stored, rows, dim };
  return {
    stored,
    rows,
    dim,
    derivation: { isByColumn, normalisation: normalised?.how, appended },
  };
}

/** The results of an operation of the graph on other values than the scores of all items. */
function applied(
  lowering: Lowering,
  { node, position }: ScoreOperation,
  value: GraphValue,
): GraphValue {
  const { op, name, attributes, outputs } = node;
  const outputDtypes = outputs.map(({ dtype }) => dtype);
  const inputs = node.inputs.with(position, value);
  return lowering.operation({ op, name, attributes, outputDtypes }, inputs).outputs[0]!;
}

/** Queries with a constant behind them: the weight of a bias. */
function withDimension(lowering: Lowering, query: GraphValue, weight: number): GraphValue {
  const paddings = constantValue({
    dtype: "int32",
    shape: [2, 2],
    data: Int32Array.of(0, 0, 0, 1),
  });
  const filler = constantValue({ dtype: "float32", shape: [], data: Float32Array.of(weight) });
  const name = `${query.producer?.name ?? "query"}/bias`;
  const attributes = new Attributes(
    name,
    new Map<string, AttributeValue>([
      ["T", { kind: "type", value: 1 }],
      ["Tpaddings", { kind: "type", value: 3 }],
    ]),
  );
  const node = { op: "PadV2", name, attributes, outputDtypes: ["float32"] as const };
  return lowering.operation(node, [query, paddings, filler]).outputs[0]!;
}
