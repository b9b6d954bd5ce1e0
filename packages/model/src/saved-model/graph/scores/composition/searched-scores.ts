// The search that scores become: one product of queries and rows, functions of its scores, and a mask among these. Steps up
// to the last one that differs by item, or turns the order of scores round, are done to queries and rows (biased-query.ts);
// all behind it are functions, which must keep the order together.

import { constantValue } from "../../graph-value.ts";
import type { GraphValue, NodeFunction, OperationNode } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import type { StoredRows } from "../../tables/table-registry.ts";
import type { ScoreMask } from "../masks/changed-scores.ts";
import { keepsHidden } from "../masks/hidden-items.ts";
import type { ScoreProduct } from "../products/score-product.ts";
import { withoutChanges } from "../rewrites/computed-items.ts";
import { withJoinedQuery } from "../rewrites/summed-products.ts";
import { distanceSteps } from "../steps/distance-steps.ts";
import { stepsRoundedOnce } from "../steps/rounded-once.ts";
import { isUneven, losesTheBest, turnsOver } from "../steps/score-domain.ts";
import { isOfItem } from "../steps/score-steps.ts";
import type { ItemBias, Obstacle, ScoreOperation, ScoreStep } from "../steps/score-steps.ts";
import { scalarReader } from "../values/scalar-value.ts";
import { storedRows, withBiases } from "./biased-query.ts";
import { vectorsOf, withBias, withFlatQuery } from "./query-vectors.ts";

/** Scores that a search can rank. */
export interface SearchedScores {
  /** float32 `[queries, dim]`, with one value more for each bias. */
  readonly query: GraphValue;
  /** Vectors that stand one after the other in each query; absent: one. */
  readonly vectors?: number | undefined;
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

/** Values per row that every device can search; a longer product stays dense. */
const DIM_MAX = 32_768;

/** What scores are made of. */
export interface Composition {
  readonly product: ScoreProduct;
  /** First step first. */
  readonly steps: readonly ScoreStep[];
  readonly mask: ScoreMask | undefined;
  /** Of the mask: how many steps stand before it. */
  readonly stepsBefore: number;
  /** How many steps stand between the product and the best of several vectors. */
  readonly stepsOfEach: number;
}

/** The search that a product, or distances, become with the steps behind them, first step first. */
export function composed(lowering: Lowering, composition: Composition): SearchedScores | Obstacle {
  const { product } = composition;
  if (product.changes !== undefined) {
    const { steps, product: stored } = withoutChanges(lowering, product);
    return composedOfProduct(lowering, { ...stepsFirst(composition, steps), product: stored });
  }
  if (product.parts !== undefined) {
    const joined = withJoinedQuery(lowering, product);
    return composedOfProduct(lowering, { ...composition, product: joined });
  }
  if (product.isDistance !== true) return composedOfProduct(lowering, composition);
  const bounded = composedOfProduct(lowering, ofDistance(lowering, composition, true));
  if ("query" in bounded) return bounded;
  return composedOfProduct(lowering, ofDistance(lowering, composition, false));
}

function ofDistance(lowering: Lowering, whole: Composition, isBounded: boolean): Composition {
  return stepsFirst(whole, distanceSteps(lowering, whole.product, isBounded));
}

/** A composition with further steps behind the product, before all others. */
function stepsFirst(whole: Composition, first: readonly ScoreStep[]): Composition {
  return {
    ...whole,
    steps: [...first, ...whole.steps],
    stepsBefore: first.length + whole.stepsBefore,
    stepsOfEach: first.length + whole.stepsOfEach,
  };
}

function composedOfProduct(lowering: Lowering, found: Composition): SearchedScores | Obstacle {
  const whole = withBiasesBefore(roundedOnce(found));
  const turning = turningStep(whole);
  if (turning !== undefined) return turning.operation;
  const linear = linearPart(lowering, whole);
  if ("node" in linear) return linear;
  const { end, composition } = risingBehind(whole, linear.end);
  const { product, steps, mask, stepsBefore } = composition;
  const linearSteps = steps.slice(0, end).filter((_, at) => !isLostBefore(at, end, composition));
  const within = withBiases(lowering, withFlatQuery(lowering, product), linearSteps);
  if ("node" in within) return within;
  const before = [...within.functions, ...functionsOf(steps.slice(end, mask && stepsBefore))];
  const behind = mask === undefined ? [] : functionsOf(steps.slice(stepsBefore));
  const candidates = storedRows(product, within);
  if (candidates.dim > DIM_MAX) return { node: product.node };
  let { query } = within;
  for (const bias of within.biases.slice(within.weighed)) {
    query = withBias(lowering, query, bias);
  }
  const obstacles = unrankedBy({ before, behind, mask }, within.biases, lowering);
  if (obstacles !== undefined) return { node: operationOf(steps, ...obstacles) };
  const placed = mask && { ...mask, functionsBefore: before.length };
  const { vectors } = product;
  if (vectors !== undefined) query = vectorsOf(lowering, query, vectors * candidates.dim);
  const functions = [...before, ...behind];
  return { query, vectors, candidates, functions, ...(placed && { mask: placed }) };
}

/** What a mask does to the scores of rows that keep none of their own. */
function changeOf(mask: ScoreMask | undefined): readonly NodeFunction[] {
  if (mask?.penalty === undefined) return [];
  return [{ op: mask.isFactor === true ? "Mul" : "Add", operand: mask.penalty }];
}

/**
 * Whether a step changes nothing behind the one at `end`: what is added to all scores of a query, before a softmax.
 * Beside rows that have one score whatever is added, and before a factor of items, it counts.
 */
function isLostBefore(at: number, end: number, { steps, mask, stepsBefore }: Composition): boolean {
  if (steps[at]!.kind !== "added" || steps[end]?.kind !== "softmax") return false;
  if (steps.slice(at, end).some(({ kind }) => kind === "itemFactor")) return false;
  const isMasked = mask !== undefined && stepsBefore <= end;
  if (!isMasked || mask.isFactor === true) return !isMasked;
  return mask.penalty !== undefined || mask.score === -Infinity;
}

/** The softmax that no search can do: a second one, and one among batches or several vectors. */
function strayOf(
  { isInDataset }: Lowering,
  { steps, product }: Composition,
): ScoreStep | undefined {
  const [first, second] = steps.filter(({ kind }) => kind === "softmax");
  return isInDataset || product.vectors !== undefined ? first : second;
}

function roundedOnce(whole: Composition): Composition {
  const { steps, stepsBefore, stepsOfEach } = whole;
  const kept = stepsRoundedOnce(steps);
  const keptOf = (end: number): number => kept.slice(0, end).filter(Boolean).length;
  const places = { stepsBefore: keptOf(stepsBefore), stepsOfEach: keptOf(stepsOfEach) };
  return { ...whole, ...places, steps: steps.filter((_, at) => kept[at]) };
}

/** A mask with the score -∞ may as well stand behind biases and what keeps -∞ as it is; a penalty behind what is added. */
function withBiasesBefore(whole: Composition): Composition {
  const { steps, mask, stepsBefore } = whole;
  const end = steps.findLastIndex(({ kind }) => kind === "bias") + 1;
  if (mask === undefined || end <= stepsBefore) return whole;
  const isHiding = mask.score === -Infinity && mask.penalty === undefined;
  const isPenalty = mask.penalty !== undefined && mask.isFactor !== true;
  if (!isHiding && !isPenalty) return whole;
  const mayStandBefore = isHiding ? keepsHidden : isAdded;
  const areBefore = steps.slice(stepsBefore, end).every(mayStandBefore);
  return areBefore ? { ...whole, stepsBefore: end } : whole;
}

function isAdded({ kind }: ScoreStep): boolean {
  return kind === "bias" || kind === "added";
}

function isLinear({ kind }: ScoreStep): boolean {
  return kind !== "function" && kind !== "softmax";
}

/**
 * Operations of which one may leave the best scores without a value, or put lower ones before them; `undefined` where none
 * does. Distances by their terms are below 0 by rounding alone.
 */
function unrankedBy(
  { before, behind, mask }: Functions,
  biases: readonly ItemBias[],
  lowering: Lowering,
): readonly string[] | undefined {
  const scalars = scalarReader(lowering);
  const areDistances = biases.some(({ squares }) => squares !== undefined);
  // Rows that are kept, and those that a mask changes.
  const chains = [before.concat(behind), before.concat(changeOf(mask), behind)];
  const isLost = !areDistances && chains.some((each) => losesTheBest(each, scalars));
  if (isLost) return ["Log", "Log1p", "Sqrt"];
  // Masked rows have a score of their own, which no bound is known of.
  const areTurned =
    chains.some((each) => turnsOver(each, scalars)) ||
    behind.some((each) => isUneven(each, scalars));
  return areTurned ? ["Pow", "Square"] : undefined;
}

/** Functions of scores, and the mask among them. */
interface Functions {
  readonly before: readonly NodeFunction[];
  readonly behind: readonly NodeFunction[];
  readonly mask: ScoreMask | undefined;
}

/** The first operation of one of these kinds. */
function operationOf(
  steps: readonly ScoreStep[],
  ...ops: readonly string[]
): OperationNode | undefined {
  return steps.map(({ operation }) => operation.node).find(({ op }) => ops.includes(op));
}

/** How many of the first steps change the query and the rows; all others are functions of scores. */
function linearPart(
  lowering: Lowering,
  whole: Composition,
): { readonly end: number } | ScoreOperation {
  const stray = strayOf(lowering, whole);
  if (stray !== undefined) return stray.operation;
  const { steps, mask, stepsBefore } = whole;
  const last = steps.findLastIndex(changesOrder) + 1;
  const curved = steps.slice(0, last).find((step) => !isLinear(step));
  // A falling step behind may be turned round; a bias and a factor of the request may not.
  const needed = steps.findLastIndex((step) => isOfItem(step) || isUnknown(step)) + 1;
  const ends = [last, needed];
  const end = ends.find((each) => {
    // Masked rows would have other scores each, or come first.
    return steps.slice(0, each).every(isLinear) && (mask === undefined || each <= stepsBefore);
  });
  if (end === undefined) return (curved ?? steps[last - 1]!).operation;
  return { end: Math.max(end, endBeforeSoftmax(whole)) };
}

/** Before a softmax, as much as can be done to queries: workers then sum the powers of plain scores. */
function endBeforeSoftmax({ steps, mask, stepsBefore }: Composition): number {
  const softmaxAt = steps.findIndex(({ kind }) => kind === "softmax");
  const end = steps.findIndex((step) => !isLinear(step));
  if (softmaxAt < 0) return 0;
  return mask === undefined ? end : Math.min(end, stepsBefore);
}

/**
 * Functions of scores must keep their order together, whatever they do one by one: -√(-s) turns it round twice.
 * Where they do not, as -√s, the search is for the opposite scores, and the first function turns those back.
 */
function risingBehind(
  composition: Composition,
  end: number,
): { readonly end: number; readonly composition: Composition } {
  const { steps, product, stepsBefore } = composition;
  const falling = steps.slice(end).filter(isFalling);
  const [first] = falling;
  if (first === undefined || falling.length % 2 === 0) return { end, composition };
  const node: OperationNode = { ...first.operation.node, op: "Neg", inputs: [product.query] };
  const minusOne = constantValue({ dtype: "float32", shape: [], data: Float32Array.of(-1) });
  const functions: readonly NodeFunction[] = [{ op: "Mul", operand: minusOne }];
  const opposite = {
    kind: "scaled",
    operation: { node, position: 0 },
    functions,
    factor: -1,
  } as const;
  const turned = steps.toSpliced(end, 0, opposite, opposite);
  const places = { steps: turned, stepsBefore: stepsBefore + 2 };
  return { end: end + 1, composition: { ...composition, ...places } };
}

/** The opposite of the best of several vectors is the least of their opposites, which no search finds. */
function turningStep({ product, steps, stepsOfEach }: Composition): ScoreStep | undefined {
  return product.vectors === undefined ? undefined : steps.slice(stepsOfEach).find(mayTurn);
}

function mayTurn(step: ScoreStep): boolean {
  return isFalling(step) || isUnknown(step) || step.kind === "itemFactor";
}

/** Whether a step differs by item, or turns the order of scores round. */
function changesOrder(step: ScoreStep): boolean {
  return isOfItem(step) || mayTurn(step);
}

/** Whether a request decides whether a step turns the order of scores round. */
function isUnknown(step: ScoreStep): boolean {
  return step.kind === "weighted" && step.functions === undefined;
}

function isFalling(step: ScoreStep): boolean {
  return step.kind === "scaled" && step.factor < 0;
}

function functionsOf(steps: readonly ScoreStep[]): readonly NodeFunction[] {
  return steps.flatMap((step) => {
    return step.kind === "bias" || step.kind === "itemFactor" ? [] : (step.functions ?? []);
  });
}
