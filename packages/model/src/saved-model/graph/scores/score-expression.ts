// What stands between the product of queries and candidates and the top-k of scores. A search ranks
// rows by one product of vectors, so every operation on the scores must become one of these:
//
//   scores + bias of each item        one more dimension: row [item ‖ bias], query [query ‖ 1]
//   scores · constant, before a bias  the query is multiplied
//   anything that keeps the order     done to the scores of the winners, by the graph's operation
//
// Functions keep the order if they rise strictly. In float32 they may still give neighbours one
// value, which TensorFlow would then rank by row and a search by what they were before: such
// candidates change places only within a rounding. Relu and the like, which give one value to whole
// ranges, do not become a search; nor does a softmax, whose values need the scores of all items.

import { Attributes } from "../definition/attributes.ts";
import type { AttributeValue } from "../definition/attributes.ts";
import { constantValue } from "../graph-value.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
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
  /** Operations that the scores of winners still go through, in order. */
  readonly after: readonly ScoreOperation[];
  /** Which rows keep their scores; absent where all do. */
  readonly mask?: ScoreMask | undefined;
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
  // A data set's batches would each have their own masked rows.
  const masked = lowering.isInDataset ? undefined : maskedScoresOf(scored, scalars);
  let value = masked?.scores ?? withoutRearrangement(scored);
  for (let step = 0; step <= STEPS_MAX; step += 1) {
    const product = scoreProductOf(value, scalars);
    if (product !== undefined) {
      return composed(lowering, { product, steps: steps.toReversed(), mask: masked?.mask });
    }
    const found = scoreStepOf(value, scalars);
    if (found === undefined) break;
    steps.push(found.step);
    value = withoutRearrangement(found.scores);
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
}

/** The search that a product becomes with the steps behind it, first step first. */
function composed(
  lowering: Lowering,
  { product, steps, mask }: Composition,
): SearchedScores | Obstacle {
  // A mask gives scores as they are compared, so factors go to the query.
  const areFactors = mask !== undefined && steps.every(({ kind }) => kind !== "keepsOrder");
  const end = areFactors ? steps.length : steps.findLastIndex(({ kind }) => kind === "bias") + 1;
  const within = withBiases(lowering, product, steps.slice(0, end));
  if ("node" in within) return within;
  const behind = steps.slice(end);
  const falling = behind.find((step) => step.kind === "scaled" && step.factor < 0);
  if (falling !== undefined) return falling.operation;
  const after = [...within.after, ...behind.map(({ operation }) => operation)];
  const [operation] = after;
  if (mask !== undefined && operation !== undefined) return operation;
  const candidates = storedRows(product, within.biases);
  if (candidates.dim > DIM_MAX) return { node: product.node };
  let { query } = within;
  for (const { factor } of within.biases) query = withDimension(lowering, query, factor);
  return { query, candidates, after, ...(mask && { mask }) };
}

interface BiasedQuery {
  readonly query: GraphValue;
  readonly biases: readonly ItemBias[];
  readonly after: readonly ScoreOperation[];
}

/**
 * The steps up to the last bias. They must be linear: factors change the query and the biases before
 * them, and what is added for each query may as well be added at the end.
 */
function withBiases(
  lowering: Lowering,
  { query, candidates, itemAxis }: ScoreProduct,
  steps: readonly ScoreStep[],
): BiasedQuery | Obstacle {
  const after: ScoreOperation[] = [];
  let biases: ItemBias[] = [];
  let scaled = query;
  for (const step of steps) {
    const isBias = step.kind === "bias";
    if (isBias && step.bias.items === candidates.shape[itemAxis] && biases.length < BIASES_MAX) {
      biases.push(step.bias);
    } else if (step.kind === "scaled" && after.length === 0) {
      scaled = applied(lowering, step.operation, scaled);
      const { factor } = step;
      biases = biases.map((bias) => Object.assign({}, bias, { factor: bias.factor * factor }));
    } else if (step.kind === "added") {
      after.push(step.operation);
    } else {
      return step.operation;
    }
  }
  return { query: scaled, biases, after };
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
export function applied(
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
