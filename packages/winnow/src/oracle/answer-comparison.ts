// Two answers to one question, instance by instance: equal to the bit, equal within a tolerance, or not.
//
// With a tolerance, lists of (score, id) may also differ in the order of items whose scores are that close,
// and in which of several such items made it into the list: another sum of the same products orders them
// otherwise. That is explained, not hidden. Everything else is a difference.
//
//   expected  a 0.9000001  b 0.9  c 0.5  d 0.3000001        ids b, a in another order: explained
//   given     b 0.9        a 0.9  c 0.5  e 0.3              e instead of d at the end: explained, both at 0.3

import type { Dtype } from "@winnow/core";
import { type AnswerValue, isAnswerObject } from "./answer-json.ts";
import {
  ATTRIBUTES,
  type AnswerRecord,
  type AnswerRecords,
  type OutputSpec,
} from "./answer-records.ts";

/** How close is equal: |a − b| ≤ tolerance · max(1, |b|); 0: to the bit. */
export interface ComparisonRules {
  readonly outputs: readonly OutputSpec[];
  readonly tolerance: number;
}

/** One place where answers differ. */
export interface Difference {
  readonly kind:
    | "count"
    | "id"
    | "score"
    | "value"
    | "form"
    | "status"
    | "version"
    | "arm"
    | "attributes";
  /** Instance of the request. */
  readonly instance: number;
  /** Place in the list, or in the values of an output, from 0; absent where lengths differ. */
  readonly place?: number | undefined;
  readonly expected: string;
  readonly given: string;
  /** The id that was given where the list has one. */
  readonly givenId?: AnswerValue;
}

/** What a comparison found. */
export interface Comparison {
  /** `close`: equal within the tolerance only; `reordered`: and in the order of close scores. */
  readonly verdict: "equal" | "close" | "reordered" | "different";
  readonly differences: readonly Difference[];
}

/** A list of items: scores, best first, and their ids. */
interface RankedItems {
  readonly scores: readonly AnswerValue[];
  readonly ids: readonly AnswerValue[];
}

const VERDICTS = ["equal", "close", "reordered", "different"] as const;
type Verdict = (typeof VERDICTS)[number];
/** Most differences that are reported of one answer. */
const DIFFERENCES_MAX = 3;
const TEXT_MAX = 80;
const FLOAT32_DIGITS = 9;
const DIMENSIONS_TOLD_MAX = 8;

/** Compares what was answered with what had to be. */
export function compareAnswers(
  expected: readonly AnswerRecord[],
  given: AnswerRecords,
  rules: ComparisonRules,
): Comparison {
  if (given.kind === "fault") {
    const one = { kind: "form", instance: 0, expected: "an answer", given: given.text } as const;
    return { verdict: "different", differences: [one] };
  }
  const { records } = given;
  if (records.length !== expected.length) {
    const counts = { expected: `${expected.length} answers`, given: String(records.length) };
    const one = { kind: "count", instance: 0, ...counts } as const;
    return { verdict: "different", differences: [one] };
  }
  let worst: Verdict = "equal";
  const differences: Difference[] = [];
  for (const [instance, record] of expected.entries()) {
    const found = compareRecords(record, records[instance]!, rules);
    worst = worseOf(worst, found.verdict);
    for (const each of found.differences) differences.push({ ...each, instance });
  }
  return { verdict: worst, differences: differences.slice(0, DIFFERENCES_MAX) };
}

function worseOf(a: Verdict, b: Verdict): Verdict {
  return VERDICTS.indexOf(a) > VERDICTS.indexOf(b) ? a : b;
}

function compareRecords(
  expected: AnswerRecord,
  given: AnswerRecord,
  rules: ComparisonRules,
): Comparison {
  const outputs = rules.outputs.filter(({ isDescription }) => isDescription !== true);
  const names = rankingNames(expected, outputs);
  const wanted = names && itemsOf(expected, names);
  if (names !== undefined && wanted !== undefined) {
    const shown = itemsOf(given, names);
    const found = compareItems(wanted, shown, { ...rules, outputs });
    if (found.verdict === "different" || outputs.length === rules.outputs.length) return found;
    const described = compareDescriptions(wanted, shown!, [expected, given]);
    return described ?? found;
  }
  let worst: Verdict = "equal";
  const differences: Difference[] = [];
  for (const { name, dtype } of rules.outputs) {
    const found = compareValues(expected.get(name)!, given.get(name)!, {
      dtype,
      tolerance: rules.tolerance,
    });
    worst = worseOf(worst, found.verdict);
    differences.push(...found.differences);
  }
  return { verdict: worst, differences };
}

/**
 * Compares what is said of each item that both lists have, wherever it stands; `undefined` where all is equal. An item
 * that only one list has was explained by its score.
 */
function compareDescriptions(
  expected: RankedItems,
  given: RankedItems,
  [wanted, shown]: readonly [AnswerRecord, AnswerRecord],
): Comparison | undefined {
  const [texts, others] = [wanted, shown].map((record) => {
    const list = record.get(ATTRIBUTES.name);
    return Array.isArray(list) ? (list as readonly AnswerValue[]).map(wholeText) : [];
  });
  const byId = new Map(expected.ids.map((id, at) => [keyOf(id), texts![at] ?? "nothing"]));
  for (const [place, id] of given.ids.entries()) {
    const text = byId.get(keyOf(id));
    const own = others![place] ?? "nothing";
    if (text === undefined || text === own) continue;
    const one = { kind: "attributes", instance: 0, place, expected: text, given: own } as const;
    return { verdict: "different", differences: [one] };
  }
  return undefined;
}

/** A value with everything in it, members in their order. */
function wholeText(value: AnswerValue): string {
  if (isNumeric(value)) return String(value);
  if (Array.isArray(value))
    return `[${(value as readonly AnswerValue[]).map(wholeText).join(",")}]`;
  if (!isAnswerObject(value)) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, each]) => `${JSON.stringify(name)}:${wholeText(each)}`,
  );
  return `{${members.join(",")}}`;
}

interface RankingNames {
  readonly scores: string;
  readonly ids: string;
}

/** The outputs that are the scores and the ids of one list: one of floats, one of something else, alike in length. */
function rankingNames(
  record: AnswerRecord,
  outputs: readonly OutputSpec[],
): RankingNames | undefined {
  if (outputs.length !== 2) return undefined;
  const scores = outputs.filter(({ dtype }) => isFloat(dtype));
  const ids = outputs.filter(({ dtype }) => !isFloat(dtype));
  if (scores.length !== 1 || ids.length !== 1) return undefined;
  const names = { scores: scores[0]!.name, ids: ids[0]!.name };
  return itemsOf(record, names) === undefined ? undefined : names;
}

function isFloat(dtype: Dtype): boolean {
  return dtype === "float32" || dtype === "float64";
}

function itemsOf(record: AnswerRecord, names: RankingNames): RankedItems | undefined {
  const scores = record.get(names.scores);
  const ids = record.get(names.ids);
  const areLists = Array.isArray(scores) && Array.isArray(ids) && scores.length === ids.length;
  return areLists ? { scores: scores as AnswerValue[], ids: ids as AnswerValue[] } : undefined;
}

function compareItems(
  expected: RankedItems,
  given: RankedItems | undefined,
  { outputs, tolerance }: ComparisonRules,
): Comparison {
  if (given?.ids.length !== expected.ids.length) {
    const shown =
      given === undefined ? "no list of scores and ids alike" : `${given.ids.length} items`;
    const counts = { expected: `${expected.ids.length} items`, given: shown };
    return { verdict: "different", differences: [{ kind: "count", instance: 0, ...counts }] };
  }
  const dtype = outputs.find((output) => isFloat(output.dtype))!.dtype;
  let worst: Verdict = "equal";
  const differences: Difference[] = [];
  const isExplained = closeOrders(expected, given, tolerance);
  for (const [place, id] of expected.ids.entries()) {
    const [wanted, shown] = [expected.scores[place]!, given.scores[place]!];
    const verdict = worseOf(
      compareNumbers(wanted, shown, { dtype, tolerance }),
      idVerdict(isSameScalar(id, given.ids[place]!), () => isExplained(place)),
    );
    worst = worseOf(worst, verdict);
    if (verdict !== "different") continue;
    const givenId = given.ids[place]!;
    differences.push({
      kind: isSameScalar(id, givenId) ? "score" : "id",
      instance: 0,
      place,
      expected: itemText(id, wanted),
      given: itemText(givenId, shown),
      givenId,
    });
  }
  return { verdict: worst, differences };
}

function idVerdict(isSame: boolean, isExplained: () => boolean): Verdict {
  if (isSame) return "equal";
  return isExplained() ? "reordered" : "different";
}

/**
 * Whether another id at a place is explained: each of the two ids stands elsewhere in the other list with a
 * score that is close to its own, or in none, because the list ends among scores that are that close.
 */
function closeOrders(
  expected: RankedItems,
  given: RankedItems,
  tolerance: number,
): (place: number) => boolean {
  if (tolerance === 0) return () => false;
  const inExpected = scoresById(expected);
  const inGiven = scoresById(given);
  const fits = (item: RankedItems, place: number, others: RankedItems): boolean => {
    const own = item.scores[place]!;
    const known = (others === given ? inGiven : inExpected).get(keyOf(item.ids[place]!));
    const last = others.scores.at(-1)!;
    return (known ?? [last]).some((score) => isClose(own, score, tolerance));
  };
  const stands = (id: AnswerValue): number => inExpected.get(keyOf(id))?.length ?? 0;
  // An item that stands twice where it stood once is no other order.
  const isRepeated = (id: AnswerValue): boolean =>
    inGiven.get(keyOf(id))!.length > Math.max(1, stands(id));
  return (place) =>
    !isRepeated(given.ids[place]!) && fits(expected, place, given) && fits(given, place, expected);
}

function scoresById({ ids, scores }: RankedItems): Map<string, AnswerValue[]> {
  const found = new Map<string, AnswerValue[]>();
  for (const [place, id] of ids.entries()) {
    const key = keyOf(id);
    const known = found.get(key);
    if (known === undefined) found.set(key, [scores[place]!]);
    else known.push(scores[place]!);
  }
  return found;
}

interface ValueRules {
  readonly dtype: Dtype;
  readonly tolerance: number;
}

/** Compares the values of one output, of any shape. */
function compareValues(expected: AnswerValue, given: AnswerValue, rules: ValueRules): Comparison {
  let worst: Verdict = "equal";
  const differences: Difference[] = [];
  const isAlike = eachScalar(expected, given, (wanted, shown, place) => {
    const isNumber = isFloat(rules.dtype);
    const same = isSameScalar(wanted, shown) ? "equal" : "different";
    const verdict = isNumber ? compareNumbers(wanted, shown, rules) : same;
    worst = worseOf(worst, verdict);
    if (verdict !== "different") return;
    const texts = { expected: textOf(wanted), given: textOf(shown) };
    differences.push({ kind: isNumber ? "score" : "value", instance: 0, place, ...texts });
  });
  if (isAlike) return { verdict: worst, differences };
  const texts = { expected: shapeText(expected), given: shapeText(given) };
  return { verdict: "different", differences: [{ kind: "count", instance: 0, ...texts }] };
}

/** Visits scalars in pairs; false where the lists are not alike. */
function eachScalar(
  expected: AnswerValue,
  given: AnswerValue,
  visit: (expected: AnswerValue, given: AnswerValue, place: number) => void,
): boolean {
  let place = 0;
  const walk = (wanted: AnswerValue, shown: AnswerValue): boolean => {
    if (!Array.isArray(wanted) && !Array.isArray(shown)) {
      visit(wanted, shown, place);
      place += 1;
      return true;
    }
    if (!Array.isArray(wanted) || !Array.isArray(shown) || wanted.length !== shown.length)
      return false;
    return wanted.every((value: AnswerValue, at) => walk(value, shown[at] as AnswerValue));
  };
  return walk(expected, given);
}

/** Compares two numbers as values of a float dtype. */
function compareNumbers(
  expected: AnswerValue,
  given: AnswerValue,
  { dtype, tolerance }: ValueRules,
): Verdict {
  if (!isNumeric(expected) || !isNumeric(given)) return "different";
  const [a, b] = [Number(expected), Number(given)];
  const isSame = dtype === "float32" ? Object.is(Math.fround(a), Math.fround(b)) : Object.is(a, b);
  if (isSame) return "equal";
  return tolerance > 0 && isClose(a, b, tolerance) ? "close" : "different";
}

/** Whether two scores are as close as the tolerance says; NaN is close to NaN alone. */
function isClose(a: AnswerValue, b: AnswerValue, tolerance: number): boolean {
  if (!isNumeric(a) || !isNumeric(b)) return false;
  const [one, other] = [Number(a), Number(b)];
  if (Object.is(one, other) || one === other) return true;
  if (!Number.isFinite(one) || !Number.isFinite(other)) return false;
  return Math.abs(one - other) <= tolerance * Math.max(1, Math.abs(other));
}

function isNumeric(value: AnswerValue): value is number | bigint {
  return typeof value === "number" || typeof value === "bigint";
}

function isSameScalar(a: AnswerValue, b: AnswerValue): boolean {
  if (isNumeric(a) && isNumeric(b)) return String(a) === String(b);
  return keyOf(a) === keyOf(b);
}

/** Text by which scalars are compared; base64 is the one object that is a scalar. */
function keyOf(value: AnswerValue): string {
  if (isNumeric(value)) return String(value);
  if (isAnswerObject(value)) {
    const bytes = value["b64"];
    return bytes === undefined ? wholeText(value) : `base64 ${textOf(bytes)}`;
  }
  return Array.isArray(value) ? "a list" : JSON.stringify(value);
}

function itemText(id: AnswerValue, score: AnswerValue): string {
  return `${textOf(id)} with ${textOf(score)}`;
}

/** A scalar for a message, cut. */
function textOf(value: AnswerValue): string {
  // Nine digits tell every float32 apart.
  if (isNumeric(value)) return typeof value === "bigint" ? String(value) : shortText(value);
  if (isAnswerObject(value)) return typeof value["b64"] === "string" ? value["b64"] : "an object";
  const text = Array.isArray(value) ? "a list" : JSON.stringify(value);
  return text.length <= TEXT_MAX ? text : `${text.slice(0, TEXT_MAX)}…`;
}

function shortText(value: number): string {
  return String(Number(value.toPrecision(FLOAT32_DIGITS)));
}

function shapeText(value: AnswerValue): string {
  const sizes: number[] = [];
  let inner = value;
  while (Array.isArray(inner) && sizes.length < DIMENSIONS_TOLD_MAX) {
    sizes.push(inner.length);
    inner = (inner as readonly AnswerValue[])[0] ?? null;
  }
  return sizes.length === 0 ? textOf(value) : `values of shape [${sizes.join(",")}]`;
}
