// How much work a host step is, told from its inputs before it runs: an event loop does little of it itself.

import type { Tensor } from "../../tensor/tensor.ts";
import type { HostStep } from "../program.ts";
import { arithmeticOperations } from "./numbers/arithmetic.ts";
import { comparisonOperations } from "./numbers/comparison.ts";
import { regexSteps } from "./strings/regex.ts";

/** What an object for each string costs, in bytes that are read or written. */
const STRING_WORK = 32;
/** What a number costs that is read or written, where steps on numbers are weighed against those on texts. */
const NUMBER_WORK = 1 / 8;
/** The same for operations that find the place of each number, or sort them. */
const SLOW_NUMBERS: Readonly<Record<string, number>> = {
  Gather: 1 / 2,
  GatherV2: 1 / 2,
  GatherNd: 1 / 2,
  Select: 1 / 2,
  SelectV2: 1 / 2,
  Where: 1 / 2,
  TopKV2: 1,
  Unique: 2,
  UniqueWithCounts: 2,
  ListDiff: 2,
};

/** Operations whose output has the shape to which their inputs are broadcast. */
const BROADCASTING: ReadonlySet<string> = new Set([
  ...Object.keys(arithmeticOperations),
  ...Object.keys(comparisonOperations),
]);
/** Work that is done at once however it is counted. */
const LITTLE_WORK = 2 ** 16;

/**
 * Values and bytes of text that tensors hold, roughly what it costs to read or write them: a byte of text 1 to 10 ns, a
 * string 32 times as much, a number 1.
 */
export function tensorWork(tensors: readonly Tensor[]): number {
  let work = 0;
  for (const { dtype, data } of tensors) {
    work += dtype === "string" ? data.byteLength + data.length * STRING_WORK : data.length;
  }
  return work;
}

/**
 * The work of a step, in the unit of `tensorWork`; for crosses and broadcast texts, of what they make of few strings, and for
 * regular expressions the steps of the worst text. A number costs an eighth there, or more in operations that are slow, and
 * counts as often as it is made. 0 for steps on few numbers.
 */
export function stepWork(step: HostStep, inputs: readonly Tensor[]): number {
  const isCross = step.op.startsWith("SparseCross");
  const makesTexts = step.op === "AsString";
  const numberWork = makesTexts ? STRING_WORK : 1;
  // Most steps are small by any measure; this runs for each step of each request.
  let [work, bytes, most, isText] = [0, 0, 1, isCross || makesTexts];
  for (const { dtype, data } of inputs) {
    const { length } = data;
    most *= Math.max(1, length);
    if (dtype !== "string") work += length * numberWork;
    else {
      bytes += data.byteLength;
      work += data.byteLength + length * STRING_WORK;
      isText = true;
    }
  }
  if (!isText) return numberWorkOf(step, inputs, { work, most });
  if (Math.max(most * STRING_WORK, bytes ** 2) < LITTLE_WORK) return work;
  const texts = inputs.filter(({ dtype }) => dtype === "string");
  const made = isCross ? crossesMost(step, inputs) : broadcastCount(texts);
  const steps = step.op.includes("Regex") ? regexSteps(step, inputs) : 0;
  return Math.max(work, made * STRING_WORK, steps);
}

/** `work`: values that are read; `most`: the product of their counts. */
function numberWorkOf(
  step: HostStep,
  inputs: readonly Tensor[],
  { work, most }: { readonly work: number; readonly most: number },
): number {
  const values = Math.max(work, madeCount(step, inputs, most));
  return values < LITTLE_WORK ? 0 : values * (SLOW_NUMBERS[step.op] ?? NUMBER_WORK);
}

function madeCount({ op }: HostStep, inputs: readonly Tensor[], most: number): number {
  if (!BROADCASTING.has(op)) return MADE_NUMBERS[op]?.(inputs) ?? 0;
  return most < LITTLE_WORK ? 0 : broadcastCount(inputs);
}

/** How many values operations make whose outputs may be far larger than their inputs. */
const MADE_NUMBERS: Readonly<Record<string, (inputs: readonly Tensor[]) => number>> = {
  BroadcastTo: ([, shape]) => productOf(shape),
  Fill: ([shape]) => productOf(shape),
  Tile: ([values, multiples]) => (values?.data.length ?? 0) * productOf(multiples),
  OneHot: ([places, depth]) => (places?.data.length ?? 0) * productOf(depth),
  Range: ([start, limit, delta]) =>
    Math.abs((productOf(limit) - productOf(start)) / productOf(delta)) || 0,
  Gather: gatheredCount,
  GatherV2: gatheredCount,
};

function gatheredCount([params, places, axis]: readonly Tensor[]): number {
  if (params === undefined || places === undefined) return 0;
  const rows = params.shape.at(axis === undefined ? 0 : productOf(axis)) ?? 1;
  return (places.data.length * params.data.length) / Math.max(1, rows);
}

/** The product of the few numbers of a tensor, such as a shape. */
function productOf(tensor: Tensor | undefined): number {
  if (tensor === undefined || tensor.dtype === "string" || tensor.data.length > 32) return 0;
  let product = 1;
  for (const value of tensor.data) product *= Number(value);
  return product;
}

/** Crosses of columns at most: the rows, times the most features of each column, sparse ones (`crossing.ts`) and dense. */
function crossesMost({ attributes }: HostStep, inputs: readonly Tensor[]): number {
  const sparse = Number(attributes["N"] ?? 0);
  const shapes = [
    ...inputs
      .slice(2 * sparse, 3 * sparse)
      .map(({ data }) => Array.from(data as BigInt64Array, Number)),
    ...inputs.slice(3 * sparse).map(({ shape }) => shape),
  ].filter(({ length }) => length === 2);
  const rows = Math.max(0, ...shapes.map(([count = 0]) => count));
  return shapes.reduce((product, [, features = 0]) => product * features, rows);
}

/** Values of the shape to which these are broadcast. */
function broadcastCount(tensors: readonly Tensor[]): number {
  const axes = Math.max(0, ...tensors.map(({ shape }) => shape.length));
  const sizes = Array.from({ length: axes }, (_, back) =>
    Math.max(...tensors.map(({ shape }) => shape.at(-1 - back) ?? 1)),
  );
  return sizes.reduce((product, size) => product * size, 1);
}
