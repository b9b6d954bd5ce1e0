// Scores to which a graph adds a number for some items, or multiplies them by one: a bonus for the genre that a user
// prefers, a penalty for what was seen. All other items keep theirs.

import { producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue } from "../../graph-value.ts";
import { elementFunctionsOf, scalarValue } from "../values/element-functions.ts";
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
  /** Beside a penalty: what is added to the scores of rows that are kept; absent: nothing. */
  readonly bonus?: GraphValue | undefined;
  /** Whether these are factors above 0 instead. */
  readonly isFactor?: boolean | undefined;
  /** Whether it is made of products with 0, which an infinity has none of. */
  readonly isOfFinite?: boolean | undefined;
}

/** A mask, and the scores below it. */
export interface MaskedScores {
  readonly mask: ScoreMask;
  readonly scores: GraphValue;
}

/** A number for rows that a rule does not keep, and one for the others; absent: their scores stay as they are. */
interface Change {
  readonly keeps: GraphMaskRule;
  readonly amount: number;
  readonly ofKept?: number | undefined;
}

const CHANGES = ["Add", "AddV2", "Mul", "Sub"];
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
  if (change === undefined || itemsOf(scores) !== within.items) return undefined;
  const { keeps } = change;
  const amount = Math.fround(sign * change.amount);
  const ofKept = change.ofKept && Math.fround(sign * change.ofKept);
  if (amount === -Infinity && ofKept === undefined) {
    return { mask: { keeps, score: -Infinity }, scores };
  }
  const areFinite = Number.isFinite(amount) && Number.isFinite(ofKept ?? 0);
  return areFinite ? { mask: penalised({ keeps, amount, ofKept }, false), scores } : undefined;
}

function penalised({ keeps, amount, ofKept }: Change, isFactor: boolean): ScoreMask {
  const bonus = ofKept === undefined ? undefined : scalarValue(ofKept);
  const changes = { penalty: scalarValue(amount), ...(bonus && { bonus }) };
  return { keeps, score: 0, ...changes, ...(isFactor && { isFactor }) };
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

/** What numbers change, where that may be the scores of all rows. */
function changeOfAll(neutral: number, numbers: TwoNumbers | undefined): Change | undefined {
  const change = changeBeside(neutral, numbers);
  if (change !== undefined || numbers === undefined) return change;
  const { rule, inside, outside } = numbers;
  return { keeps: rule, amount: outside, ofKept: inside };
}

/** What numbers beside scores change. Those that are stored become part of rows, unless a function stands between. */
function changeFor(
  scores: GraphValue,
  numbers: GraphValue,
  { neutral, within }: { readonly neutral: number; readonly within: Within },
): Change | undefined {
  if (vectorOf(numbers, within.items, within.scalars) === undefined) {
    return changeOfAll(neutral, twoNumbersOf(numbers, within));
  }
  const { producer } = scores;
  const isFunction = producer?.kind === "operation" && elementFunctionsOf(producer) !== undefined;
  return isFunction ? changeOfAll(neutral, storedNumbersOf(numbers, within)) : undefined;
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
function withFactor(change: Change): ScoreMask | undefined {
  const { keeps, amount, ofKept = 1 } = change;
  if (amount === 0 && change.ofKept === undefined) return { keeps, score: 0, isOfFinite: true };
  const areFactors = [amount, ofKept].every((each) => each > 1 / FACTOR_MAX && each < FACTOR_MAX);
  return areFactors ? penalised(change, true) : undefined;
}

/** `where(condition, scores + c, scores)`, `where(condition, scores, scores * c)`, `where(condition, scores * c, scores * d)`. */
function chosenChange(value: GraphValue, within: Within): MaskedScores | undefined {
  const [condition, yes, no] = operandsOf(value, "SelectV2", "Select");
  if (condition === undefined || yes === undefined || no === undefined) return undefined;
  const both = changeOfBoth([yes, no], within);
  const ruleOfBoth = both && ruleOf(condition, within);
  if (ruleOfBoth !== undefined) {
    return withChange(both!.scores, { ...both!, keeps: ruleOfBoth }, within);
  }
  return changeOfOne(condition, [yes, no], within);
}

/** A number beside the scores of one choice, where the other one is these scores. */
function changeOfOne(
  condition: GraphValue,
  [yes, no]: readonly [GraphValue, GraphValue],
  within: Within,
): MaskedScores | undefined {
  const inYes = numberBeside(yes, no, within);
  const found = inYes ?? numberBeside(no, yes, within);
  const scores = inYes === undefined ? yes : no;
  const rule = found && itemsOf(scores) === within.items ? ruleOf(condition, within) : undefined;
  if (found === undefined || rule === undefined) return undefined;
  const keeps: GraphMaskRule = inYes === undefined ? rule : { kind: "not", of: rule };
  return withChange(scores, { ...found, keeps }, within);
}

/** The numbers beside scores that both choices are made of by one operation. */
function changeOfBoth(
  [yes, no]: readonly [GraphValue, GraphValue],
  within: Within,
): (Omit<Change, "keeps"> & { readonly op: string; readonly scores: GraphValue }) | undefined {
  const scores = operandsOf(yes, ...CHANGES).find((each) => itemsOf(each) === within.items);
  const ofKept = scores && numberBeside(yes, scores, within);
  const others = scores && numberBeside(no, scores, within);
  if (ofKept === undefined || others === undefined || ofKept.op !== others.op) return undefined;
  return { ...others, ofKept: ofKept.amount, scores: scores! };
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
  const node = producerOf(changed, ...CHANGES);
  const at = node?.inputs.indexOf(scores) ?? -1;
  const other = node?.inputs[1 - at];
  if (node === undefined || at < 0 || other === undefined) return undefined;
  const amount = isSingle(other) ? scalarOf(other, scalars) : undefined;
  // What is subtracted from may not be the scores.
  return amount === undefined || (node.op === "Sub" && at === 1)
    ? undefined
    : { op: node.op, amount };
}
