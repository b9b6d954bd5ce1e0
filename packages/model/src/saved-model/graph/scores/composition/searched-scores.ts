// The search that scores become: one product of queries and rows, functions of its scores, and masks among these. Steps up
// to the last one that differs by item, or turns the order of scores round, are done to queries and rows (biased-query.ts);
// all behind it are functions, which must keep the order together.

import { constantValue } from "../../graph-value.ts";
import type { GraphValue, NodeFunction, OperationNode } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import type { StoredRows } from "../../tables/table-registry.ts";
import type { ScoreMask } from "../masks/changed-scores.ts";
import { isHiding, keepsHidden } from "../masks/hidden-items.ts";
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
  /** Which rows keep their scores, one mask behind the other; none where all do. */
  readonly masks: readonly PlacedMask[];
}

/** A mask among functions. */
export interface PlacedMask extends ScoreMask {
  /** How many of the functions stand before it. */
  readonly functionsBefore: number;
}

/** Values per row that every device can search; a longer product stays dense. */
const DIM_MAX = 32_768;

/** A mask among steps. */
interface MaskBetween {
  readonly mask: ScoreMask;
  /** How many steps stand before it. */
  readonly stepsBefore: number;
}

/** What scores are made of. */
export interface Composition {
  readonly product: ScoreProduct;
  /** First step first. */
  readonly steps: readonly ScoreStep[];
  /** First one first. */
  readonly masks: readonly MaskBetween[];
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
    masks: moved(whole.masks, (stepsBefore) => first.length + stepsBefore),
    stepsOfEach: first.length + whole.stepsOfEach,
  };
}

/** Masks among other steps. */
function moved(
  masks: readonly MaskBetween[],
  placeOf: (stepsBefore: number) => number,
): readonly MaskBetween[] {
  return masks.map(({ mask, stepsBefore }) => ({ mask, stepsBefore: placeOf(stepsBefore) }));
}

/** Before how many steps no mask stands. */
function unmaskedSteps({ steps, masks }: Composition): number {
  return masks[0]?.stepsBefore ?? steps.length;
}

function composedOfProduct(lowering: Lowering, found: Composition): SearchedScores | Obstacle {
  const whole = withBiasesBefore(roundedOnce(found));
  const turning = turningStep(whole);
  if (turning !== undefined) return turning.operation;
  const linear = linearPart(lowering, whole);
  if ("node" in linear) return linear;
  const { end, composition } = risingBehind(whole, linear.end);
  const { product, steps, masks } = composition;
  const linearSteps = steps.slice(0, end).filter((_, at) => !isLostBefore(at, end, composition));
  const within = withBiases(lowering, withFlatQuery(lowering, product), linearSteps);
  if ("node" in within) return within;
  const functions = [...within.functions, ...functionsOf(steps.slice(end))];
  const placed = masks.map(({ mask, stepsBefore }): PlacedMask => {
    const between = functionsOf(steps.slice(end, stepsBefore));
    const functionsBefore = within.functions.length + between.length;
    return Object.assign({ functionsBefore }, mask);
  });
  const candidates = storedRows(product, within);
  if (candidates.dim > DIM_MAX) return { node: product.node };
  let { query } = within;
  for (const bias of within.biases.slice(within.weighed)) {
    query = withBias(lowering, query, bias);
  }
  const obstacles = unrankedBy({ functions, masks: placed }, within.biases, lowering);
  if (obstacles !== undefined) return { node: operationOf(steps, ...obstacles) };
  const { vectors } = product;
  if (vectors !== undefined) query = vectorsOf(lowering, query, vectors * candidates.dim);
  return { query, vectors, candidates, functions, masks: placed };
}

/** What the scores of rows go through that keep some of their own, by what masks do to them. */
function chainsOf({ functions, masks }: Functions): readonly (readonly NodeFunction[])[] {
  let chains: readonly (readonly NodeFunction[])[] = [[]];
  let done = 0;
  for (const mask of masks) {
    const between = functions.slice(done, mask.functionsBefore);
    const ends = changesOf(mask).map((changes) => between.concat(changes));
    chains = chains.flatMap((chain) => ends.map((end) => chain.concat(end)));
    done = mask.functionsBefore;
  }
  return chains.map((chain) => chain.concat(functions.slice(done)));
}

/** What a mask does to the scores of rows that keep some of their own: nothing, a bonus or a penalty. */
function changesOf({ penalty, bonus, isFactor }: ScoreMask): readonly (readonly NodeFunction[])[] {
  const op = isFactor === true ? "Mul" : "Add";
  const change = (operand: GraphValue | undefined): readonly NodeFunction[] =>
    operand === undefined ? [] : [{ op, operand }];
  return penalty === undefined ? [[]] : [change(bonus), change(penalty)];
}

/**
 * Whether a step changes nothing behind the one at `end`: what is added to all scores of a query, before a softmax.
 * Beside rows that have one score whatever is added, and before a factor of items, it counts.
 */
function isLostBefore(at: number, end: number, { steps, masks }: Composition): boolean {
  if (steps[at]!.kind !== "added" || steps[end]?.kind !== "softmax") return false;
  if (steps.slice(at, end).some(({ kind }) => kind === "itemFactor")) return false;
  const masksBefore = masks.filter(({ stepsBefore }) => stepsBefore <= end);
  return masksBefore.every(({ mask: { isFactor, penalty, score } }) => {
    return isFactor !== true && (penalty !== undefined || score === -Infinity);
  });
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
  const { steps, masks, stepsOfEach } = whole;
  const kept = stepsRoundedOnce(steps);
  const keptOf = (end: number): number => kept.slice(0, end).filter(Boolean).length;
  const places = { masks: moved(masks, keptOf), stepsOfEach: keptOf(stepsOfEach) };
  return { ...whole, ...places, steps: steps.filter((_, at) => kept[at]) };
}

/** A mask with the score -∞ may as well stand behind biases and what keeps -∞ as it is; a penalty behind what is added. */
function withBiasesBefore(whole: Composition): Composition {
  const { steps, masks } = whole;
  const end = steps.findLastIndex(({ kind }) => kind === "bias") + 1;
  const mayFollow = ({ mask, stepsBefore }: MaskBetween): boolean => {
    const isPenalty = mask.penalty !== undefined && mask.isFactor !== true;
    if (!isHiding(mask) && !isPenalty) return false;
    return steps.slice(stepsBefore, end).every(isPenalty ? isAdded : keepsHidden);
  };
  const areBefore = masks.every((each) => each.stepsBefore >= end || mayFollow(each));
  if (!areBefore) return whole;
  return { ...whole, masks: moved(masks, (stepsBefore) => Math.max(stepsBefore, end)) };
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
  found: Functions,
  biases: readonly ItemBias[],
  lowering: Lowering,
): readonly string[] | undefined {
  const scalars = scalarReader(lowering);
  const areDistances = biases.some(({ squares }) => squares !== undefined);
  const chains = chainsOf(found);
  const isLost = !areDistances && chains.some((each) => losesTheBest(each, scalars));
  if (isLost) return ["Log", "Log1p", "Sqrt"];
  // Masked rows have a score of their own, which no bound is known of.
  const { functions, masks } = found;
  const behind = functions.slice(masks[0]?.functionsBefore ?? functions.length);
  const areTurned =
    chains.some((each) => turnsOver(each, scalars)) ||
    behind.some((each) => isUneven(each, scalars));
  return areTurned ? ["Pow", "Square"] : undefined;
}

/** Functions of scores, and the masks among them. */
interface Functions {
  readonly functions: readonly NodeFunction[];
  readonly masks: readonly PlacedMask[];
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
  const { steps } = whole;
  const unmasked = unmaskedSteps(whole);
  const last = steps.findLastIndex(changesOrder) + 1;
  const curved = steps.slice(0, last).find((step) => !isLinear(step));
  // A falling step behind may be turned round; a bias and a factor of the request may not.
  const needed = steps.findLastIndex((step) => isOfItem(step) || isUnknown(step)) + 1;
  const ends = [last, needed];
  const end = ends.find((each) => {
    // Masked rows would have other scores each, or come first.
    return steps.slice(0, each).every(isLinear) && each <= unmasked;
  });
  if (end === undefined) return (curved ?? steps[last - 1]!).operation;
  return { end: Math.max(end, endBeforeSoftmax(whole)) };
}

/** Before a softmax, as much as can be done to queries: workers then sum the powers of plain scores. */
function endBeforeSoftmax(whole: Composition): number {
  const { steps } = whole;
  if (steps.every(({ kind }) => kind !== "softmax")) return 0;
  const end = steps.findIndex((step) => !isLinear(step));
  return Math.min(end, unmaskedSteps(whole));
}

/**
 * Functions of scores must keep their order together, whatever they do one by one: -√(-s) turns it round twice.
 * Where they do not, as -√s, the search is for the opposite scores, and the first function turns those back.
 */
function risingBehind(
  composition: Composition,
  end: number,
): { readonly end: number; readonly composition: Composition } {
  const { steps, product, masks } = composition;
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
  const places = moved(masks, (stepsBefore) => stepsBefore + 2);
  return { end: end + 1, composition: { ...composition, steps: turned, masks: places } };
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
