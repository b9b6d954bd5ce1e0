// Scores to which a graph adds a number for some items, or multiplies them by one: a bonus for the genre that a user
// prefers, a penalty for what was seen. All other items keep theirs.

import { producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue } from "../../graph-value.ts";
import { elementFunctionsOf, scalarValue } from "../values/element-functions.ts";
import { isSingle, scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";
import { vectorOf } from "../values/vector-value.ts";
import { ruleWhere, storedNumbersOf } from "./few-numbers.ts";
import type { FewNumbers } from "./few-numbers.ts";
import { itemsOf, operandsOf } from "./item-column.ts";
import type { Within } from "./item-column.ts";
import { numbersOf, ruleOf } from "./mask-rule.ts";

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
  /** Whether it is only for rows that the masks before it keep. */
  readonly isElse?: boolean | undefined;
  /** Whether it is made of products with 0, which an infinity has none of. */
  readonly isOfFinite?: boolean | undefined;
}

/** Masks, first one first, and the scores below them. */
export interface MaskedScores {
  readonly masks: readonly ScoreMask[];
  readonly scores: GraphValue;
}

/** A number for rows that a rule does not keep, and one for the others; absent: their scores stay as they are. */
interface Change {
  readonly keeps: GraphMaskRule;
  readonly amount: number;
  readonly ofKept?: number | undefined;
  readonly isElse?: boolean | undefined;
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
  const found = withAdded(left, changesFor(left, right, { neutral: 0, within }), { within, sign });
  if (found !== undefined || sign < 0) return found;
  return withAdded(right, changesFor(right, left, { neutral: 0, within }), { within, sign });
}

/** Scores to which amounts are added, or from which they are subtracted: -∞ leaves nothing of them. */
function withAdded(
  scores: GraphValue,
  changes: readonly Change[] | undefined,
  { within, sign }: { readonly within: Within; readonly sign: 1 | -1 },
): MaskedScores | undefined {
  if (changes === undefined || itemsOf(scores) !== within.items) return undefined;
  const signed = changes.map((change): Change => ({
    ...change,
    amount: Math.fround(sign * change.amount),
    ofKept: change.ofKept && Math.fround(sign * change.ofKept),
  }));
  const [{ keeps, amount, ofKept } = {}, ...others] = signed;
  if (keeps !== undefined && amount === -Infinity && ofKept === undefined && others.length === 0) {
    return { masks: [{ keeps, score: -Infinity }], scores };
  }
  const areFinite = signed.every(({ amount, ofKept = 0 }) => {
    return Number.isFinite(amount) && Number.isFinite(ofKept);
  });
  return areFinite
    ? { masks: signed.map((change) => penalised(change, false)), scores }
    : undefined;
}

function penalised({ keeps, amount, ofKept, isElse }: Change, isFactor: boolean): ScoreMask {
  const bonus = ofKept === undefined ? undefined : scalarValue(ofKept);
  const changes = { penalty: scalarValue(amount), ...(bonus && { bonus }) };
  return { keeps, score: 0, ...changes, ...(isFactor && { isFactor }), ...(isElse && { isElse }) };
}

/** A number for rows that a rule does not keep, 0 for the others. */
export function penaltyOf(value: GraphValue, within: Within): Change | undefined {
  const [change, ...others] = changesBeside(0, numbersOf(value, within)) ?? [];
  return change?.ofKept === undefined && others.length === 0 ? change : undefined;
}

/** What numbers change, one after the other, each for rows that those before it keep. */
function changesBeside(
  neutral: number,
  few: FewNumbers | undefined,
): readonly Change[] | undefined {
  // From the last one on, where all flags are true.
  const numbers = [...new Set(few?.numbers.toReversed())];
  if (few === undefined || numbers.length < 2) return undefined;
  const isOfAll = !numbers.includes(neutral);
  const ofKept = isOfAll ? numbers[0] : undefined;
  const amounts = numbers.filter((number) => number !== (ofKept ?? neutral));
  const changes = amounts.map((amount, at): Change | undefined => {
    const left = new Set(amounts.slice(0, at + 1));
    const keeps = ruleWhere(few, (number) => !left.has(number));
    const isLast = at === amounts.length - 1;
    return keeps && { keeps, amount, ofKept: isLast ? ofKept : undefined, isElse: at > 0 };
  });
  return changes.includes(undefined) ? undefined : (changes as Change[]);
}

/** What numbers beside scores change. Those that are stored become part of rows, unless a function stands between. */
function changesFor(
  scores: GraphValue,
  numbers: GraphValue,
  { neutral, within }: { readonly neutral: number; readonly within: Within },
): readonly Change[] | undefined {
  if (numbers.dtype !== "float32") return undefined;
  if (vectorOf(numbers, within.items, within.scalars) === undefined) {
    return changesBeside(neutral, numbersOf(numbers, within));
  }
  const { producer } = scores;
  const isFunction = producer?.kind === "operation" && elementFunctionsOf(producer) !== undefined;
  return isFunction ? changesBeside(neutral, storedNumbersOf(numbers, within)) : undefined;
}

/** `scores * where(condition, 1.2, 1.0)`, `sigmoid(scores) * cast(condition)`. */
function multipliedBy(value: GraphValue, within: Within): MaskedScores | undefined {
  const operands = operandsOf(value, "Mul");
  // Scores are finite: times 0 they are 0 in either way.
  const places = [operands, operands.toReversed(), operandsOf(value, "MulNoNan")];
  for (const [scores, other] of places) {
    if (scores === undefined || other === undefined || itemsOf(scores) !== within.items) continue;
    const changes = changesFor(scores, other, { neutral: 1, within });
    const masks = changes && withFactors(changes);
    if (masks !== undefined) return { masks, scores };
  }
  return undefined;
}

function withFactors(changes: readonly Change[]): readonly ScoreMask[] | undefined {
  const masks = changes.map((change) => withFactor(change, changes.length === 1));
  return masks.includes(undefined) ? undefined : (masks as ScoreMask[]);
}

/** Scores that are finite are 0 where the factor is. */
function withFactor(change: Change, isAlone: boolean): ScoreMask | undefined {
  const { keeps, amount, ofKept = 1 } = change;
  if (amount === 0 && change.ofKept === undefined && isAlone)
    return { keeps, score: 0, isOfFinite: true };
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
):
  | (Omit<Change, "keeps"> & { readonly op: "Add" | "Mul"; readonly scores: GraphValue })
  | undefined {
  const scores = operandsOf(yes, ...CHANGES).find((each) => itemsOf(each) === within.items);
  const ofKept = scores && numberBeside(yes, scores, within);
  const others = scores && numberBeside(no, scores, within);
  if (ofKept === undefined || others === undefined || ofKept.op !== others.op) return undefined;
  return { ...others, ofKept: ofKept.amount, scores: scores! };
}

function withChange(
  scores: GraphValue,
  { op, ...change }: Change & { readonly op: "Add" | "Mul" },
  within: Within,
): MaskedScores | undefined {
  if (op === "Add") return withAdded(scores, [change], { within, sign: 1 });
  const masks = withFactors([change]);
  return masks && { masks, scores };
}

/** The masks that keep no row, where scores are all changed by one number. */
export function changeOfAll(
  changed: GraphValue,
  scores: GraphValue,
  within: Within,
): readonly ScoreMask[] | undefined {
  const found = numberBeside(changed, scores, within);
  return found && withChange(scores, { ...found, keeps: { kind: "or", of: [] } }, within)?.masks;
}

/** A mask that changes the scores of rows that it keeps too, as two that do not. */
export function withoutBonus({ bonus, ...mask }: ScoreMask): readonly ScoreMask[] {
  if (bonus === undefined) return [mask];
  const ofKept: ScoreMask = { ...mask, keeps: { kind: "not", of: mask.keeps }, penalty: bonus };
  return [ofKept, { ...mask, isElse: true }];
}

/** The number that is added to scores, subtracted from them or multiplied with them. */
function numberBeside(
  changed: GraphValue,
  scores: GraphValue,
  { scalars }: Within,
): { readonly op: "Add" | "Mul"; readonly amount: number } | undefined {
  const node = producerOf(changed, ...CHANGES);
  const at = node?.inputs.indexOf(scores) ?? -1;
  const other = node?.inputs[1 - at];
  if (node === undefined || at < 0 || other === undefined) return undefined;
  const amount = isSingle(other) ? scalarOf(other, scalars) : undefined;
  if (amount === undefined) return undefined;
  if (node.op === "Mul") return { op: "Mul", amount };
  if (node.op !== "Sub") return { op: "Add", amount };
  // What is subtracted from may not be the scores.
  return at === 0 ? { op: "Add", amount: -amount } : undefined;
}
