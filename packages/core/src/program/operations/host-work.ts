// How much work a host step is, told from its inputs before it runs: an event loop does little of it itself.

import type { Tensor } from "../../tensor/tensor.ts";
import type { HostStep } from "../program.ts";
import { regexSteps } from "./strings/regex.ts";

/** What an object for each string costs, in bytes that are read or written. */
const STRING_WORK = 32;
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
 * regular expressions the steps of the worst text.
 * 0 for other steps that read no strings.
 */
export function textWork(step: HostStep, inputs: readonly Tensor[]): number {
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
  if (!isText) return 0;
  if (Math.max(most * STRING_WORK, bytes ** 2) < LITTLE_WORK) return work;
  const texts = inputs.filter(({ dtype }) => dtype === "string");
  const made = isCross ? crossesMost(step, inputs) : broadcastCount(texts);
  const steps = step.op.includes("Regex") ? regexSteps(step, inputs) : 0;
  return Math.max(work, made * STRING_WORK, steps);
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
