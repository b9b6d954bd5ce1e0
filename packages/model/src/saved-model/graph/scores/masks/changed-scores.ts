// Scores to which a graph adds a number for some items, or multiplies them by one: a bonus for the genre that a user
// prefers, a penalty for what was seen. All other items keep theirs.

import { constantValue, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue } from "../../graph-value.ts";
import { elementFunctionsOf } from "../values/element-functions.ts";
import { itemsOf, operandsOf, ruleOf } from "./mask-rule.ts";
import type { Within } from "./mask-rule.ts";
import { isSingle, scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { anyNumbersOf, storedNumbersOf, twoNumbersOf } from "./two-numbers.ts";
import type { TwoNumbers } from "./two-numbers.ts";
import { vectorOf } from "../values/vector-value.ts";

/** A condition on items, before it is known which table holds them. */
export interface ScoreMask {
  readonly keeps: GraphMaskRule;
  /** Of rows that are not kept. */
  readonly score: number;
  /** What is added to the scores of such rows, in place of `score`. */
  readonly penalty?: GraphValue | undefined;
  /** Whether it is a factor above 0 instead. */
  readonly isFactor?: boolean | undefined;
}

/** A mask, and the scores below it. */
export interface MaskedScores {
  readonly mask: ScoreMask;
  readonly scores: GraphValue;
}

/** A number for rows that a rule does not keep, and one that leaves the scores of the others as they are. */
interface Change {
  readonly keeps: GraphMaskRule;
  readonly amount: number;
}

/** Factors beyond these could give many scores one value, or none. */
const FACTOR_MAX = 1e15;

/** Scores that some items keep, and of which others have more, less, or a multiple. */
export function changedScoresOf(
  value: GraphValue,
  scalars: ScalarReader,
): MaskedScores | undefined {
  const items = itemsOf(value);
  if (items < 2 || value.dtype !== "float32") return undefined;
  const within: Within = { items, scalars, depth: 0 };
  return addedTo(value, within) ?? multipliedBy(value, within) ?? chosenChange(value, within);
}

/** `scores + cast(condition) · c`, `scores - c · max(one_hot(list))`. */
function addedTo(value: GraphValue, within: Within): MaskedScores | undefined {
  const node = producerOf(value, "Add", "AddV2", "Sub");
  const [left, right] = node?.inputs ?? [];
  if (left === undefined || right === undefined) return undefined;
  const sign = node?.op === "Sub" ? -1 : 1;
  const found = withAdded(left, changeFor(left, right, { neutral: 0, within }), { within, sign });
  if (found !== undefined || sign < 0) return found;
  return withAdded(right, changeFor(right, left, { neutral: 0, within }), { within, sign });
}

/** Scores to which an amount is added, or from which it is subtracted: -∞ leaves nothing of them. */
function withAdded(
  scores: GraphValue,
  change: Change | undefined,
  { within, sign }: { readonly within: Within; readonly sign: 1 | -1 },
): MaskedScores | undefined {
  const amount = Math.fround(sign * (change?.amount ?? NaN));
  if (change === undefined || itemsOf(scores) !== within.items) return undefined;
  const { keeps } = change;
  if (amount === -Infinity) return { mask: { keeps, score: -Infinity }, scores };
  return Number.isFinite(amount) ? { mask: penalised(keeps, amount, false), scores } : undefined;
}

function penalised(keeps: GraphMaskRule, amount: number, isFactor: boolean): ScoreMask {
  const penalty = constantValue({ dtype: "float32", shape: [], data: Float32Array.of(amount) });
  return { keeps, score: 0, penalty, ...(isFactor && { isFactor }) };
}

/** A number for rows that a rule does not keep, 0 for the others. */
export function penaltyOf(value: GraphValue, within: Within): Change | undefined {
  return changeBeside(0, anyNumbersOf(value, within));
}

function changeBeside(neutral: number, numbers: TwoNumbers | undefined): Change | undefined {
  if (numbers === undefined) return undefined;
  const { rule, inside, outside } = numbers;
  if (outside === neutral) return { keeps: { kind: "not", of: rule }, amount: inside };
  return inside === neutral ? { keeps: rule, amount: outside } : undefined;
}

/** What numbers beside scores change. Those that are stored become part of rows, unless a function stands between. */
function changeFor(
  scores: GraphValue,
  numbers: GraphValue,
  { neutral, within }: { readonly neutral: number; readonly within: Within },
): Change | undefined {
  if (vectorOf(numbers, within.items, within.scalars) === undefined) {
    return changeBeside(neutral, twoNumbersOf(numbers, within));
  }
  const { producer } = scores;
  const isFunction = producer?.kind === "operation" && elementFunctionsOf(producer) !== undefined;
  return isFunction ? changeBeside(neutral, storedNumbersOf(numbers, within)) : undefined;
}

/** `scores * where(condition, 1.2, 1.0)`, `sigmoid(scores) * cast(condition)`. */
function multipliedBy(value: GraphValue, within: Within): MaskedScores | undefined {
  const operands = operandsOf(value, "Mul");
  // Scores are finite: times 0 they are 0 in either way.
  const places = [operands, operands.toReversed(), operandsOf(value, "MulNoNan")];
  for (const [scores, other] of places) {
    if (scores === undefined || other === undefined || itemsOf(scores) !== within.items) continue;
    const change = changeFor(scores, other, { neutral: 1, within });
    const mask = change && withFactor(change);
    if (mask !== undefined) return { mask, scores };
  }
  return undefined;
}

/** Scores that are finite are 0 where the factor is. */
function withFactor({ keeps, amount }: Change): ScoreMask | undefined {
  if (amount === 0) return { keeps, score: 0 };
  return amount > 1 / FACTOR_MAX && amount < FACTOR_MAX
    ? penalised(keeps, amount, true)
    : undefined;
}

/** `where(condition, scores + c, scores)`, `where(condition, scores, scores * c)`. */
function chosenChange(value: GraphValue, within: Within): MaskedScores | undefined {
  const [condition, yes, no] = operandsOf(value, "SelectV2", "Select");
  if (condition === undefined || yes === undefined || no === undefined) return undefined;
  const inYes = numberBeside(yes, no, within);
  const found = inYes ?? numberBeside(no, yes, within);
  const scores = inYes === undefined ? yes : no;
  const rule = found && itemsOf(scores) === within.items ? ruleOf(condition, within) : undefined;
  if (found === undefined || rule === undefined) return undefined;
  const keeps: GraphMaskRule = inYes === undefined ? rule : { kind: "not", of: rule };
  return withChange(scores, { ...found, keeps }, within);
}

function withChange(
  scores: GraphValue,
  { op, ...change }: Change & { readonly op: string },
  within: Within,
): MaskedScores | undefined {
  if (op !== "Mul") return withAdded(scores, change, { within, sign: op === "Sub" ? -1 : 1 });
  const mask = withFactor(change);
  return mask && { mask, scores };
}

/** The number that is added to scores, subtracted from them or multiplied with them. */
function numberBeside(
  changed: GraphValue,
  scores: GraphValue,
  { scalars }: Within,
): { readonly op: string; readonly amount: number } | undefined {
  const node = producerOf(changed, "Add", "AddV2", "Mul", "Sub");
  const at = node?.inputs.indexOf(scores) ?? -1;
  const other = node?.inputs[1 - at];
  if (node === undefined || at < 0 || other === undefined) return undefined;
  const amount = isSingle(other) ? scalarOf(other, scalars) : undefined;
  // What is subtracted from may not be the scores.
  return amount === undefined || (node.op === "Sub" && at === 1)
    ? undefined
    : { op: node.op, amount };
}
