// The functions that a graph applies to scores between the product and the top-k, if they keep the order: a
// sigmoid, a temperature, a clip. In float32 such a function may give several scores the same value, and
// TensorFlow then ranks them by row; so a search orders by the values computed here (ranked-search.ts).
//
// Each function is computed in float64 and rounded to float32 once for each operation that TensorFlow rounds.
// Its values agree with TensorFlow's where those are constant: a sigmoid is 1 from 16.64 on, a tanh from 7.91
// on, and what would be a subnormal number is 0.

import type { Tensor } from "../../tensor/tensor.ts";
import { roundedToBfloat16, roundedToHalf } from "../../tensor/narrow-rounding.ts";
import { invalid } from "../node-error.ts";
import type { ScoreFunction, ScoreOperationName, ValueId } from "../program.ts";
import type { SoftmaxSums } from "./softmax-sums.ts";

/** The smallest float32 that TensorFlow does not flush to 0. */
const NORMAL_MIN = 2 ** -126;
/** From here on TensorFlow's sigmoid is 1. */
const SIGMOID_ONE_MIN = 16.635532;
/** From here on TensorFlow's tanh is 1. */
const TANH_ONE_MIN = 7.9073896;
/** ln(2⁻²³) + 2: where TensorFlow's softplus becomes its argument, or below 0 exp of it. */
const SOFTPLUS_LINEAR_MIN = 13.942385;
const SELU_SCALE = Math.fround(1.0507009873554805);
const SELU_SCALED_ALPHA = Math.fround(1.7580993408473766);

function flushed(value: number): number {
  const rounded = Math.fround(value);
  return Math.abs(rounded) < NORMAL_MIN ? 0 : rounded;
}

/** eˣ / (1 + eˣ) with each step rounded: 1 where 1 is lost beside eˣ. */
function sigmoid(score: number): number {
  if (score >= SIGMOID_ONE_MIN) return 1;
  const power = Math.fround(Math.exp(score));
  return flushed(power / Math.fround(1 + power));
}

function softplus(score: number): number {
  if (score > SOFTPLUS_LINEAR_MIN) return score;
  return flushed(score < -SOFTPLUS_LINEAR_MIN ? Math.exp(score) : Math.log1p(Math.exp(score)));
}

function roundedToEven(score: number): number {
  const floor = Math.floor(score);
  const isHalf = score - floor === 0.5;
  if (isHalf) return floor % 2 === 0 ? floor : floor + 1;
  return Math.round(score);
}

type Apply = (score: number, operand: number) => number;
/** Functions of the scores of all rows, given the best of these and the sum of their exponentials. */
type SoftmaxName = "LogSoftmax" | "Softmax";

const SOFTMAX: Readonly<Record<SoftmaxName, (score: number, best: number, sum: number) => number>> =
  {
    LogSoftmax: (score, best, sum) =>
      Math.fround(Math.fround(score - best) - Math.fround(Math.log(sum))),
    Softmax: (score, best, sum) =>
      flushed(flushed(Math.exp(Math.fround(score - best))) / Math.fround(sum)),
  };

/** Whether a function depends on the scores of all rows. */
export function isSoftmax({ op }: Pick<ScoreFunction, "op">): boolean {
  return op in SOFTMAX;
}

/** Names of the functions that give a score a value whatever the scores of other rows are. */
export type ElementFunctionName = Exclude<ScoreOperationName, SoftmaxName>;

const FUNCTIONS: Readonly<Record<ElementFunctionName, Apply>> = {
  Add: (score, other) => Math.fround(score + other),
  Ceil: (score) => Math.ceil(score),
  Div: (score, other) => flushed(score / other),
  Elu: (score) => (score < 0 ? Math.fround(Math.expm1(score)) : score),
  Exp: (score) => flushed(Math.exp(score)),
  Expm1: (score) => Math.fround(Math.expm1(score)),
  Floor: (score) => Math.floor(score),
  KeepAbove: (score, least) => (score > least ? score : -Infinity),
  KeepFrom: (score, least) => (score >= least ? score : -Infinity),
  LeakyRelu: (score, alpha) => (score > 0 ? score : flushed(score * alpha)),
  Log: (score) => Math.fround(Math.log(score)),
  Log1p: (score) => Math.fround(Math.log1p(score)),
  Maximum: (score, other) => Math.max(score, other),
  Minimum: (score, other) => Math.min(score, other),
  Mul: (score, other) => flushed(score * other),
  Pow: (score, exponent) => flushed(score ** exponent),
  Round: roundedToEven,
  RoundToBfloat16: roundedToBfloat16,
  RoundToHalf: roundedToHalf,
  Selu: (score) =>
    Math.fround(
      score < 0 ? SELU_SCALED_ALPHA * Math.fround(Math.expm1(score)) : SELU_SCALE * score,
    ),
  Sigmoid: sigmoid,
  Softplus: softplus,
  Softsign: (score) => Math.fround(score / Math.fround(1 + Math.abs(score))),
  Sqrt: (score) => Math.fround(Math.sqrt(score)),
  Sub: (score, other) => Math.fround(score - other),
  Tanh: (score) =>
    Math.abs(score) >= TANH_ONE_MIN ? Math.sign(score) : Math.fround(Math.tanh(score)),
};

/** The names of all functions. */
export const SCORE_OPERATIONS: readonly ScoreOperationName[] = Object.keys({
  ...FUNCTIONS,
  ...SOFTMAX,
}) as ScoreOperationName[];

/** What a function makes of a float32 number and an operand, which some functions ignore: a number that float32 has. */
export function elementFunction(
  op: ElementFunctionName,
): (value: number, operand: number) => number {
  return FUNCTIONS[op];
}

/** A function of float32 scores, as numbers. */
export type ScoreValue = (score: number) => number;

/** A function with its operand: one number for all queries, or one for each. */
export interface BoundFunction {
  readonly op: ScoreOperationName;
  readonly numbers?: Float32Array | undefined;
}

/**
 * Functions with what a request makes of their operands.
 * @throws WinnowError INVALID_ARGUMENT for operands that fit neither all queries nor each
 */
export function boundFunctions(
  functions: readonly ScoreFunction[],
  valueOf: (value: ValueId) => Tensor,
  queries: number,
): readonly BoundFunction[] {
  return functions.map(({ op, operand }): BoundFunction => {
    if (operand === undefined) return { op };
    const { dtype, shape, data } = valueOf(operand);
    if (dtype !== "float32" || (data.length !== 1 && data.length !== queries)) {
      throw invalid(`Incompatible shapes: [${queries}] vs. ${dtype} [${shape.join(",")}]`);
    }
    return { op, numbers: data };
  });
}

/**
 * What some functions, one after the other, make of the scores of each query. `sums` belongs to the softmax among
 * them.
 */
export function scoreValues(
  functions: readonly BoundFunction[],
  sums?: SoftmaxSums,
): (query: number) => ScoreValue {
  const steps = functions.map((each) => stepOf(each, sums));
  return (query) => (score) => {
    let value = score;
    for (const step of steps) value = step(value, query);
    // Scores are canonical: never -0.
    return value + 0;
  };
}

function stepOf(
  { op, numbers }: BoundFunction,
  sums: SoftmaxSums | undefined,
): (score: number, query: number) => number {
  if (op === "Softmax" || op === "LogSoftmax") {
    if (sums === undefined) throw new RangeError("a softmax without the sums over all rows");
    const of = SOFTMAX[op];
    return (score, query) => of(score, sums.best[query]!, sums.sum[query]!);
  }
  const apply = FUNCTIONS[op];
  if (numbers === undefined) return (score) => apply(score, NaN);
  return (score, query) => apply(score, numbers[numbers.length > 1 ? query : 0]!);
}
