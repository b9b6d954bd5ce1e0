// Functions that are undefined for some scores: a logarithm or a root of a negative number. Rows without a
// value rank after all others, so they do no harm if they are the worst rows by score, as in log(s). If they
// are the best rows, as in -log(s), a search would find nothing else, so such a function is not searched.

import { elementFunction } from "@winnow/core";
import type { NodeFunction } from "../../graph-value.ts";
import { scalarOf } from "../values/scalar-value.ts";
import type { ScalarReader } from "../values/scalar-value.ts";

/** The least argument for which each function is defined. */
const DOMAINS: ReadonlyMap<string, number> = new Map([
  ["Log", 0],
  ["Log1p", -1],
  ["Sqrt", 0],
]);

/** The values that scores may have after some functions, and whether better scores have lower values. */
interface Values {
  readonly low: number;
  readonly high: number;
  readonly isTurned: boolean;
}

/** Whether the best scores may be undefined after these functions. */
export function losesTheBest(functions: readonly NodeFunction[], scalars: ScalarReader): boolean {
  let values: Values = { low: -Infinity, high: Infinity, isTurned: false };
  for (const { op, operand } of functions) {
    const least = DOMAINS.get(op);
    if (least !== undefined && values.isTurned && !(values.low >= least)) return true;
    const number = operand === undefined ? undefined : scalarOf(operand, scalars);
    values = valuesBehind(op, values, number ?? NaN);
  }
  return false;
}

/** Whether these functions may put a lower score before a higher one: an even power, or a root, of scores below 0. */
export function turnsOver(functions: readonly NodeFunction[], scalars: ScalarReader): boolean {
  let values: Values = { low: -Infinity, high: Infinity, isTurned: false };
  for (const { op, operand } of functions) {
    if (!(values.low >= 0) && isUneven({ op, operand }, scalars)) return true;
    values = valuesBehind(op, values, (operand && scalarOf(operand, scalars)) ?? NaN);
  }
  return false;
}

/** Whether a function keeps the order of numbers from 0 on alone. */
export function isUneven({ op, operand }: NodeFunction, scalars: ScalarReader): boolean {
  const exponent = (operand && scalarOf(operand, scalars)) ?? NaN;
  return op === "Pow" && !(Number.isInteger(exponent) && exponent % 2 === 1);
}

/** Bounds of functions of one operand whatever the scores before them. */
const RANGES: ReadonlyMap<string, readonly [number, number]> = new Map([
  ["Elu", [-1, Infinity]],
  ["Exp", [0, Infinity]],
  ["Expm1", [-1, Infinity]],
  ["Sigmoid", [0, 1]],
  ["LogSoftmax", [-Infinity, 0]],
  ["Softmax", [0, 1]],
  ["Softplus", [0, Infinity]],
  ["Softsign", [-1, 1]],
  ["Sqrt", [0, Infinity]],
  ["Tanh", [-1, 1]],
]);

function valuesBehind(op: string, values: Values, number: number): Values {
  switch (op) {
    case "Maximum":
    case "Minimum":
      return bounded(op, values, number);
    case "Pow":
      return { ...values, low: values.low ** number, high: values.high ** number };
    case "KeepAbove":
    case "KeepFrom":
      return { ...values, low: -Infinity };
    case "Add":
      return moved(values, number);
    case "Sub":
      return moved(values, -number);
    case "Mul":
      return scaled(values, number);
    case "Div":
      return scaled(values, 1 / number);
    default:
      return ofNoOperand(op, values);
  }
}

/** Behind a function that has no operand. */
function ofNoOperand(op: string, { low, high, isTurned }: Values): Values {
  if (op === "RoundToBfloat16" || op === "RoundToHalf") {
    const round = elementFunction(op);
    return { low: round(low, NaN), high: round(high, NaN), isTurned };
  }
  const [least, most] = RANGES.get(op) ?? [-Infinity, Infinity];
  return { low: least, high: most, isTurned };
}

function bounded(op: "Maximum" | "Minimum", values: Values, number: number): Values {
  const { low, high } = values;
  if (op === "Maximum") {
    return { ...values, low: number > low ? number : low, high: above(high, number) };
  }
  return { ...values, low: below(low, number), high: number < high ? number : high };
}

function moved(values: Values, number: number): Values {
  const { low, high } = values;
  return { ...values, low: sumOf(low, number, -1), high: sumOf(high, number, 1) };
}

function scaled({ low, high, isTurned }: Values, factor: number): Values {
  if (factor > 0) return { low: low * factor, high: high * factor, isTurned };
  if (factor < 0) return { low: high * factor, high: low * factor, isTurned: !isTurned };
  return { low: -Infinity, high: Infinity, isTurned };
}

/** The greater of a bound and an operand that may be unknown. */
function above(high: number, number: number): number {
  return Number.isNaN(number) ? Infinity : Math.max(high, number);
}

function below(low: number, number: number): number {
  return Number.isNaN(number) ? -Infinity : Math.min(low, number);
}

/** A bound after an addition: unknown, and so infinite on its side, where the operand is. */
function sumOf(bound: number, number: number, side: 1 | -1): number {
  const sum = bound + number;
  return Number.isNaN(sum) ? side * Infinity : sum;
}
