// Scalars that a graph computes of constants and variables alone: temperatures, logit scales. Their
// value decides whether a factor keeps the order of scores; the graph's own operation computes the
// scores.

import type { Tensor } from "@winnow/core";
import { elementCount, elementFunction } from "@winnow/core";
import { producerOf } from "../../graph-value.ts";
import type { GraphValue } from "../../graph-value.ts";
import type { Lowering } from "../../lowered-nodes.ts";
import { roundingOf } from "./element-functions.ts";

/** Reads the only element of a stored tensor of one element. */
export type ScalarReader = (value: GraphValue) => Tensor | undefined;

/** The reader of a version's own files. */
export function scalarReader({ sources }: Lowering): ScalarReader {
  return ({ stored }) => (stored?.kind === "bundle" ? sources.files.contentOf(stored) : undefined);
}

const DEPTH_MAX = 5;

const FUNCTIONS: ReadonlyMap<string, (...values: readonly number[]) => number> = new Map([
  ["Abs", Math.abs],
  ["Add", (a = NaN, b = NaN) => a + b],
  ["AddV2", (a = NaN, b = NaN) => a + b],
  ["Cast", (a = NaN) => a],
  ["ClipByValue", (a = NaN, low = NaN, high = NaN) => Math.min(Math.max(a, low), high)],
  ["Div", (a = NaN, b = NaN) => a / b],
  ["Exp", Math.exp],
  ["ExpandDims", (a = NaN) => a],
  ["Maximum", Math.max],
  ["Minimum", Math.min],
  ["Mul", (a = NaN, b = NaN) => a * b],
  ["Neg", (a = NaN) => -a],
  ["RealDiv", (a = NaN, b = NaN) => a / b],
  ["Reciprocal", (a = NaN) => 1 / a],
  ["Relu", (a = NaN) => Math.max(a, 0)],
  ["Reshape", (a = NaN) => a],
  ["Rsqrt", (a = NaN) => 1 / Math.sqrt(a)],
  ["Sigmoid", (a = NaN) => 1 / (1 + Math.exp(-a))],
  ["Softplus", (a = NaN) => Math.log1p(Math.exp(a))],
  ["Sqrt", Math.sqrt],
  ["Square", (a = NaN) => a * a],
  ["Squeeze", (a = NaN) => a],
  ["Sub", (a = NaN, b = NaN) => a - b],
]);

/** The number that a value of one element holds, about; `undefined` where a request decides it. */
export function scalarOf(value: GraphValue, read: ScalarReader, depth = 0): number | undefined {
  if (!isSingle(value)) return undefined;
  const tensor = value.constant ?? (value.stored === undefined ? undefined : read(value));
  if (tensor === undefined) return depth < DEPTH_MAX ? computed(value, read, depth) : undefined;
  return tensor.dtype === "string" ? undefined : Number(tensor.data[0]);
}

function computed(
  { producer }: GraphValue,
  ...[read, depth]: [ScalarReader, number]
): number | undefined {
  if (producer?.kind !== "operation") return undefined;
  const rounding = roundingOf(producer);
  const apply = rounding === undefined ? FUNCTIONS.get(producer.op) : elementFunction(rounding);
  if (apply === undefined) return undefined;
  const inputs = SHAPING.has(producer.op) ? producer.inputs.slice(0, 1) : producer.inputs;
  const numbers = inputs.map((input) => scalarOf(input, read, depth + 1));
  return numbers.every((number) => number !== undefined) ? apply(...numbers) : undefined;
}

/** Operations whose further inputs are shapes and axes. */
const SHAPING: ReadonlySet<string> = new Set(["ExpandDims", "Reshape"]);

/** Whether a value has one element, in any number of axes. */
export function isSingle({ shape }: GraphValue): boolean {
  return shape !== undefined && !shape.includes(-1) && elementCount(shape) === 1;
}

/** The number that a value has in all its places: a constant, `fill`, `ones_like(scores) * c`. */
export function repeatedNumberOf(value: GraphValue, scalars: ScalarReader): number | undefined {
  const number = isSingle(value) ? scalarOf(value, scalars) : filledNumberOf(value, scalars);
  const rounded = number === undefined ? NaN : Math.fround(number);
  return Number.isNaN(rounded) ? undefined : rounded + 0;
}

/** The number, or the truth as 0 or 1, that a value has in any number of places. */
export function filledNumberOf(
  value: GraphValue,
  scalars: ScalarReader,
  depth = 0,
): number | undefined {
  if (value.constant !== undefined) return oneNumberOf(value.constant);
  if (producerOf(value, "ZerosLike") !== undefined) return 0;
  if (producerOf(value, "OnesLike") !== undefined) return 1;
  const [, filler] = inputsOf(value, "Fill");
  const [spread] = inputsOf(value, "BroadcastTo");
  const number = filler ?? spread;
  if (number !== undefined) return scalarOf(number, scalars);
  return depth < DEPTH_MAX ? filledBy(value, scalars, depth + 1) : undefined;
}

/** Operations that leave some elements of a value out, or put them in another order. */
const CHOICES = [
  "Cast",
  "ExpandDims",
  "Reshape",
  "Slice",
  "Squeeze",
  "StridedSlice",
  "Tile",
] as const;
const ARITHMETIC = ["Add", "AddV2", "Mul", "Neg", "Sub"] as const;

/** The number that an operation leaves in all places, or makes of those of its operands. */
function filledBy(
  value: GraphValue,
  ...[scalars, depth]: [ScalarReader, number]
): number | undefined {
  const numberOf = (operand: GraphValue): number | undefined => {
    return isSingle(operand) ? scalarOf(operand, scalars) : filledNumberOf(operand, scalars, depth);
  };
  const [chosen] = inputsOf(value, ...CHOICES);
  if (chosen !== undefined) return isCut(chosen, value) ? undefined : numberOf(chosen);
  const node = producerOf(value, ...ARITHMETIC);
  const numbers = node?.inputs.map(numberOf) ?? [undefined];
  if (!numbers.every((number) => number !== undefined)) return undefined;
  return Math.fround(FUNCTIONS.get(node!.op)!(...numbers));
}

/** Whether a number is cast to a type that has fewer of them. */
function isCut(from: GraphValue, to: GraphValue): boolean {
  return (
    from.dtype !== to.dtype &&
    (from.dtype === "float32" || from.dtype === "float64") &&
    to.dtype !== "float32"
  );
}

function oneNumberOf({ dtype, data }: Tensor): number | undefined {
  if (dtype === "string" || data.length === 0) return undefined;
  const first = data[0];
  return data.every((each) => each === first) ? Number(first) : undefined;
}

function inputsOf(value: GraphValue, ...ops: readonly string[]): readonly GraphValue[] {
  return producerOf(value, ...ops)?.inputs ?? [];
}
