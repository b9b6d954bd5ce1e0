// What stands between the product of queries and candidates and the top-k of scores. A search ranks
// rows by one product of vectors, so every operation on the scores must become one of these:
//
//   scores + bias of each item        one more dimension: row [item ‖ bias], query [query ‖ 1]
//   scores + bias · factor of request one more dimension: row [item ‖ bias], query [query ‖ factor]
//   scores · constant, before a bias  the query is multiplied
//   scores · factor of each item      the row is multiplied
//   a function that keeps the order   part of the search, which ranks by its values
//   where(condition, scores, c)       a mask of a search, with functions before and behind it
//   max over several vectors          a search whose queries have several vectors
//   max of several products           the same, with rows of all their items
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

import { areSearched } from "@winnow/core";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import type { Lowering } from "../lowered-nodes.ts";
import { composed } from "./composition/searched-scores.ts";
import type { Composition, SearchedScores } from "./composition/searched-scores.ts";
import { isHiding, withHidden } from "./masks/hidden-items.ts";
import type { MaskBehind } from "./masks/hidden-items.ts";
import { areShort } from "./masks/rule-size.ts";
import { maskedScoresOf } from "./masks/score-mask.ts";
import { gatedProductOf, withoutLayerAxis } from "./products/gated-product.ts";
import { towerProductOf } from "./products/item-tower.ts";
import { bestOfVectors, manyVectorProductOf } from "./products/many-vectors.ts";
import { distanceOf, withoutKeptAxis } from "./products/score-distance.ts";
import { joinedProductOf, scoreProductOf, widenedProductOf } from "./products/score-product.ts";
import type { ScoreProduct } from "./products/score-product.ts";
import { bestProductOf, stackedProductOf } from "./rewrites/best-of-products.ts";
import { choiceAsSum } from "./rewrites/choice-of-scores.ts";
import { computedProductOf } from "./rewrites/computed-items.ts";
import { isOfAnyPosition, onePositionOf, productOfPosition } from "./rewrites/one-position.ts";
import type { Position } from "./rewrites/one-position.ts";
import { summedProductOf } from "./rewrites/summed-products.ts";
import {
  slicedItems,
  slicedRule,
  slicedScoresOf,
  slicedStep,
  sliceWithin,
} from "./steps/score-slice.ts";
import type { ItemSlice, ReadStored } from "./steps/score-slice.ts";
import { isOfItem, scoreStepsOf } from "./steps/score-steps.ts";
import type { Obstacle, ScoreStep } from "./steps/score-steps.ts";
import { withoutRearrangement } from "./values/rearrangement.ts";
import { scalarReader } from "./values/scalar-value.ts";

const STEPS_MAX = 32;

/** Traces scores back to a product with stored candidates. */
export function searchedScoresOf(
  lowering: Lowering,
  scored: GraphValue,
): SearchedScores | Obstacle {
  const scalars = scalarReader(lowering);
  const trail: Trail = { steps: [], masks: [] };
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
  /** Last one first. */
  masks: readonly MaskBehind[];
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

/** The scores below a mask, which the trail takes up; the value itself where there is none, or too many. */
function withoutMask(value: GraphValue, trail: Trail, lowering: Lowering): GraphValue {
  const { steps, slice, masks } = trail;
  const isOpen = trail.best === undefined && trail.position === undefined;
  const found = isOpen ? maskedScoresOf(value, scalarReader(lowering)) : undefined;
  if (found === undefined) return value;
  if (found.masks.some(isHiding) && areOfFinite(trail)) return value;
  let all = masks;
  for (const mask of found.masks.toReversed()) {
    const keeps = slice ? slicedRule(mask.keeps, slice, readerOf(lowering)) : mask.keeps;
    const own = { mask: { ...mask, keeps }, stepsBehind: steps.length };
    all = isHiding(mask) && all.length > 0 ? withHidden(keeps, steps, all) : all.concat(own);
  }
  if (!areReadable(all)) return value;
  trail.masks = all;
  return found.scores;
}

/** Whether a search may have these masks, last one first. */
function areReadable(masks: readonly MaskBehind[]): boolean {
  const inOrder = masks.map(({ mask }) => mask).toReversed();
  return areSearched(inOrder) && areShort(inOrder.map(({ keeps }) => keeps));
}

/** Whether a mask above multiplies scores by 0, so that those below may not be -∞. */
function areOfFinite({ masks }: Trail): boolean {
  return masks.some(({ mask }) => mask.isOfFinite === true);
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
  const masks = withHidden(step.shown, steps, trail.masks);
  if (!areReadable(masks) || areOfFinite(trail)) return false;
  trail.masks = masks;
  if (step.bias.isNothing !== true) steps.push(step);
  return true;
}

/** Whether a step has a value for each vector, since these stand on the last axis. */
function isOfOtherAxis(step: ScoreStep, { best }: Trail): boolean {
  return isOfItem(step) && best?.vectorAxis === 2;
}

function compositionOf(product: ScoreProduct, { steps, masks, best }: Trail): Composition {
  return {
    product,
    steps: steps.toReversed(),
    masks: masks.toReversed().map(({ mask, stepsBehind }) => {
      return { mask, stepsBefore: steps.length - stepsBehind };
    }),
    // The best of products is what the steps are done to.
    stepsOfEach:
      best === undefined && product.vectors !== undefined
        ? 0
        : steps.length - (best?.stepsBehind ?? 0),
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
      widenedProductOf(value, scalars) ??
      bestProductOf(lowering, value)
    );
  }
  const { vectorAxis } = best;
  return (
    manyVectorProductOf(value, vectorAxis, scalars) ?? stackedProductOf(lowering, value, vectorAxis)
  );
}
