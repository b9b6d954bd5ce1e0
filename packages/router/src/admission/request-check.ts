// A request before any work is done for it: held against the limits, made fit for the program, and
// reckoned in rows, which is what admission goes by.

import { WinnowError } from "@winnow/core";
import { keyBytes } from "@winnow/cluster";
import type { ModelProgram, Pipeline, SignatureProgram, Tensor, TopKStep } from "@winnow/core";
import type { PredictRequest } from "../predictor.ts";
import {
  checkCandidates,
  checkExcludedBytes,
  checkExcludedIds,
  checkInstances,
  checkK,
  instancesOf,
} from "../request-limits.ts";
import type { RequestLimits } from "../request-limits.ts";
import { requestCost } from "./search-cost.ts";
import type { SliceLimits } from "./search-cost.ts";

/** What a request asks for beside its inputs, made fit for the program, and its cost. */
export interface CheckedRequest {
  /** The cost of its searches and look-ups: `requestCost`. */
  readonly rows: number;
  /** The k of every search, instead of the program's: at most the rows of the smallest table searched. */
  readonly k: number | undefined;
  readonly exclude: readonly Tensor[];
}

/** Checks a request against the limits. @throws WinnowError INVALID_ARGUMENT */
export function checkRequest(
  program: ModelProgram,
  request: PredictRequest,
  limits: RequestLimits & SliceLimits,
): CheckedRequest {
  const { signature, inputs, exclude = [] } = request;
  const { tables } = program;
  const searches = signature.steps.filter((step) => step.kind === "topK");
  const instances = instancesOf(signature, inputs);
  checkInstances(instances, limits);
  if (request.k !== undefined) checkK(request.k, limits);
  const k = fittedK(program, request, searches);
  const excludedBytes = exclude.map(keyBytes);
  if (exclude.length > 0) {
    if (searches.length === 0) throw withoutSearch("exclude", signature);
    const ids = exclude.reduce((sum, list) => sum + list.data.length, 0);
    checkExcludedIds(ids, limits);
    checkExcludedBytes({ ids, bytes: excludedBytes.reduce((sum, more) => sum + more, 0) }, limits);
  }
  checkCandidates(
    searches.reduce((sum, step) => sum + instances * (k ?? step.k), 0),
    limits,
  );
  const textBytes = textBytesOf(inputs);
  const rows = requestCost({ signature, tables, instances, k, excludedBytes, textBytes }, limits);
  return { rows, k, exclude };
}

/** Candidates of all instances of one request: they are ordered in one turn of the router's thread. */
const PIPELINE_REQUEST_CANDIDATES_MAX = 65_536;

/**
 * Checks what a pipeline's own models do not see: the batch, and the candidates of all its instances.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function checkPipelineRequest(
  { stages }: Pipeline,
  { signature, inputs, k }: PredictRequest,
  limits: RequestLimits,
): void {
  const instances = instancesOf(signature, inputs);
  checkInstances(instances, limits);
  if (k !== undefined) checkK(k, limits);
  const [retrieval] = stages;
  if (retrieval?.kind !== "retrieve") return;
  const candidates = instances * retrieval.k;
  if (candidates <= PIPELINE_REQUEST_CANDIDATES_MAX) return;
  const text = `${instances} instances of ${retrieval.k} candidates each; at most`;
  const message = `Cannot run a pipeline on ${text} ${PIPELINE_REQUEST_CANDIDATES_MAX} are allowed`;
  throw new WinnowError("INVALID_ARGUMENT", `${message} in all: send fewer instances`);
}

/** No search returns more candidates than its table has rows. */
function fittedK(
  { tables }: ModelProgram,
  { k, signature }: PredictRequest,
  searches: readonly TopKStep[],
): number | undefined {
  if (k === undefined) return undefined;
  if (searches.length === 0) throw withoutSearch("k", signature);
  return Math.min(k, ...searches.map((step) => tables[step.table]!.rows));
}

/** Bytes of the text among the inputs. */
function textBytesOf(inputs: ReadonlyMap<string, Tensor>): number {
  let bytes = 0;
  for (const input of inputs.values()) if (input.dtype === "string") bytes += input.data.byteLength;
  return bytes;
}

function withoutSearch(field: string, signature: SignatureProgram): WinnowError {
  return new WinnowError(
    "INVALID_ARGUMENT",
    `Cannot apply "${field}": signature "${signature.name}" searches no candidate table`,
  );
}
