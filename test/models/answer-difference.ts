// The rule by which an answer counts as TensorFlow's: scores agree to 1e-5 of their size (TensorFlow
// itself is not exacter), ids in order except among scores that close; where every score is an exact
// sum, to the bit.

import type { SignatureProgram, Tensor } from "@winnow/core";
import { recordedTensor, type RecordedCase, type RecordedModel } from "./recorded-answers.ts";

const RELATIVE_ERROR = 1e-5;
const EXACT_MODELS = new Set(["retrieval_ties"]);
/** Layers that compute in bfloat16, of which a result that is rounded the other way differs by 2⁻⁸ of its size. */
const ROUGH_MODELS = new Set(["mixed_precision"]);
const ROUGH_ERROR = 2 ** -8;

/** What an answer is held against. */
export interface Expectation {
  readonly model: RecordedModel;
  readonly recorded: RecordedCase;
}

/** The first place where an answer is not TensorFlow's, or `undefined`. */
export function differenceOf(
  signature: SignatureProgram,
  answer: ReadonlyMap<string, Tensor>,
  { model, recorded }: Expectation,
): string | undefined {
  const usual = ROUGH_MODELS.has(model.name) ? ROUGH_ERROR : RELATIVE_ERROR;
  const tolerance = EXACT_MODELS.has(model.name) ? 0 : usual;
  const ranking = rankingOf(signature, answer);
  for (const { name, dtype } of signature.outputs) {
    const got = answer.get(name)!;
    const wanted = recordedTensor(recorded.outputs![name]!, { dtype, rank: got.shape.length });
    if (got.dtype !== wanted.dtype || got.shape.join() !== wanted.shape.join()) {
      const [given, expected] = [got.shape.join(), wanted.shape.join()];
      return `${name} is ${got.dtype} [${given}], not ${wanted.dtype} [${expected}]`;
    }
    for (let at = 0; at < got.data.length; at += 1) {
      const fault = isSameAt(got, wanted, { at, tolerance })
        ? undefined
        : `${name}[${at}] is ${textAt(got, at)}, not ${textAt(wanted, at)}`;
      const isTie =
        ranking !== undefined && isIdOf(got, ranking) && isNearTie(ranking, at, recorded);
      if (fault !== undefined && !isTie) return fault;
    }
  }
  return undefined;
}

/** The scores of a retrieval answer: the one float output beside one output of ids. */
function rankingOf(
  signature: SignatureProgram,
  answer: ReadonlyMap<string, Tensor>,
): Tensor | undefined {
  if (!signature.steps.some(({ kind }) => kind === "topK")) return undefined;
  return [...answer.values()].find(({ dtype, shape }) => dtype === "float32" && shape.length === 2);
}

function isIdOf(tensor: Tensor, ranking: Tensor): boolean {
  return tensor !== ranking && tensor.shape.join() === ranking.shape.join();
}

/** Whether the score at a place is within tolerance of a neighbour's, or of the first left out. */
function isNearTie(ranking: Tensor, at: number, { next_score }: RecordedCase): boolean {
  const k = ranking.shape[1]!;
  const row = Math.floor(at / k);
  const scores = ranking.data as Float32Array;
  const score = scores[at]!;
  const neighbours = [
    at % k > 0 ? scores[at - 1] : undefined,
    at % k < k - 1 ? scores[at + 1] : next_score?.[row],
  ];
  return neighbours.some(
    (other) => other !== undefined && score !== other && isClose(score, other, RELATIVE_ERROR),
  );
}

function isSameAt(
  got: Tensor,
  wanted: Tensor,
  { at, tolerance }: { readonly at: number; readonly tolerance: number },
): boolean {
  if (got.dtype === "string" && wanted.dtype === "string") {
    return Buffer.compare(got.data.at(at), wanted.data.at(at)) === 0;
  }
  const [a, b] = [got.data, wanted.data] as unknown as readonly [number[], number[]];
  if (got.dtype !== "float32") return a[at] === b[at];
  return Object.is(a[at], b[at]) || isClose(a[at]!, b[at]!, tolerance);
}

function isClose(a: number, b: number, tolerance: number): boolean {
  return a === b || Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b));
}

function textAt(tensor: Tensor, at: number): string {
  return tensor.dtype === "string" ? tensor.data.textAt(at) : String(tensor.data[at]);
}
