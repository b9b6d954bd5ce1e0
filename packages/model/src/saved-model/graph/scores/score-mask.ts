// Masks between scores and their top-k: `where(genre == wanted, scores, -inf)`, and the like with items that
// a list of the request names. A mask is searched where what it asks of an item is in a stored vector with one
// value per item (genre, language, price, whether it is in stock), compared with values of the request, or is
// the item's row. Then the vector becomes a column of the table, and the condition a rule over columns.
//
//   where(genre == wanted[:, None], s, c)                  genre in [wanted of the query]
//   where(stock & (price <= most[:, None]), s, c)           both
//   where(reduce_any(ids == seen[:, :, None], 1), c, s)     not: ids in [seen of the query]
//   where(reduce_max(one_hot(seen, n), 1) > 0, c, s)        not: row in [seen of the query]
//
//   s * (1 - seen) + seen * c, seen = reduce_max(one_hot(list, n), 1)   the same
//   s - 1e9 * reduce_max(one_hot(seen, n), 1)               the same, with a penalty in place of c
//
//   tensor_scatter_nd_update(s, pairs, c)                   not: row in what the pairs have beside the query
//   where(scatter_nd(pairs, 1, [b, n]) > 0, c, s)           the same
//   concat([fill([b, 1], c), s[:, 1:]], 1)                  row >= 1
//
// All rows that are not kept have the score c, or their own with the penalty; core/program/search/search-mask.ts puts both kinds together.

import type { Tensor } from "@winnow/core";
import type { StoredTensor } from "../../partitions/stored-table.ts";
import { constantValue, integersOf, producerOf } from "../graph-value.ts";
import type { GraphMaskRule, GraphValue } from "../graph-value.ts";
import { filledNumberOf, isSingle, repeatedNumberOf, scalarOf } from "./scalar-value.ts";
import type { ScalarReader } from "./scalar-value.ts";
import { vectorBefore, withoutRearrangement } from "./rearrangement.ts";
import { slicedScoresOf } from "./score-slice.ts";
import type { ItemSlice } from "./score-slice.ts";

/** A condition on items, before it is known which table holds them. */
export interface ScoreMask {
  readonly keeps: GraphMaskRule;
  /** Of rows that are not kept. */
  readonly score: number;
  /** What is added to the scores of such rows, in place of `score`. */
  readonly penalty?: GraphValue | undefined;
}

const MASKS_MAX = 8;
const DEPTH_MAX = 12;

/** The mask over scores, and the scores below it; `undefined` where the scores have none that is known. */
export function maskedScoresOf(
  scored: GraphValue,
  scalars: ScalarReader,
): { readonly mask: ScoreMask; readonly scores: GraphValue } | undefined {
  const rules: GraphMaskRule[] = [];
  let score: number | undefined;
  let scores = withoutRearrangement(scored);
  for (let count = 0; count < MASKS_MAX; count += 1) {
    const found =
      maskOf(scores, scalars) ??
      blendOf(scores, scalars) ??
      scatteredOf(scores, scalars) ??
      replacedEndsOf(scores, scalars) ??
      paddedEndsOf(scores, scalars);
    if (found === undefined || (score !== undefined && !Object.is(score, found.score))) break;
    ({ score } = found);
    rules.push(found.keeps);
    scores = withoutRearrangement(found.scores);
  }
  if (score === undefined) return penalisedScoresOf(scores, scalars);
  const keeps: GraphMaskRule = rules.length === 1 ? rules[0]! : { kind: "and", of: rules };
  return { mask: { keeps, score }, scores };
}

/** `scores + cast(condition) · c`, `scores - c · max(one_hot(list))`: c is added to all rows but those that are kept. */
function penalisedScoresOf(
  value: GraphValue,
  scalars: ScalarReader,
): { readonly mask: ScoreMask; readonly scores: GraphValue } | undefined {
  const node = producerOf(value, "Add", "AddV2", "Sub");
  const [left, right] = node?.inputs ?? [];
  const items = itemsOf(value);
  if (left === undefined || right === undefined || items < 2) return undefined;
  const within: Within = { items, scalars, depth: 0 };
  if (node?.op === "Sub") return penalised(left, penaltyOf(right, within), { items, sign: -1 });
  return (
    penalised(left, penaltyOf(right, within), { items, sign: 1 }) ??
    penalised(right, penaltyOf(left, within), { items, sign: 1 })
  );
}

function penalised(
  scores: GraphValue,
  penalty: { readonly keeps: GraphMaskRule; readonly amount: number } | undefined,
  { items, sign }: { readonly items: number; readonly sign: 1 | -1 },
): { readonly mask: ScoreMask; readonly scores: GraphValue } | undefined {
  const amount = Math.fround(sign * (penalty?.amount ?? NaN));
  if (penalty === undefined || itemsOf(scores) !== items || !Number.isFinite(amount)) {
    return undefined;
  }
  const added = constantValue({ dtype: "float32", shape: [], data: Float32Array.of(amount) });
  return { mask: { keeps: penalty.keeps, score: 0, penalty: added }, scores };
}

/** `scores · (1 - seen) + seen · c`: c in the place of some scores, which are finite. */
function blendOf(
  value: GraphValue,
  scalars: ScalarReader,
): (ScoreMask & { readonly scores: GraphValue }) | undefined {
  const [left, right] = operandsOf(value, "Add", "AddV2");
  const items = itemsOf(value);
  if (left === undefined || right === undefined || items < 2) return undefined;
  const within: Within = { items, scalars, depth: 0 };
  return blended(left, right, within) ?? blended(right, left, within);
}

function blended(
  kept: GraphValue,
  rest: GraphValue,
  within: Within,
): (ScoreMask & { readonly scores: GraphValue }) | undefined {
  const flags = operandsOf(rest, "Mul").find((each) => !isSingle(each));
  const penalty = penaltyOf(rest, within);
  const factors = operandsOf(kept, "Mul");
  const at = factors.findIndex((each) => flags !== undefined && areOpposite(each, flags, within));
  const scores = at < 0 ? undefined : factors[1 - at];
  const score = Math.fround(penalty?.amount ?? NaN);
  if (penalty === undefined || scores === undefined || !Number.isFinite(score)) return undefined;
  return itemsOf(scores) === within.items ? { keeps: penalty.keeps, score, scores } : undefined;
}

/** Whether one of two values is 1 less the other. */
function areOpposite(a: GraphValue, b: GraphValue, { scalars }: Within): boolean {
  return [[a, b] as const, [b, a] as const].some(([whole, part]) => {
    const [one, others] = operandsOf(whole, "Sub");
    return one !== undefined && others === part && isSingle(one) && scalarOf(one, scalars) === 1;
  });
}

/** A number for rows that a rule does not keep, 0 for the others. */
function penaltyOf(
  product: GraphValue,
  within: Within,
): { readonly keeps: GraphMaskRule; readonly amount: number } | undefined {
  const [left, right] = operandsOf(product, "Mul");
  if (left === undefined || right === undefined) return undefined;
  const [amount, flags] = isSingle(left) ? [left, right] : [right, left];
  const number = scalarOf(amount, within.scalars);
  const rule = number === undefined ? undefined : flaggedOf(flags, within);
  return rule && number !== undefined
    ? { keeps: { kind: "not", of: rule }, amount: number }
    : undefined;
}

/** The rows that have 1 where all others have 0. */
function flaggedOf(flags: GraphValue, within: Within): GraphMaskRule | undefined {
  const [one, others] = operandsOf(flags, "Sub");
  if (one !== undefined && others !== undefined) {
    const rule =
      isSingle(one) && scalarOf(one, within.scalars) === 1 ? flaggedOf(others, within) : undefined;
    return rule && { kind: "not", of: rule };
  }
  const [condition] = operandsOf(flags, "Cast");
  if (condition?.dtype === "bool") return ruleOf(condition, within);
  if (condition !== undefined && INTEGERS.has(condition.dtype)) return flaggedOf(condition, within);
  const capped = cappedCountsOf(flags, within);
  if (capped !== undefined) return isCounted(capped, within);
  return isMultiHot(flags) ? isCounted(flags, within) : undefined;
}

/** Whether an operation gives 0 and 1 alone, whatever it counts. */
function isMultiHot(flags: GraphValue): boolean {
  const bins = producerOf(flags, "DenseBincount");
  if (bins !== undefined) return bins.attributes.flag("binary_output");
  return producerOf(flags, "Max", "OneHot", "TensorScatterUpdate") !== undefined;
}

const INTEGERS: ReadonlySet<string> = new Set(["int32", "int64"]);

/** Counts of which all from 1 on are 1: `minimum(reduce_sum(one_hot(list, n), 1), 1)`, clipped at 0 or not. */
function cappedCountsOf(flags: GraphValue, { scalars }: Within): GraphValue | undefined {
  const beside = (value: GraphValue, op: string, number: number): GraphValue | undefined => {
    const operands = operandsOf(value, op);
    const at = operands.findIndex((each) => isSingle(each) && scalarOf(each, scalars) === number);
    return at < 0 ? undefined : operands[1 - at];
  };
  return beside(beside(flags, "Maximum", 0) ?? flags, "Minimum", 1);
}

function maskOf(
  value: GraphValue,
  scalars: ScalarReader,
): (ScoreMask & { readonly scores: GraphValue }) | undefined {
  const [condition, yes, no] = operandsOf(value, "SelectV2", "Select");
  if (condition === undefined || yes === undefined || no === undefined) return undefined;
  const below = repeatedNumberOf(no, scalars);
  const score = below ?? repeatedNumberOf(yes, scalars);
  const scores = below === undefined ? no : yes;
  const items = itemsOf(value);
  if (score === undefined || items < 2 || itemsOf(scores) !== items) return undefined;
  const rule = ruleOf(condition, { items, scalars, depth: 0 });
  if (rule === undefined) return undefined;
  return { keeps: below === undefined ? { kind: "not", of: rule } : rule, score, scores };
}

/** A score so low that the least of it and another one is it. */
const LOWEST = -3.4e38;

/** `tensor_scatter_nd_update(scores, pairs, c)`, or `…_min` with a c below all scores. */
function scatteredOf(
  value: GraphValue,
  scalars: ScalarReader,
): (ScoreMask & { readonly scores: GraphValue }) | undefined {
  const node = producerOf(value, "TensorScatterUpdate", "TensorScatterMin");
  const [scores, pairs, updates] = node?.inputs ?? [];
  const items = itemsOf(value);
  if (scores === undefined || updates === undefined || items < 2) return undefined;
  const score = repeatedNumberOf(updates, scalars);
  const rule = pairsRule(pairs, items);
  const isLeast = node?.op !== "TensorScatterMin" || (score !== undefined && score <= LOWEST);
  if (score === undefined || rule === undefined || !isLeast) return undefined;
  return { keeps: { kind: "not", of: rule }, score, scores };
}

/** `concat([fill([b, 1], c), scores[:, 1:]], 1)`: c in the place of the first or the last scores. */
function replacedEndsOf(
  value: GraphValue,
  scalars: ScalarReader,
): (ScoreMask & { readonly scores: GraphValue }) | undefined {
  const inputs = operandsOf(value, "ConcatV2");
  const parts = inputs.slice(0, -1);
  const items = itemsOf(value);
  const at = parts.findIndex((part) => slicedScoresOf(part) !== undefined);
  const sliced = at < 0 ? undefined : slicedScoresOf(parts[at]!);
  const isOfItems = ["1", "-1"].includes(integersOf(inputs.at(-1))?.join() ?? "");
  if (sliced === undefined || itemsOf(sliced.scores) !== items || !isOfItems) return undefined;
  const widths = parts.slice(0, at).map(itemsOf);
  const before = widths.includes(-1) ? -1 : widths.reduce((sum, width) => sum + width, 0);
  const score = oneScoreOf(parts.toSpliced(at, 1), scalars);
  const { slice, scores } = sliced;
  if (score === undefined || before !== slice.firstItem) return undefined;
  return { keeps: withinSlice(slice, items), score, scores };
}

/** `pad(scores[:, 1:], [[0, 0], [1, 0]], constant_values=c)`: the same. */
function paddedEndsOf(
  value: GraphValue,
  scalars: ScalarReader,
): (ScoreMask & { readonly scores: GraphValue }) | undefined {
  const [part, paddings, filler] = operandsOf(value, "Pad", "PadV2");
  const [first, last, before] = integersOf(paddings) ?? [];
  const sliced = part && slicedScoresOf(part);
  const items = itemsOf(value);
  if (sliced === undefined || first !== 0 || last !== 0) return undefined;
  const { slice, scores } = sliced;
  const score = filler === undefined ? 0 : repeatedNumberOf(filler, scalars);
  const isInPlace = before === slice.firstItem && itemsOf(scores) === items;
  return score !== undefined && isInPlace
    ? { keeps: withinSlice(slice, items), score, scores }
    : undefined;
}

/** The rows of a slice. */
function withinSlice({ firstItem, items }: ItemSlice, whole: number): GraphMaskRule {
  const bounds = [
    ["gte", firstItem],
    ["lt", firstItem + items],
  ] as const;
  const of = bounds.map(([is, bound]): GraphMaskRule => {
    const tensor: Tensor = { dtype: "int32", shape: [], data: Int32Array.of(bound) };
    return { kind: "test", column: rowColumn(whole), is, values: constantValue(tensor) };
  });
  return { kind: "and", of };
}

/** The one number in the place of the scores of all parts. */
function oneScoreOf(parts: readonly GraphValue[], scalars: ScalarReader): number | undefined {
  const [first, ...others] = parts.map((part) => repeatedNumberOf(part, scalars));
  return others.every((number) => Object.is(number, first)) ? first : undefined;
}

/** Rows that pairs `[..., 2]` of a query and a row name. */
function pairsRule(pairs: GraphValue | undefined, items: number): GraphMaskRule | undefined {
  if (pairs?.shape?.at(-1) !== 2) return undefined;
  return { kind: "test", column: rowColumn(items), is: "at", values: pairs, end: items };
}

/** How many scores a query has; -1 where that is not known. */
function itemsOf({ shape }: GraphValue): number {
  return shape?.length === 2 ? shape[1]! : -1;
}

interface Within {
  readonly items: number;
  readonly scalars: ScalarReader;
  readonly depth: number;
}

function ruleOf(condition: GraphValue, within: Within): GraphMaskRule | undefined {
  if (within.depth > DEPTH_MAX) return undefined;
  const deeper = { ...within, depth: within.depth + 1 };
  const connective = connectiveOf(condition, deeper);
  if (connective !== undefined) return connective;
  const column = columnOf(condition, within.items, 0);
  if (column !== undefined && condition.dtype === "bool") {
    const isTrue: Tensor = { dtype: "bool", shape: [], data: Uint8Array.of(1) };
    return { kind: "test", column, is: "in", values: constantValue(isTrue) };
  }
  return comparisonOf(condition, within) ?? listedOf(condition, within);
}

function connectiveOf(condition: GraphValue, within: Within): GraphMaskRule | undefined {
  const node = producerOf(condition, "LogicalNot", "LogicalAnd", "LogicalOr");
  if (node === undefined) return undefined;
  const rules = node.inputs.map((input) => ruleOf(input, within));
  const [rule] = rules;
  if (rule === undefined || rules.includes(undefined)) return undefined;
  if (node.op === "LogicalNot") return { kind: "not", of: rule };
  return { kind: node.op === "LogicalAnd" ? "and" : "or", of: rules as GraphMaskRule[] };
}

type Comparison = "in" | "gt" | "gte" | "lt" | "lte";

/** What a comparison asks of its left operand, and of its right one. */
const COMPARISONS: ReadonlyMap<string, readonly [Comparison, Comparison]> = new Map([
  ["Equal", ["in", "in"]],
  ["NotEqual", ["in", "in"]],
  ["Less", ["lt", "gt"]],
  ["LessEqual", ["lte", "gte"]],
  ["Greater", ["gt", "lt"]],
  ["GreaterEqual", ["gte", "lte"]],
]);

/** item value ∘ value of the query. */
function comparisonOf(condition: GraphValue, { items }: Within): GraphMaskRule | undefined {
  const node = producerOf(condition, ...COMPARISONS.keys());
  const [left, right] = node?.inputs ?? [];
  if (node === undefined || left === undefined || right === undefined) return undefined;
  const [ofLeft, ofRight] = COMPARISONS.get(node.op)!;
  const test =
    testOf(left, right, { is: ofLeft, items }) ?? testOf(right, left, { is: ofRight, items });
  return test && node.op === "NotEqual" ? { kind: "not", of: test } : test;
}

function testOf(
  item: GraphValue,
  values: GraphValue,
  { is, items }: { readonly is: Comparison; readonly items: number },
): GraphMaskRule | undefined {
  // Booleans and strings have no order.
  const isOrdered = item.dtype !== "bool" && item.dtype !== "string";
  if (!isOfQuery(values) || (is !== "in" && !isOrdered)) return undefined;
  const column = columnOf(item, items, 0);
  return column && { kind: "test", column, is, values };
}

/** Whether a value is one for all queries, or one for each. */
function isOfQuery({ shape }: GraphValue): boolean {
  return shape !== undefined && shape.length <= 2 && (shape.length === 0 || shape.at(-1) === 1);
}

/** Whether an item is among those that a list of the query names. */
function listedOf(condition: GraphValue, within: Within): GraphMaskRule | undefined {
  return (
    comparedWithList(condition, within) ??
    countedInList(condition, within) ??
    isCounted(condition, within)
  );
}

/** The operand of a reduction over one axis that it does not keep, where the axis is one of these. */
function reducedOf(
  value: GraphValue,
  axes: ReadonlyMap<string, number>,
  ...ops: readonly string[]
): { readonly operand: GraphValue; readonly axis: number } | undefined {
  const node = producerOf(value, ...ops);
  const [operand, over] = node?.inputs ?? [];
  if (operand === undefined || node?.attributes.flag("keep_dims") === true) return undefined;
  const axis = axes.get(integersOf(over)?.join() ?? "");
  return axis === undefined ? undefined : { operand, axis };
}

const MIDDLE: ReadonlyMap<string, number> = new Map([
  ["1", 1],
  ["-2", 1],
]);
const INNER: ReadonlyMap<string, number> = new Map([...MIDDLE, ["2", 2], ["-1", 2]]);

/** `reduce_any(items == list[:, :, None], 1)`, `reduce_any(items[:, None] == list[:, None, :], 2)`. */
function comparedWithList(condition: GraphValue, { items }: Within): GraphMaskRule | undefined {
  const any = reducedOf(condition, INNER, "Any");
  const [left, right] = any === undefined ? [] : operandsOf(any.operand, "Equal");
  if (any === undefined || left === undefined || right === undefined) return undefined;
  const fromLast = any.axis === 2 ? 1 : 0;
  for (const [item, list] of [[left, right] as const, [right, left] as const]) {
    const isList = list.shape?.length === 3 && list.shape[2 - fromLast] === 1;
    const column = isList ? columnOf(item, items, fromLast) : undefined;
    if (column !== undefined) return { kind: "test", column, is: "in", values: list };
  }
  return undefined;
}

/** `reduce_max(one_hot(list, items), 1) > 0` and other ways to ask whether a count is none. */
function countedInList(condition: GraphValue, within: Within): GraphMaskRule | undefined {
  const [cast] = operandsOf(condition, "Cast");
  if (cast !== undefined) return isCounted(cast, within);
  const node = producerOf(condition, ...COUNTS.keys());
  const [counts, bound] = node?.inputs ?? [];
  if (node === undefined || counts === undefined || bound === undefined) return undefined;
  const { fits, isAny } = COUNTS.get(node.op)!;
  if (!fits(scalarOf(bound, within.scalars) ?? NaN)) return undefined;
  const rule = isCounted(counts, within);
  return rule && !isAny ? { kind: "not", of: rule } : rule;
}

const isBelowOne = (bound: number): boolean => bound >= 0 && bound < 1;
const isUpToOne = (bound: number): boolean => bound > 0 && bound <= 1;
const isZero = (bound: number): boolean => bound === 0;

/** With which bounds a comparison of a count asks whether there is any, and whether there is none. */
const COUNTS: ReadonlyMap<
  string,
  { readonly fits: (bound: number) => boolean; readonly isAny: boolean }
> = new Map([
  ["Greater", { fits: isBelowOne, isAny: true }],
  ["GreaterEqual", { fits: isUpToOne, isAny: true }],
  ["NotEqual", { fits: isZero, isAny: true }],
  ["Equal", { fits: isZero, isAny: false }],
  ["Less", { fits: isUpToOne, isAny: false }],
  ["LessEqual", { fits: isBelowOne, isAny: false }],
]);

/**
 * Rows that are counted in `[queries, items]`: the one of each query, those that a list `[queries, length]` names, or
 * those to which a scatter writes.
 */
function isCounted(counts: GraphValue, { items, scalars }: Within): GraphMaskRule | undefined {
  const scattered = countedPairs(counts, scalars);
  if (scattered !== undefined)
    return itemsOf(counts) === items ? pairsRule(scattered, items) : undefined;
  const [integers] = operandsOf(counts, "Cast");
  if (integers !== undefined && INTEGERS.has(integers.dtype)) {
    return isCounted(integers, { items, scalars, depth: 0 });
  }
  const listed = listOfBincount(counts, items);
  if (listed !== undefined) return isListed(listed, items);
  const reduced = reducedOf(counts, MIDDLE, "Max", "Sum", "Any")?.operand;
  const list = listOfHot(reduced ?? counts, items);
  const rank = reduced === undefined ? 1 : 2;
  return list?.shape?.length === rank ? isListed(list, items) : undefined;
}

/**
 * The rows, a list for each query, that `bincount(rows, minlength=items, maxlength=items, axis=-1)` counts: what Keras'
 * `CategoryEncoding` is made of.
 */
function listOfBincount(counts: GraphValue, items: number): GraphValue | undefined {
  const [list, , weights] = operandsOf(counts, "DenseBincount");
  const isOfItems = itemsOf(counts) === items && weights?.shape?.[0] === 0;
  return isOfItems && list?.shape?.length === 2 ? list : undefined;
}

/** The rows that `one_hot(rows, items)` sets to 1 along its last axis. */
function listOfHot(hot: GraphValue, items: number): GraphValue | undefined {
  const node = producerOf(hot, "OneHot");
  if (node === undefined) return undefined;
  const [list, depth, on, off] = node.inputs;
  const axis = node.attributes.int("axis", -1);
  const isLast = axis === -1 || axis === list?.shape?.length;
  const isWhole = isLast && integersOf(depth)?.[0] === items;
  return isWhole && isNumber(on, 1) && isNumber(off, 0) ? list : undefined;
}

function isNumber(value: GraphValue | undefined, number: number): boolean {
  const tensor = value?.constant;
  return tensor !== undefined && tensor.dtype !== "string" && Number(tensor.data[0]) === number;
}

function isListed(list: GraphValue, items: number): GraphMaskRule {
  return { kind: "test", column: rowColumn(items), is: "in", values: list };
}

/** The number of each row. */
function rowColumn(items: number): StoredTensor {
  const data = Int32Array.from({ length: items }, (_, row) => row);
  const tensor: Tensor = { dtype: "int32", shape: [items], data };
  return { kind: "constant", name: `rows [${items}]`, tensor };
}

/** The pairs where `scatter_nd(pairs, 1, shape)` or `tensor_scatter_nd_update(zeros, pairs, 1)` is above 0. */
function countedPairs(counts: GraphValue, scalars: ScalarReader): GraphValue | undefined {
  const [pairs, updates] = operandsOf(counts, "ScatterNd");
  if (pairs !== undefined && updates !== undefined)
    return isOne(updates, scalars) ? pairs : undefined;
  const [zeros, places, ones] = operandsOf(counts, "TensorScatterUpdate");
  if (zeros === undefined || places === undefined || ones === undefined) return undefined;
  const isOfNothing = !isSingle(zeros) && isRepeated(zeros, 0, scalars);
  return isOfNothing && isOne(ones, scalars) ? places : undefined;
}

function isOne(value: GraphValue, scalars: ScalarReader): boolean {
  return isRepeated(value, 1, scalars);
}

/** Whether all elements are one number, or that truth. */
function isRepeated(value: GraphValue, number: number, scalars: ScalarReader): boolean {
  return filledNumberOf(value, scalars) === number;
}

function operandsOf(value: GraphValue, ...ops: readonly string[]): readonly GraphValue[] {
  return producerOf(value, ...ops)?.inputs ?? [];
}

const REARRANGEMENTS_MAX = 16;
const DTYPES: ReadonlySet<string> = new Set(["string", "int32", "int64", "float32", "bool"]);

/** A stored vector with one value per item, which stands at this axis from the last one. */
function columnOf(value: GraphValue, items: number, fromLast: number): StoredTensor | undefined {
  if (value.shape?.at(-1 - fromLast) !== items || !DTYPES.has(value.dtype)) return undefined;
  let vector: GraphValue | undefined = value;
  for (let step = 0; vector !== undefined && step < REARRANGEMENTS_MAX; step += 1) {
    const { shape, dtype, stored, constant } = vector;
    const isVector = shape?.filter((size) => size !== 1).join() === String(items);
    if (!isVector || dtype !== value.dtype) return undefined;
    if (stored !== undefined) return stored;
    if (constant !== undefined) {
      return { kind: "constant", name: `constant [${items}]`, tensor: constant };
    }
    vector = vectorBefore(vector);
  }
  return undefined;
}
