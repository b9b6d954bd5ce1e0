// Values that are one number for the items of a rule and another one for all others, in every way that a graph writes
// them: a bonus for a genre, a penalty for what was seen, a factor for what is in stock.
//
//   cast(condition)                1 and 0
//   where(condition, 0.5, 0.0)     0.5 and 0
//   1.0 + 0.2 * cast(condition)    1.2 and 1
//   log(cast(condition) + 1e-9)    0 and -20.7
//   cast(condition) * in_stock     1 and 0

import type { Tensor } from "@winnow/core";
import { constantValue, producerOf } from "../../graph-value.ts";
import type { GraphMaskRule, GraphValue, OperationNode } from "../../graph-value.ts";
import { INTEGERS, isCounted, isMultiHot, operandsOf, ruleOf } from "./mask-rule.ts";
import type { Within } from "./mask-rule.ts";
import { pickedFlags } from "./picked-row.ts";
import { isSingle, repeatedNumberOf, scalarOf } from "../values/scalar-value.ts";
import { vectorOf } from "../values/vector-value.ts";

/** Two float32 numbers, and for which items each stands. */
export interface TwoNumbers {
  readonly rule: GraphMaskRule;
  /** For items that the rule keeps. */
  readonly inside: number;
  /** For all others. */
  readonly outside: number;
}

const DEPTH_MAX = 12;
const DEPTH_OF_BOTH = 3;

/** Operations that make a number of each of two, or of each and a number beside it. */
const ARITHMETIC: ReadonlyMap<string, (...values: readonly number[]) => number> = new Map([
  ["Add", (a = NaN, b = NaN) => a + b],
  ["AddV2", (a = NaN, b = NaN) => a + b],
  ["Exp", Math.exp],
  ["Log", Math.log],
  ["Maximum", Math.max],
  ["Minimum", Math.min],
  ["Mul", (a = NaN, b = NaN) => a * b],
  ["Neg", (a = NaN) => -a],
  ["RealDiv", (a = NaN, b = NaN) => a / b],
  ["Sub", (a = NaN, b = NaN) => a - b],
]);

/** The two numbers of a vector of items that is stored, or computed of what is stored. */
export function storedNumbersOf(
  value: GraphValue,
  { items, scalars }: Within,
): TwoNumbers | undefined {
  const values = vectorOf(value, items, scalars);
  const inside = values?.[0];
  const outside = values?.find((each) => each !== inside);
  if (values === undefined || inside === undefined || outside === undefined) return undefined;
  if (!values.every((each) => each === inside || each === outside)) return undefined;
  const data = Uint8Array.from(values, (each) => Number(each === inside));
  const name = `${inside} in ${value.producer?.name ?? "constant"} [${items}]`;
  const tensor: Tensor = { dtype: "bool", shape: [items], data };
  const isTrue: Tensor = { dtype: "bool", shape: [], data: Uint8Array.of(1) };
  const column = { kind: "constant", name, tensor } as const;
  const rule = { kind: "test", column, is: "in", values: constantValue(isTrue) } as const;
  return { rule, inside, outside };
}

/** The two numbers of a value with one for each item, stored or not. */
export function anyNumbersOf(value: GraphValue, within: Within): TwoNumbers | undefined {
  return twoNumbersOf(value, within) ?? storedNumbersOf(value, within);
}

/** The two numbers of a value with one for each item; `undefined` for a value with other ones. */
export function twoNumbersOf(value: GraphValue, within: Within): TwoNumbers | undefined {
  // A number for each query is none for each item.
  if (value.dtype !== "float32" || value.shape?.at(-1) !== within.items) return undefined;
  const flags = flaggedOf(value, within);
  if (flags !== undefined) return { rule: flags, inside: 1, outside: 0 };
  return chosenNumbers(value, within) ?? computedNumbers(value, within);
}

/** where(condition, a, b). */
function chosenNumbers(value: GraphValue, within: Within): TwoNumbers | undefined {
  const [condition, yes, no] = operandsOf(value, "SelectV2", "Select");
  if (condition === undefined || yes === undefined || no === undefined) return undefined;
  const [inside, outside] = [yes, no].map((each) => repeatedNumberOf(each, within.scalars));
  if (inside === undefined || outside === undefined) return undefined;
  const rule = ruleOf(condition, within);
  return rule && { rule, inside, outside };
}

function computedNumbers(value: GraphValue, within: Within): TwoNumbers | undefined {
  const node = producerOf(value, ...ARITHMETIC.keys());
  if (node === undefined || node.inputs.length > 2 || within.depth > DEPTH_MAX) return undefined;
  const numbers = node.inputs.map((each) => {
    return isSingle(each) ? scalarOf(each, within.scalars) : undefined;
  });
  const at = numbers.indexOf(undefined);
  if (at < 0 || numbers.lastIndexOf(undefined) !== at) return undefined;
  const found = twoNumbersOf(node.inputs[at]!, { ...within, depth: within.depth + 1 });
  if (found === undefined) return undefined;
  const apply = (number: number): number => {
    const operands = (numbers as number[]).with(at, number);
    return Math.fround(ARITHMETIC.get(node.op)!(...operands.map(Math.fround)));
  };
  return { ...found, inside: apply(found.inside), outside: apply(found.outside) };
}

/** The rows that have 1 where all others have 0. */
function flaggedOf(flags: GraphValue, within: Within): GraphMaskRule | undefined {
  if (within.depth > DEPTH_MAX) return undefined;
  const deeper = { ...within, depth: within.depth + 1 };
  const [one, others] = operandsOf(flags, "Sub");
  if (one !== undefined && others !== undefined) {
    const isOne = isSingle(one) && scalarOf(one, within.scalars) === 1;
    const rule = isOne ? flaggedOf(others, deeper) : undefined;
    return rule && { kind: "not", of: rule };
  }
  const both = producerOf(flags, "Mul", "Minimum", "Maximum");
  if (both !== undefined) return flaggedByBoth(both, deeper) ?? countedIn(flags, within);
  const [cast] = operandsOf(flags, "Cast");
  if (cast !== undefined) return flaggedByCast(cast, deeper);
  return countedIn(flags, within) ?? pickedFlags(flags, within);
}

/** `in_stock * in_region` of flags that are stored or computed: those of both; the greater one: those of either. */
function flaggedByBoth({ op, inputs }: OperationNode, within: Within): GraphMaskRule | undefined {
  if (inputs.some(isSingle)) return undefined;
  // Each reads two, which may be one value and stored: few of them are one in the other.
  const deeper = { ...within, depth: within.depth + DEPTH_OF_BOTH };
  const rules = inputs.flatMap(
    (each) => flaggedOf(each, deeper) ?? storedFlags(each, deeper) ?? [],
  );
  if (rules.length < inputs.length) return undefined;
  return { kind: op === "Maximum" ? "or" : "and", of: rules };
}

/** The rows that have 1 where all others have 0 in a vector that is stored. */
function storedFlags(value: GraphValue, within: Within): GraphMaskRule | undefined {
  const { rule, inside, outside } = storedNumbersOf(value, within) ?? {};
  if (rule === undefined) return undefined;
  if (inside === 1 && outside === 0) return rule;
  return inside === 0 && outside === 1 ? { kind: "not", of: rule } : undefined;
}

function flaggedByCast(flags: GraphValue, within: Within): GraphMaskRule | undefined {
  if (flags.dtype === "bool") return ruleOf(flags, within);
  return INTEGERS.has(flags.dtype) ? flaggedOf(flags, within) : undefined;
}

function countedIn(flags: GraphValue, within: Within): GraphMaskRule | undefined {
  const capped = cappedCountsOf(flags, within);
  if (capped !== undefined) return isCounted(capped, within);
  return isMultiHot(flags) ? isCounted(flags, within) : undefined;
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
