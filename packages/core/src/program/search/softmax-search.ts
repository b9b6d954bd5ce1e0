// The sums by which the softmax of a search divides. All rows count, those that the request leaves out too. Where
// masks stand before the softmax, rows that are kept and rows that are masked have scores of different kinds, and
// each class of rows (row-classes.ts) is summed by itself:
//
//   softmax(f(s))                   all rows, f
//   softmax(f(where(kept, s, c)))   kept rows, f, and as many times e^f(c) as there are masked rows
//   softmax(f(s + p · masked))      kept rows, f, and masked rows, f(· + p)
//
// Masked rows are counted by a query of zeros, whose powers are all 1: where e^f(c) is not lost beside the others.

import type { Filter } from "../../attributes/filter.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { BoundFunction } from "./score-functions.ts";
import { admitting, rowClassesOf } from "./row-classes.ts";
import type { BoundMask, RowClass } from "./row-classes.ts";
import { isSoftmax, scoreValues } from "./score-functions.ts";
import { joinedSums } from "./softmax-sums.ts";
import type { SoftmaxSums } from "./softmax-sums.ts";

/** What is summed for each query: the powers of what functions make of the scores of some rows. */
export interface SumsQuestion {
  /** float32 `[queries, dim]`. */
  readonly query: Tensor;
  /** Which rows count: one filter for all queries, or one for each; absent: all do. */
  readonly admits?: readonly Filter[] | undefined;
  readonly functions: readonly BoundFunction[];
}

/** Asks for the sums over rows of a table. */
export type AskSums = (question: SumsQuestion) => Promise<SoftmaxSums>;

/** How a search is scored. */
export interface SummedSearch {
  readonly query: Tensor;
  readonly functions: readonly BoundFunction[];
  readonly masks: readonly BoundMask[];
}

/** Below this, e^x is 0 in float32 as TensorFlow has it. */
const LOST_BELOW = Math.log(2 ** -126);

/** The sums that the softmax among some functions needs; `undefined` where there is none. */
export async function sumsOfSearch(
  { query, functions, masks }: SummedSearch,
  ask: AskSums,
): Promise<SoftmaxSums | undefined> {
  const softmaxAt = functions.findIndex(isSoftmax);
  if (softmaxAt < 0) return undefined;
  const before = functions.slice(0, softmaxAt);
  const masksBefore = masks.filter(({ functionsBefore }) => functionsBefore <= softmaxAt);
  const classes = rowClassesOf(before, masksBefore);
  const sumsOf = async (one: RowClass): Promise<SoftmaxSums> =>
    await ask({ query, ...admitting(one.admits), functions: one.functions });
  let sums = await sumsOf(classes[0]!);
  for (const one of classes.slice(1)) {
    if (one.score === undefined) sums = joinedSums(sums, await sumsOf(one));
    else sums = await withEqualScores(sums, { query, one, score: one.score }, ask);
  }
  return sums;
}

/** Sums with the rows of a class that have one score: only counted where they are not lost beside the others. */
async function withEqualScores(
  sums: SoftmaxSums,
  { query, one, score }: { readonly query: Tensor; readonly one: RowClass; readonly score: number },
  ask: AskSums,
): Promise<SoftmaxSums> {
  const valueOf = scoreValues(one.functions);
  const scores = sums.best.map((_, at) => valueOf(at)(score));
  const isCounted = scores.some((value, at) => {
    return value !== -Infinity && (sums.sum[at] === 0 || value - sums.best[at]! > LOST_BELOW);
  });
  if (!isCounted) return sums;
  const counts = await countsOf(query, one, ask);
  const sum = counts.map((count, at) => (scores[at] === -Infinity ? 0 : count));
  return joinedSums(sums, {
    best: scores.map((value, at) => (sum[at] === 0 ? -Infinity : value)),
    sum,
  });
}

/** How many rows a class has, for each query. */
async function countsOf({ shape }: Tensor, one: RowClass, ask: AskSums): Promise<Float64Array> {
  const data = new Float32Array(shape[0]! * shape[1]!);
  const query: Tensor = { dtype: "float32", shape, data };
  const { sum } = await ask({ query, ...admitting(one.admits), functions: [] });
  return sum;
}
