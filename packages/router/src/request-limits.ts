// What one request may ask, checked before any work is done for it. What is too much is the client's
// to change (400), so the message says the limit.

import { WinnowError } from "@winnow/core";
import { keyBytes } from "@winnow/cluster";
import type { ModelProgram, SignatureProgram, Tensor, TopKStep } from "@winnow/core";
import type { PredictRequest } from "./predictor.ts";
import type { RouterSettings } from "./router-settings.ts";
import { requestCost } from "./admission/search-cost.ts";

/** Score, row, and an id of usual length: what one candidate of an answer is reckoned at. */
const CANDIDATE_BYTES = 40;

/** What a request asks for beside its inputs, made fit for the program, and its size. */
export interface RequestWishes {
  /** What its searches are reckoned at. */
  readonly rows: number;
  /** Asked instead of every search's own k: at most the rows of the smallest table searched. */
  readonly k: number | undefined;
  readonly exclude: readonly Tensor[];
}

/** Checks a request against the limits. @throws WinnowError INVALID_ARGUMENT */
export function checkRequest(
  program: ModelProgram,
  request: PredictRequest,
  settings: RouterSettings,
): RequestWishes {
  const searches = request.signature.steps.filter((step) => step.kind === "topK");
  const instances = instancesOf(request.signature, request.inputs);
  if (instances > settings.instancesMax) {
    throw tooMuch(`${instances} instances; a request takes at most ${settings.instancesMax}`);
  }
  const k = checkK(request, { program, searches, kMax: settings.kMax });
  const exclude = request.exclude ?? [];
  const excludedBytes = exclude.map(keyBytes);
  checkExclusions(request.signature, { exclude, excludedBytes }, { searches, settings });
  const candidates = searches.reduce((sum, step) => sum + instances * (k ?? step.k), 0);
  if (candidates * CANDIDATE_BYTES > settings.answerBytesMax) {
    const most = Math.floor(settings.answerBytesMax / CANDIDATE_BYTES);
    throw tooMuch(`${candidates} items in one answer; at most ${most}: send fewer instances`);
  }
  const { tables } = program;
  const textBytes = textBytesOf(request.inputs);
  const asked = { signature: request.signature, tables, instances, k, excludedBytes, textBytes };
  const rows = requestCost(asked, settings);
  return { rows, k, exclude };
}

/** The largest first dimension of the inputs that have one: the batch. */
function instancesOf(signature: SignatureProgram, inputs: ReadonlyMap<string, Tensor>): number {
  const sizes = signature.inputs.map((input) => inputs.get(input.name)?.shape[0] ?? 1);
  return Math.max(1, ...sizes);
}

function checkK(
  request: PredictRequest,
  known: {
    readonly program: ModelProgram;
    readonly searches: readonly TopKStep[];
    readonly kMax: number;
  },
): number | undefined {
  const { k } = request;
  if (k === undefined) return undefined;
  if (!Number.isSafeInteger(k) || k < 1 || k > known.kMax) {
    throw tooMuch(`"k" ${k}; it must be an integer from 1 to ${known.kMax}`);
  }
  if (known.searches.length === 0) throw withoutSearch("k", request.signature);
  return Math.min(k, ...known.searches.map((step) => known.program.tables[step.table]!.rows));
}

function checkExclusions(
  signature: SignatureProgram,
  { exclude, excludedBytes }: Exclusions,
  known: { readonly searches: readonly TopKStep[]; readonly settings: RouterSettings },
): void {
  if (exclude.length === 0) return;
  if (known.searches.length === 0) throw withoutSearch("exclude", signature);
  const ids = exclude.reduce((sum, list) => sum + list.data.length, 0);
  const { excludedIdsMax, excludedBytesMax } = known.settings;
  if (ids > excludedIdsMax) {
    throw tooMuch(`${ids} excluded ids; a request takes at most ${excludedIdsMax}`);
  }
  const bytes = excludedBytes.reduce((sum, more) => sum + more, 0);
  if (bytes > excludedBytesMax) {
    throw tooMuch(
      `${ids} excluded ids of ${bytes} bytes; a request takes at most ${excludedBytesMax} bytes of ` +
        "them (excludedBytesMax)",
    );
  }
}

interface Exclusions {
  readonly exclude: readonly Tensor[];
  /** Of each list. */
  readonly excludedBytes: readonly number[];
}

/** Refuses keys before any work is done for them. @throws WinnowError INVALID_ARGUMENT */
export function checkKeys(table: string, keys: Tensor, settings: RouterSettings): void {
  const bytes = keyBytes(keys);
  const { lookupBytesMax } = settings;
  if (bytes <= lookupBytesMax) return;
  throw tooMuch(
    `${keys.data.length} keys of ${bytes} bytes to look up in table "${table}"; a look-up takes at ` +
      `most ${lookupBytesMax} bytes of them (lookupBytesMax)`,
  );
}

/** Bytes of the text among the inputs. */
function textBytesOf(inputs: ReadonlyMap<string, Tensor>): number {
  let bytes = 0;
  for (const input of inputs.values()) if (input.dtype === "string") bytes += input.data.byteLength;
  return bytes;
}

function tooMuch(what: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Cannot answer for ${what}`);
}

function withoutSearch(field: string, signature: SignatureProgram): WinnowError {
  return new WinnowError(
    "INVALID_ARGUMENT",
    `Cannot apply "${field}": signature "${signature.name}" searches no candidate table`,
  );
}
