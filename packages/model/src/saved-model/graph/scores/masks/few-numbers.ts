// Values that are one of a few numbers for each item, as flags of the item decide, in every way that a graph writes
// them: a bonus for a genre, a penalty for what was seen or is sold out, a factor for what is in stock.
//
//   cast(condition)                1 and 0
//   where(condition, 0.5, 0.0)     0.5 and 0
//   1.0 + 0.2 * cast(condition)    1.2 and 1
//   log(cast(condition) + 1e-9)    0 and -20.7
//   cast(condition) * in_stock     1 and 0
//   seen + sold_out                0, 1 and 2
//
// Each operation is done to the numbers of all combinations of the flags, so they are those that the graph computes:
//
//   seen        0 0 1 1
//   sold_out    0 1 0 1
//   sum         0 1 1 2      2 where both are, else 1 where either is

import type { Tensor } from "@winnow/core";
import { constantValue, integersOf, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue, OperationNode } from "../../graph-value.ts";
import { isSingle, repeatedNumberOf, scalarOf } from "../values/scalar-value.ts";
import { numbersOfItems } from "../values/vector-value.ts";
import { operandsOf } from "./item-column.ts";
import type { Within } from "./item-column.ts";
import { INTEGERS, isCounted, isMultiHot } from "./listed-rows.ts";
import { pickedFlags } from "./picked-row.ts";
import { isShort } from "./rule-size.ts";

/** Numbers of items, by which flags are true of an item. */
export interface FewNumbers {
  readonly flags: readonly Flag[];
  /** For each combination of the flags; the first flag changes last, and is not true in the first half. */
  readonly numbers: readonly number[];
}

interface Flag {
  /** The value that says it: what two flags have together is one flag. */
  readonly of: GraphValue;
  readonly rule: GraphMaskRule;
}

/** Reads the rule that a condition on items is. */
export type ReadRule = (condition: GraphValue, within: Within) => GraphMaskRule | undefined;

const DEPTH_MAX = 12;
const FLAGS_MAX = 4;
/** Integers beyond it may not be what the graph computes. */
const INTEGER_MAX = 2 ** 24;
const NUMBERS: ReadonlySet<string> = new Set(["float32", "int32", "int64"]);

type Compute = (...values: readonly number[]) => number;

/** Operations that make a number of those of their operands. */
const ARITHMETIC: ReadonlyMap<string, Compute> = new Map<string, Compute>([
  ["Add", (a = NaN, b = NaN) => a + b],
  ["AddV2", (a = NaN, b = NaN) => a + b],
  ["ClipByValue", (a = NaN, low = NaN, high = NaN) => Math.max(Math.min(a, high), low)],
  ["Exp", Math.exp],
  ["Log", Math.log],
  ["Maximum", Math.max],
  ["Minimum", Math.min],
  ["Mul", (a = NaN, b = NaN) => a * b],
  ["Neg", (a = NaN) => -a],
  ["RealDiv", (a = NaN, b = NaN) => a / b],
  ["Sub", (a = NaN, b = NaN) => a - b],
]);
/** Operations that make one number of those along an axis. */
const REDUCTIONS: ReadonlyMap<string, Compute> = new Map<string, Compute>([
  ["Max", Math.max],
  ["Min", Math.min],
  ["Prod", (...values) => values.reduce((product, value) => Math.fround(product * value))],
  ["Sum", (...values) => values.reduce((sum, value) => Math.fround(sum + value))],
]);

/** What values were found to be: a graph is asked for one again and again. */
const found = new WeakMap<GraphValue, { readonly few: FewNumbers | undefined }>();

/** The numbers of a value with one for each item, or for all; `undefined` for a value with other ones. */
export function fewNumbersOf(
  value: GraphValue,
  within: Within,
  ruleOf: ReadRule,
): FewNumbers | undefined {
  if (within.depth > DEPTH_MAX || !NUMBERS.has(value.dtype)) return undefined;
  if (isSingle(value)) return constantOf(scalarOf(value, within.scalars));
  // A number for each query is none for each item.
  if (value.shape?.at(-1) !== within.items) return undefined;
  const known = found.get(value);
  if (known !== undefined) return known.few;
  const deeper = { ...within, depth: within.depth + 1 };
  const few =
    flagOf(value, deeper, ruleOf) ??
    chosenNumbers(value, deeper, ruleOf) ??
    computedNumbers(value, deeper, ruleOf) ??
    reducedNumbers(value, deeper, ruleOf) ??
    storedNumbersOf(value, within);
  found.set(value, { few });
  return few;
}

function constantOf(number: number | undefined): FewNumbers | undefined {
  return number === undefined ? undefined : { flags: [], numbers: [Math.fround(number)] };
}

function flagged(of: GraphValue, rule: GraphMaskRule | undefined): FewNumbers | undefined {
  return rule && isShort(rule) ? { flags: [{ of, rule }], numbers: [0, 1] } : undefined;
}

/** The numbers of a vector of items that is stored, or computed of what is stored, where it has two. */
export function storedNumbersOf(
  value: GraphValue,
  { items, scalars }: Within,
): FewNumbers | undefined {
  const values = numbersOfItems(value, items, scalars);
  const first = values?.[0];
  const other = values?.find((each) => each !== first);
  if (values === undefined || first === undefined || other === undefined) return undefined;
  if (!values.every((each) => each === first || each === other)) return undefined;
  const data = Uint8Array.from(values, (each) => (each === first ? 1 : 0));
  const name = `${first} in ${value.producer?.name ?? "constant"} [${items}]`;
  const tensor: Tensor = { dtype: "bool", shape: [items], data };
  const isTrue: Tensor = { dtype: "bool", shape: [], data: Uint8Array.of(1) };
  const column = { kind: "constant", name, tensor } as const;
  const rule = { kind: "test", column, is: "in", values: constantValue(isTrue) } as const;
  return { flags: [{ of: value, rule }], numbers: [other, first] };
}

/** Items that have 1 where all others have 0. */
function flagOf(value: GraphValue, within: Within, ruleOf: ReadRule): FewNumbers | undefined {
  const [cast] = operandsOf(value, "Cast");
  if (cast?.dtype === "bool") return flagged(cast, ruleOf(cast, within));
  if (cast !== undefined) return castNumbers(value, fewNumbersOf(cast, within, ruleOf));
  const rows = cappedCountsOf(value, within) ?? (isMultiHot(value) ? value : undefined);
  const rule = rows && isCounted(rows, within);
  return flagged(value, rule ?? pickedFlags(value, within));
}

function castNumbers({ dtype }: GraphValue, few: FewNumbers | undefined): FewNumbers | undefined {
  if (few === undefined || !INTEGERS.has(dtype)) return few;
  return combined([few], { dtype, compute: Math.trunc });
}

/** Counts of which all from 1 on are 1: `minimum(reduce_sum(one_hot(list, n), 1), 1)`, clipped at 0 or not. */
function cappedCountsOf(flags: GraphValue, { scalars }: Within): GraphValue | undefined {
  const beside = (value: GraphValue, op: string, number: number): GraphValue | undefined => {
    const operands = operandsOf(value, op);
    const at = operands.findIndex((each) => isSingle(each) && scalarOf(each, scalars) === number);
    return at < 0 ? undefined : operands[1 - at];
  };
  return beside(beside(flags, "Maximum", 0) ?? flags, "Minimum", 1);
}

const chosen: Compute = (flag, yes = NaN, no = NaN) => (flag === 1 ? yes : no);

/** where(condition, a, b). */
function chosenNumbers(
  value: GraphValue,
  within: Within,
  ruleOf: ReadRule,
): FewNumbers | undefined {
  const [condition, ...choices] = operandsOf(value, "SelectV2", "Select");
  if (condition === undefined) return undefined;
  const numbers = choices.flatMap((each) => {
    const number = constantOf(repeatedNumberOf(each, within.scalars));
    return number ?? fewNumbersOf(each, within, ruleOf) ?? [];
  });
  const flag = numbers.length === 2 ? flagged(condition, ruleOf(condition, within)) : undefined;
  return flag && combined([flag, ...numbers], { dtype: value.dtype, compute: chosen });
}

function computedNumbers(
  { dtype, producer }: GraphValue,
  within: Within,
  ruleOf: ReadRule,
): FewNumbers | undefined {
  const node = producer?.kind === "operation" ? producer : undefined;
  const compute = node && ARITHMETIC.get(node.op);
  return compute && numbersOfAll(node.inputs, { within, ruleOf, dtype, compute });
}

/** `reduce_max(stack([seen, sold_out]), 0)`. */
function reducedNumbers(
  value: GraphValue,
  within: Within,
  ruleOf: ReadRule,
): FewNumbers | undefined {
  const node = producerOf(value, ...REDUCTIONS.keys());
  const parts = node && stackedParts(node);
  const compute = REDUCTIONS.get(node?.op ?? "")!;
  return parts && numbersOfAll(parts, { within, ruleOf, dtype: value.dtype, compute });
}

/** What a reduction along a new axis is of; `undefined` for another one. */
export function stackedParts({
  inputs,
  attributes,
}: OperationNode): OperationNode["inputs"] | undefined {
  const [stack, over] = inputs;
  const pack = stack && producerOf(stack, "Pack");
  const axes = integersOf(over);
  if (pack === undefined || axes?.length !== 1 || attributes.flag("keep_dims")) return undefined;
  const rank = stack?.shape?.length ?? 0;
  return (axes[0]! - pack.attributes.int("axis", 0)) % rank === 0 ? pack.inputs : undefined;
}

interface Computed {
  readonly dtype: string;
  readonly compute: Compute;
}

function numbersOfAll(
  values: readonly GraphValue[],
  {
    within,
    ruleOf,
    ...computed
  }: Computed & { readonly within: Within; readonly ruleOf: ReadRule },
): FewNumbers | undefined {
  const operands: FewNumbers[] = [];
  for (const value of values) {
    const few = fewNumbersOf(value, within, ruleOf);
    if (few === undefined) return undefined;
    operands.push(few);
  }
  return combined(operands, computed);
}

/** What is computed of numbers, for each combination of all of their flags; `undefined` where these are many. */
export function combined(
  operands: readonly FewNumbers[],
  { dtype, compute }: Computed,
): FewNumbers | undefined {
  const flags = [
    ...new Map(operands.flatMap((each) => each.flags).map((flag) => [flag.of, flag])).values(),
  ];
  if (flags.length > FLAGS_MAX) return undefined;
  const places = operands.map((each) => {
    return each.flags.map(({ of }) => flags.length - 1 - flags.findIndex((flag) => flag.of === of));
  });
  const numbers = Array.from({ length: 2 ** flags.length }, (_, at) => {
    const values = operands.map((each, operand) => {
      return each.numbers[
        places[operand]!.reduce((place, bit) => 2 * place + ((at >> bit) & 1), 0)
      ]!;
    });
    return Math.fround(compute(...values));
  });
  const areKnown = numbers.every((number) => {
    return dtype === "float32" ? !Number.isNaN(number) : Math.abs(number) <= INTEGER_MAX;
  });
  return areKnown ? { flags, numbers } : undefined;
}

/** The rule that keeps the items with such numbers; `undefined` for all items, for none, and where it is long. */
export function ruleWhere(
  { flags, numbers }: FewNumbers,
  holds: (number: number) => boolean,
): GraphMaskRule | undefined {
  const rule = ruleOfTruth(flags, numbers.map(holds));
  return typeof rule === "boolean" || !isShort(rule) ? undefined : rule;
}

function ruleOfTruth(
  [flag, ...others]: readonly Flag[],
  truth: readonly boolean[],
): GraphMaskRule | boolean {
  const half = truth.length / 2;
  const [no, yes] = [truth.slice(0, half), truth.slice(half)];
  if (flag === undefined) return truth[0] === true;
  const otherwise = ruleOfTruth(others, no);
  if (yes.every((each, at) => each === no[at])) return otherwise;
  const then = ruleOfTruth(others, yes);
  const isNot = opposite(flag.rule);
  if (then === true) return joined("or", flag.rule, otherwise);
  if (otherwise === true) return joined("or", isNot, then);
  return joined("or", joined("and", flag.rule, then), joined("and", isNot, otherwise));
}

function opposite(rule: GraphMaskRule): GraphMaskRule {
  return rule.kind === "not" ? rule.of : { kind: "not", of: rule };
}

function joined(
  kind: "and" | "or",
  ...[first, second]: readonly [GraphMaskRule | boolean, GraphMaskRule | boolean]
): GraphMaskRule | boolean {
  const neutral = kind === "and";
  if (typeof first === "boolean") return first === neutral ? second : first;
  if (typeof second === "boolean") return second === neutral ? first : second;
  return { kind, of: [first, second].flatMap((rule) => (rule.kind === kind ? rule.of : [rule])) };
}
