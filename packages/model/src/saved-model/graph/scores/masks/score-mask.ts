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
//   s + where(genre == wanted[:, None], 0.5, 0.0)           genre in [wanted of the query], and a bonus
//   s * where(genre == wanted[:, None], 1.2, 1.0)           the same, with a factor
//   s * where(genre == wanted[:, None], 1.2, 0.8)           the same, with a factor for all others too
//
//   where(a & b, s, where(a, s - 5.0, -inf))                a and b: s; else a: a penalty; else -inf
//
//   tensor_scatter_nd_update(s, pairs, c)                   not: row in what the pairs have beside the query
//   where(scatter_nd(pairs, 1, [b, n]) > 0, c, s)           the same
//   concat([fill([b, 1], c), s[:, 1:]], 1)                  row >= 1
//
// All rows that are not kept have the score c, or their own with the penalty; core/program/search/masked-search.ts puts both kinds together.

import type { Tensor } from "@winnow/core";
import { constantValue, integersOf, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue } from "../../graph-value.ts";
import { changeOfAll, changedScoresOf, penaltyOf, withoutBonus } from "./changed-scores.ts";
import { itemsOf, operandsOf, rowColumn } from "./item-column.ts";
import type { Within } from "./item-column.ts";
import { pairsRule } from "./listed-rows.ts";
import { numbersOf, ruleOf } from "./mask-rule.ts";
import { isSingle, repeatedNumberOf, scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { withoutRearrangement } from "../values/rearrangement.ts";
import { slicedScoresOf } from "../steps/score-slice.ts";
import type { ItemSlice } from "../steps/score-slice.ts";
import type { MaskedScores, ScoreMask } from "./changed-scores.ts";

const MASKS_MAX = 8;

/** The masks over scores, and the scores below them; `undefined` where the scores have none that is known. */
export function maskedScoresOf(
  scored: GraphValue,
  scalars: ScalarReader,
  depth = 0,
): MaskedScores | undefined {
  const masks: ScoreMask[] = [];
  let scores = withoutRearrangement(scored);
  for (let count = 0; count < MASKS_MAX; count += 1) {
    const found = oneMaskOf(scores, scalars);
    if (found === undefined || masks.some(({ score }) => !Object.is(score, found.score))) break;
    masks.push(found);
    scores = withoutRearrangement(found.scores);
  }
  const [first] = masks;
  if (first === undefined) {
    return changedScoresOf(scores, scalars) ?? choiceOf(scores, { scalars, depth });
  }
  const rules = masks.map((mask) => mask.keeps);
  const keeps: GraphMaskRule = rules.length === 1 ? rules[0]! : { kind: "and", of: rules };
  const isOfFinite = masks.some((mask) => mask.isOfFinite === true);
  return { masks: [{ keeps, score: first.score, ...(isOfFinite && { isOfFinite }) }], scores };
}

/** How many choices may stand in each other, each in two ways. */
const CHOICES_MAX = 3;

/** `where(condition, scores, masked)`, where what is masked are the same scores: rows that the condition chooses keep them. */
function choiceOf(
  value: GraphValue,
  { scalars, depth }: { readonly scalars: ScalarReader; readonly depth: number },
): MaskedScores | undefined {
  const [condition, yes, no] = operandsOf(value, "SelectV2", "Select");
  const items = itemsOf(value);
  if (condition === undefined || items < 2 || depth >= CHOICES_MAX) return undefined;
  for (const [scores, other] of [[yes!, no!] as const, [no!, yes!] as const]) {
    const masks = masksOver(scores, other, { scalars, depth });
    const rule = masks && ruleOf(condition, { items, scalars, depth: 0 });
    if (masks === undefined || rule === undefined) continue;
    const chosen: GraphMaskRule = scores === yes ? rule : { kind: "not", of: rule };
    const all = masks.map((mask): ScoreMask => {
      const keeps: GraphMaskRule = { kind: "or", of: [chosen, mask.keeps] };
      return Object.assign({}, mask, { keeps });
    });
    return { masks: all, scores };
  }
  return undefined;
}

/** The masks, first one first, that lie between scores and a value. */
function masksOver(
  scores: GraphValue,
  value: GraphValue,
  { scalars, depth }: { readonly scalars: ScalarReader; readonly depth: number },
): readonly ScoreMask[] | undefined {
  const items = itemsOf(scores);
  const masks: ScoreMask[] = [];
  let below = value;
  for (let count = 0; count < CHOICES_MAX && below !== scores; count += 1) {
    const found = maskedScoresOf(below, scalars, depth + 1);
    if (found === undefined) {
      const changes = changeOfAll(below, scores, { items, scalars, depth: 0 });
      return changes && [...changes, ...masks];
    }
    masks.unshift(...found.masks.flatMap(withoutBonus));
    below = withoutRearrangement(found.scores);
  }
  return below === scores && masks.length > 0 ? masks : undefined;
}

type FoundMask = ScoreMask & { readonly scores: GraphValue };

function oneMaskOf(value: GraphValue, scalars: ScalarReader): FoundMask | undefined {
  return (
    maskOf(value, scalars) ??
    blendOf(value, scalars) ??
    scatteredOf(value, scalars) ??
    replacedEndsOf(value, scalars) ??
    paddedEndsOf(value, scalars)
  );
}

/** `scores · (1 - seen) + seen · c`, or `- seen · c`: a number in the place of some scores, which are finite. */
function blendOf(value: GraphValue, scalars: ScalarReader): FoundMask | undefined {
  const node = producerOf(value, "Add", "AddV2", "Sub");
  const [left, right] = node?.inputs ?? [];
  const items = itemsOf(value);
  if (left === undefined || right === undefined || items < 2) return undefined;
  const within: Within = { items, scalars, depth: 0 };
  if (node?.op === "Sub") return blended(left, right, { within, sign: -1 });
  const plus = { within, sign: 1 } as const;
  return blended(left, right, plus) ?? blended(right, left, plus);
}

function blended(
  kept: GraphValue,
  rest: GraphValue,
  { within, sign }: { readonly within: Within; readonly sign: 1 | -1 },
): FoundMask | undefined {
  const flags = operandsOf(rest, "Mul").find((each) => !isSingle(each));
  const penalty = flags && areFlags(flags, within) ? penaltyOf(rest, within) : undefined;
  const factors = operandsOf(kept, "Mul");
  const at = factors.findIndex((each) => flags !== undefined && areOpposite(each, flags, within));
  const scores = at < 0 ? undefined : factors[1 - at];
  const score = Math.fround(sign * (penalty?.amount ?? NaN));
  if (penalty === undefined || scores === undefined || !Number.isFinite(score)) return undefined;
  return itemsOf(scores) === within.items
    ? { keeps: penalty.keeps, score, scores, isOfFinite: true }
    : undefined;
}

/** Whether a value is 1 for some items and 0 for all others. */
function areFlags(value: GraphValue, within: Within): boolean {
  const { numbers = [] } = numbersOf(value, within) ?? {};
  return [0, 1].every((number) => numbers.includes(number)) && new Set(numbers).size === 2;
}

/** Whether one of two values is 1 less the other. */
function areOpposite(a: GraphValue, b: GraphValue, { scalars }: Within): boolean {
  return [[a, b] as const, [b, a] as const].some(([whole, part]) => {
    const [one, others] = operandsOf(whole, "Sub");
    return one !== undefined && others === part && isSingle(one) && scalarOf(one, scalars) === 1;
  });
}

function maskOf(value: GraphValue, scalars: ScalarReader): FoundMask | undefined {
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

/** Up to which number each scatter leaves that number in the place of any score. */
const SCATTERS: ReadonlyMap<string, number> = new Map([
  ["TensorScatterAdd", -Infinity],
  ["TensorScatterMin", -3.4e38],
  ["TensorScatterUpdate", Infinity],
]);

/** `tensor_scatter_nd_update(scores, pairs, c)`, or `…_min` and `…_add` with a c that leaves nothing of scores. */
function scatteredOf(value: GraphValue, scalars: ScalarReader): FoundMask | undefined {
  const node = producerOf(value, ...SCATTERS.keys());
  const [scores, pairs, updates] = node?.inputs ?? [];
  const items = itemsOf(value);
  if (scores === undefined || updates === undefined || items < 2) return undefined;
  const score = repeatedNumberOf(updates, scalars);
  const rule = pairsRule(pairs, items);
  const isLeast = node !== undefined && score !== undefined && score <= SCATTERS.get(node.op)!;
  if (!isLeast || rule === undefined) return undefined;
  return { keeps: { kind: "not", of: rule }, score, scores };
}

/** `concat([fill([b, 1], c), scores[:, 1:]], 1)`: c in the place of the first or the last scores. */
function replacedEndsOf(value: GraphValue, scalars: ScalarReader): FoundMask | undefined {
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
function paddedEndsOf(value: GraphValue, scalars: ScalarReader): FoundMask | undefined {
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
