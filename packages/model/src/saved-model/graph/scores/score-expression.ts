// What stands between the product of queries and candidates and the top-k of scores. A search ranks
// rows by one product of vectors, so every operation on the scores must become one of these:
//
//   scores + bias of each item        one more dimension: row [item ‖ bias], query [query ‖ 1]
//   scores + bias · factor of request one more dimension: row [item ‖ bias], query [query ‖ factor]
//   scores · constant, before a bias  the query is multiplied
//   scores · factor of each item      the row is multiplied
//   a function that keeps the order   part of the search, which ranks by its values
//   where(condition, scores, c)       the mask of a search, with functions before and behind it
//   max over several vectors          a search whose queries have several vectors
//   scores[:, -1, :] of all positions the product of that position's query
//   scores · factor of the request    the query is multiplied
//   scores + other products           one product of longer vectors
//   a layer over q ∘ item             the query is multiplied by the layer's weights
//   where(condition of query, s, t)   the sum of both, of which one has the weight 0
//   scores[:, 1:]                     a search of these items alone
//   softmax over all items            a function of each score and of the sum over all rows, which workers add up
//
// A function may give several scores one value: whole ranges behind a relu, neighbours behind any. The search
// orders such rows as TensorFlow does (core/program/search/ranked-search.ts).

import { numberOfDtype } from "../../bundle/data-type.ts";
import { Attributes } from "../definition/attributes.ts";
import type { AttributeValue } from "../definition/attributes.ts";
import { constantValue } from "../graph-value.ts";
import type { GraphValue, NodeFunction, OperationNode } from "../graph-value.ts";
import type { Lowering } from "../lowered-nodes.ts";
import { withoutRearrangement } from "./rearrangement.ts";
import { isSingle, scalarReader } from "./scalar-value.ts";
import { maskedScoresOf } from "./score-mask.ts";
import type { ScoreMask } from "./changed-scores.ts";
import { otherAxis } from "./candidate-matrix.ts";
import { computedProductOf, withoutChanges } from "./computed-items.ts";
import { towerProductOf } from "./item-tower.ts";
import { bestOfVectors, manyVectorProductOf } from "./many-vectors.ts";
import { isOfAnyPosition, onePositionOf, productOfPosition } from "./one-position.ts";
import type { Position } from "./one-position.ts";
import { stepsRoundedOnce } from "./rounded-once.ts";
import { joinedProductOf, scoreProductOf, widenedProductOf } from "./score-product.ts";
import type { ItemFactor, ScoreProduct, SearchedItems } from "./score-product.ts";
import { gatedProductOf, withoutLayerAxis } from "./gated-product.ts";
import { choiceAsSum } from "./choice-of-scores.ts";
import { keepsHidden, withHidden } from "./hidden-items.ts";
import type { MaskBehind } from "./hidden-items.ts";
import { isUneven, losesTheBest, turnsOver } from "./score-domain.ts";
import { distanceSteps } from "./distance-steps.ts";
import { areSameItems, distanceOf, withoutKeptAxis } from "./score-distance.ts";
import { summedProductOf, withJoinedQuery } from "./summed-products.ts";
import { sliceWithin, slicedItems, slicedRule, slicedScoresOf, slicedStep } from "./score-slice.ts";
import type { ItemSlice, ReadStored } from "./score-slice.ts";
import { scoreStepsOf } from "./score-steps.ts";
import type { ItemBias, ScoreOperation, ScoreStep } from "./score-steps.ts";
import type { RowFactor } from "../../partitions/stored-table.ts";
import type { StoredRows } from "../tables/table-registry.ts";

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
  const trail: Trail = { steps: [] };
  let value = withoutRearrangement(scored);
  for (let step = 0; step <= STEPS_MAX; step += 1) {
    // A data set's batches would each have their own masked rows.
    if (!lowering.isInDataset) value = belowMarks(value, trail, lowering);
    value = withoutLayerAxis(value);
    const product = productOf(value, trail, lowering);
    if (product !== undefined) {
      const sliced = slicedProduct(product, trail);
      if (sliced === undefined) break;
      return named(composed(lowering, compositionOf(sliced, trail)), trail);
    }
    const next = scoreStepsOf(value, scalars);
    const sum = next === undefined ? choiceAsSum(lowering, value) : undefined;
    if (sum !== undefined) {
      trail.choice ??= value;
      value = sum;
      continue;
    }
    if (next === undefined || next.steps.some((each) => isOfOtherAxis(each, trail))) break;
    const areTaken = next.steps.toReversed().every((each) => taken(each, trail, lowering));
    if (!areTaken) break;
    value = withoutKeptAxis(withoutRearrangement(next.scores));
  }
  return named({ node: producerNode(value) }, trail);
}

function producerNode({ producer }: GraphValue): OperationNode | undefined {
  return producer?.kind === "operation" ? producer : undefined;
}

/** An obstacle by the graph's own operation, where it is among those that a choice became. */
function named(found: SearchedScores | Obstacle, { choice }: Trail): SearchedScores | Obstacle {
  const node = choice && producerNode(choice);
  if ("query" in found || node === undefined) return found;
  return found.node?.name.startsWith(`${node.name}/`) === true ? { node } : found;
}

/** The product with the items of a slice alone; `undefined` where these cannot be searched alone. */
function slicedProduct(product: ScoreProduct, { slice }: Trail): ScoreProduct | undefined {
  if (slice === undefined) return product;
  const hasFactors = product.changes?.some(({ kind }) => kind === "multiplied") === true;
  return hasFactors ? undefined : slicedItems(product, slice);
}

/** What was found on the way from the top-k back to the product. */
interface Trail {
  /** Last step first. */
  readonly steps: ScoreStep[];
  masked?: MaskBehind | undefined;
  best?: { readonly vectorAxis: 1 | 2; readonly stepsBehind: number } | undefined;
  /** The first choice on the way, which became a sum. */
  choice?: GraphValue | undefined;
  /** Which position of a sequence they are of, where all have scores here. */
  position?: Position | undefined;
  /** Of the scores that are ranked, which items they are of, by their numbers here; absent: all. */
  slice?: ItemSlice | undefined;
}

/** The scores below slices, a mask and the best of several vectors, which the trail takes up; or the value itself. */
function belowMarks(value: GraphValue, trail: Trail, lowering: Lowering): GraphValue {
  let below = value;
  for (let step = 0; step <= STEPS_MAX; step += 1) {
    const before = below;
    below = withoutSlice(before, trail);
    below = withoutBest(withoutMask(below, trail, lowering), trail);
    below = withoutPosition(below, trail);
    if (below === before) break;
  }
  return below;
}

/** The scores that a slice is taken of, which the trail takes up; the value itself where there is none. */
function withoutSlice(value: GraphValue, trail: Trail): GraphValue {
  const found = trail.best?.vectorAxis === 2 ? undefined : slicedScoresOf(value);
  if (found === undefined) return value;
  trail.slice = sliceWithin(trail.slice, found.slice);
  return withoutRearrangement(found.scores);
}

/** The scores below a mask, which the trail takes up; the value itself where there is none, or none that goes with another. */
function withoutMask(value: GraphValue, trail: Trail, lowering: Lowering): GraphValue {
  const { steps, slice } = trail;
  const isOpen = trail.best === undefined && trail.position === undefined;
  const found = isOpen ? maskedScoresOf(value, scalarReader(lowering)) : undefined;
  if (found === undefined) return value;
  const { mask, scores } = found;
  const keeps = slice ? slicedRule(mask.keeps, slice, readerOf(lowering)) : mask.keeps;
  const isHiding = mask.score === -Infinity && mask.penalty === undefined;
  const own = { mask: { ...mask, keeps }, stepsBehind: steps.length };
  const joined = isHiding ? withHidden(keeps, steps, trail.masked) : undefined;
  const masked = trail.masked === undefined ? own : joined;
  if (masked === undefined) return value;
  trail.masked = masked;
  return scores;
}

function readerOf({ sources }: Lowering): ReadStored {
  return (stored) => sources.files.contentOf(stored);
}

/** The scores of all vectors below the best of them, which the trail takes up; or the value itself. */
function withoutBest(value: GraphValue, trail: Trail): GraphValue {
  const isOpen = trail.best === undefined && trail.position === undefined;
  const found = isOpen ? bestOfVectors(value) : undefined;
  if (found === undefined) return value;
  trail.best = { vectorAxis: found.vectorAxis, stepsBehind: trail.steps.length };
  return found.scores;
}

/** The scores of all positions below those of one, which the trail takes up; or the value itself. */
function withoutPosition(value: GraphValue, trail: Trail): GraphValue {
  const isOpen = trail.position === undefined && trail.best === undefined;
  const found = isOpen ? onePositionOf(value) : undefined;
  if (found === undefined) return value;
  trail.position = found.position;
  if (found.slice !== undefined) trail.slice = sliceWithin(trail.slice, found.slice);
  return found.scores;
}

/** Takes up a step, and the mask of items that it hides; `false` where these cannot be masked. */
function taken(found: ScoreStep, trail: Trail, lowering: Lowering): boolean {
  const { steps, slice, position } = trail;
  if (position !== undefined && !isOfAnyPosition(found, position)) return false;
  const step = slice === undefined ? found : slicedStep(found, slice, readerOf(lowering));
  if (step === undefined) return false;
  if (step.kind !== "bias" || step.shown === undefined) {
    steps.push(step);
    return true;
  }
  // A data set's batches would each have their own masked rows.
  if (lowering.isInDataset || trail.best !== undefined) return false;
  const masked = withHidden(step.shown, steps, trail.masked);
  if (masked === undefined) return false;
  trail.masked = masked;
  if (step.bias.isNothing !== true) steps.push(step);
  return true;
}

/** Whether a step has a value for each vector, since these stand on the last axis. */
function isOfOtherAxis(step: ScoreStep, { best }: Trail): boolean {
  return isOfItem(step) && best?.vectorAxis === 2;
}

function compositionOf(product: ScoreProduct, { steps, masked, best }: Trail): Composition {
  return {
    product,
    steps: steps.toReversed(),
    mask: masked?.mask,
    stepsBefore: steps.length - (masked?.stepsBehind ?? 0),
    stepsOfEach: steps.length - (best?.stepsBehind ?? 0),
  };
}

/** The product that gives the scores: of queries, or, with an axis of vectors, of several vectors for each. */
function productOf(
  value: GraphValue,
  { best, position }: Trail,
  lowering: Lowering,
): ScoreProduct | undefined {
  const scalars = scalarReader(lowering);
  if (position !== undefined) return productOfPosition(lowering, { value, position }, scalars);
  if (best === undefined) {
    return (
      scoreProductOf(value, scalars) ??
      distanceOf(value, scalars) ??
      computedProductOf(value, scalars) ??
      joinedProductOf(value, scalars, lowering.sources.files) ??
      towerProductOf(value, scalars) ??
      gatedProductOf(value, scalars) ??
      summedProductOf(value, scalars) ??
      widenedProductOf(value, scalars)
    );
  }
  return manyVectorProductOf(value, best.vectorAxis, scalars);
}

/** What scores are made of. */
interface Composition {
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
function composed(lowering: Lowering, composition: Composition): SearchedScores | Obstacle {
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
  const linearSteps = steps.slice(0, end).filter((step) => !isLostBefore(step, end, composition));
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
  if (vectors !== undefined) query = reshaped(lowering, query, [-1, vectors * candidates.dim]);
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
 * Beside rows that have one score whatever is added, it counts.
 */
function isLostBefore(
  { kind }: ScoreStep,
  end: number,
  { steps, mask, stepsBefore }: Composition,
): boolean {
  if (kind !== "added" || steps[end]?.kind !== "softmax") return false;
  const isMasked = mask !== undefined && stepsBefore <= end;
  return !isMasked || mask.penalty !== undefined || mask.score === -Infinity;
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

/** A mask with the score -∞ may as well stand behind biases and what keeps -∞ as it is. */
function withBiasesBefore(whole: Composition): Composition {
  const { steps, mask, stepsBefore } = whole;
  const end = steps.findLastIndex(({ kind }) => kind === "bias") + 1;
  if (mask?.score !== -Infinity || mask.penalty !== undefined || end <= stepsBefore) return whole;
  return steps.slice(stepsBefore, end).every(keepsHidden) ? { ...whole, stepsBefore: end } : whole;
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

/** A product whose query is a matrix: that of all vectors of all queries, or without an axis of size 1. */
function withFlatQuery(lowering: Lowering, product: ScoreProduct): ScoreProduct {
  if (product.query.dtype === "int8") {
    return { ...product, query: asFloats(lowering, product.query) };
  }
  if (product.vectors === undefined && product.query.shape?.length !== 3) return product;
  return { ...product, query: reshaped(lowering, product.query, [-1, dimOf(product)]) };
}

/** Values of a product's query vectors. */
function dimOf({ candidates: { shape }, itemAxis }: ScoreProduct): number {
  return shape[otherAxis(itemAxis)];
}

function mayTurn(step: ScoreStep): boolean {
  return isFalling(step) || isUnknown(step) || step.kind === "itemFactor";
}

/** Whether a step differs by item. */
function isOfItem({ kind }: ScoreStep): boolean {
  return kind === "bias" || kind === "itemFactor";
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

interface BiasedQuery {
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
function withBiases(
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
      scaled = applied(lowering, operation, scaled);
      biases = biases.map((bias) => Object.assign({}, bias, { factor: bias.factor * factor }));
      functions = functions.map(({ op, operand }) => {
        return { op, operand: operand && applied(lowering, operation, operand) };
      });
    } else if (step.kind === "weighted") {
      if (!isForEach(step.operand, items)) return step.operation;
      for (const bias of biases.slice(weighed)) scaled = withBias(lowering, scaled, bias);
      weighed = biases.length;
      scaled = applied(lowering, step.operation, scaled);
      functions = functions.map(({ op, operand }) => {
        return { op, operand: operand && applied(lowering, step.operation, operand) };
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

function storedRows(
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

/** Integers of a quantised layer, all of which are float32 values. */
function asFloats(lowering: Lowering, query: GraphValue): GraphValue {
  const name = `${query.producer?.name ?? "query"}/floats`;
  const attributes = new Attributes(
    name,
    new Map<string, AttributeValue>([
      ["SrcT", { kind: "type", value: numberOfDtype("int8") }],
      ["DstT", { kind: "type", value: numberOfDtype("float32") }],
    ]),
  );
  const node = { op: "Cast", name, attributes, outputDtypes: ["float32"] as const };
  return lowering.operation(node, [query]).outputs[0]!;
}

function reshaped(lowering: Lowering, value: GraphValue, sizes: readonly number[]): GraphValue {
  const shape = constantValue({
    dtype: "int32",
    shape: [sizes.length],
    data: Int32Array.from(sizes),
  });
  const name = `${value.producer?.name ?? "query"}/vectors`;
  const attributes = new Attributes(
    name,
    new Map<string, AttributeValue>([
      ["T", { kind: "type", value: 1 }],
      ["Tshape", { kind: "type", value: 3 }],
    ]),
  );
  const node = { op: "Reshape", name, attributes, outputDtypes: ["float32"] as const };
  return lowering.operation(node, [value, shape]).outputs[0]!;
}

/** Queries with the weight of a bias behind them: a constant, or a value of each query. */
function withBias(lowering: Lowering, query: GraphValue, { factor, weight }: ItemBias): GraphValue {
  if (weight === undefined) return withDimension(lowering, query, factor);
  const name = `${weight.producer?.name ?? "weight"}/bias`;
  const attributes = new Attributes(
    name,
    new Map<string, AttributeValue>([
      ["T", { kind: "type", value: 1 }],
      ["N", { kind: "int", value: 2 }],
      ["Tidx", { kind: "type", value: 3 }],
    ]),
  );
  const outputDtypes = ["float32"] as const;
  const scale = constantValue({ dtype: "float32", shape: [], data: Float32Array.of(factor) });
  const product = { op: "Mul", name: `${name}/weight`, attributes, outputDtypes };
  const scaled = lowering.operation(product, [weight, scale]).outputs[0]!;
  const axis = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(1) });
  const joined = { op: "ConcatV2", name, attributes, outputDtypes };
  return lowering.operation(joined, [query, scaled, axis]).outputs[0]!;
}

/** Queries with a constant behind them. */
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
