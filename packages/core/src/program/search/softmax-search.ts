// The sums by which the softmax of a search divides. All rows count, those that the request leaves out too. Where
// a mask stands before the softmax, rows that are kept and rows that are masked have scores of different kinds, and
// each kind is summed by itself:
//
//   softmax(f(s))                   all rows, f
//   softmax(f(where(kept, s, c)))   kept rows, f, and as many times e^f(c) as there are masked rows
//   softmax(f(s + p · masked))      kept rows, f, and masked rows, f(· + p)
//
// Masked rows are counted by a query of zeros, whose powers are all 1: where e^f(c) is not lost beside the others.

import type { Filter } from "../../attributes/filter.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { BoundFunction } from "./score-functions.ts";
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

/** A mask with what a request makes of it. */
export interface BoundMask {
  /** Rows that are kept, and all others. */
  readonly admits: readonly Filter[];
  readonly others: readonly Filter[];
  /** Of rows that are not kept, where there is no penalty. */
  readonly score: number;
  /** What is done to the scores of rows that are not kept, where they keep any. */
  readonly penalty?: BoundFunction | undefined;
  readonly functionsBefore: number;
}

/** How a search is scored, and how many rows its table has. */
export interface SummedSearch {
  readonly query: Tensor;
  readonly functions: readonly BoundFunction[];
  readonly mask: BoundMask | undefined;
  readonly rows: number;
}

/** Below this, e^x is 0 in float32 as TensorFlow has it. */
const LOST_BELOW = Math.log(2 ** -126);

/** The sums that the softmax among some functions needs; `undefined` where there is none. */
export async function sumsOfSearch(
  { query, functions, mask, rows }: SummedSearch,
  ask: AskSums,
): Promise<SoftmaxSums | undefined> {
  const softmaxAt = functions.findIndex(isSoftmax);
  if (softmaxAt < 0) return undefined;
  const before = functions.slice(0, softmaxAt);
  if (mask === undefined || mask.functionsBefore > softmaxAt) {
    return await ask({ query, functions: before });
  }
  const { admits, others, penalty, functionsBefore } = mask;
  const kept = await ask({ query, admits, functions: before });
  if (penalty !== undefined) {
    const penalised = before.toSpliced(functionsBefore, 0, penalty);
    return joinedSums(kept, await ask({ query, admits: others, functions: penalised }));
  }
  const valueOf = scoreValues(before.slice(functionsBefore));
  const scores = kept.best.map((_, at) => valueOf(at)(mask.score));
  const isCounted = scores.some((score, at) => {
    return kept.sum[at] !== 0 && score - kept.best[at]! > LOST_BELOW;
  });
  const counts = isCounted ? await countsOf(query, others, ask) : undefined;
  const sum = Float64Array.from(scores, (score, at) => {
    if (score === -Infinity) return 0;
    // Where no row is kept, all are masked; where there is no count, masked rows are lost beside the others.
    return kept.sum[at] === 0 ? rows : (counts?.[at] ?? 0);
  });
  return joinedSums(kept, {
    best: scores.map((score, at) => (sum[at] === 0 ? -Infinity : score)),
    sum,
  });
}

/** How many rows filters admit, for each query. */
async function countsOf(
  { shape }: Tensor,
  admits: readonly Filter[],
  ask: AskSums,
): Promise<Float64Array> {
  const data = new Float32Array(shape[0]! * shape[1]!);
  const query: Tensor = { dtype: "float32", shape, data };
  const { sum } = await ask({ query, admits, functions: [] });
  return sum;
}
