// What one request may ask, with each limit stated once. The numbers are settings of the router
// (`RouterSettings`); the HTTP and gRPC sides read them from their predictor (`Predictor.limits`); and code
// that finds a request above a limit refuses it with a function of this file. So REST, gRPC and the router
// name the same number in the same words, whichever of them checks first. The client has to change such a
// request: INVALID_ARGUMENT, with the limit in the message.

import { FILTER_LIMITS, WinnowError, checkInputShape, elementCount } from "@winnow/core";
import { keyBytes } from "@winnow/cluster";
import type { SignatureProgram, SignatureTensor, Tensor } from "@winnow/core";

/** What one request may ask. */
export interface RequestLimits {
  /** Default 4096. Instances of one request. */
  readonly instancesMax: number;
  /** Default 4096. The largest `k` a request may ask for. */
  readonly kMax: number;
  /**
   * Default 1,677,721, at most one for each 640 bytes of memory. Candidates of one answer: its instances times
   * its k.
   */
  readonly candidatesMax: number;
  /** Default 65,536. Excluded ids of one request, all lists together; the same for included ids. */
  readonly excludedIdsMax: number;
  /**
   * Default 1 MiB. Bytes of all excluded ids of one request; the same for its included ids, and for its
   * filters. Each slice of a search carries its lists to every worker. Higher excludes more or longer ids,
   * and delays the searches behind them.
   */
  readonly excludedBytesMax: number;
  /** Default 64. Different filters of one request. Each worker has to evaluate a filter that it does not know. */
  readonly filtersMax: number;
  /** Default 256. Conditions of all different filters of one request. Each is tested on all items. */
  readonly filterConditionsMax: number;
  /**
   * Default 8192. Attribute values in one answer: its items times the names in `return`. A value may have 2
   * KiB, so the limit keeps a worker's part of them within a frame.
   */
  readonly describedValuesMax: number;
  /** Default 8 MiB. Bytes of the keys of one look-up. */
  readonly lookupBytesMax: number;
  /**
   * Default 8,388,608, at most one for each 256 bytes of memory. JSON values of one body; each takes 17 bytes
   * while it is read.
   */
  readonly jsonValuesMax: number;
  /** Default 256 MiB, at most an eighth of the memory. Bytes of one answer as JSON; more get 429. */
  readonly answerBytesMax: number;
}

/** The limits, where an operator sets none. */
export const DEFAULT_REQUEST_LIMITS: RequestLimits = {
  instancesMax: 4096,
  kMax: 4096,
  // 64 MiB, at 40 bytes for a score, a row number and an id of usual length.
  candidatesMax: Math.floor((64 * 2 ** 20) / 40),
  excludedIdsMax: 65_536,
  excludedBytesMax: 2 ** 20,
  filtersMax: 64,
  filterConditionsMax: 256,
  describedValuesMax: 8192,
  lookupBytesMax: 8 * 2 ** 20,
  jsonValuesMax: 8 * 2 ** 20,
  answerBytesMax: 256 * 2 ** 20,
};

/**
 * The batch of a request: the largest first dimension of the inputs that have one, at least 1. For a sparse
 * input it is the one of its dense shape, however few values it has.
 */
export function instancesOf(
  signature: Pick<SignatureProgram, "inputs">,
  inputs: ReadonlyMap<string, Tensor>,
): number {
  let instances = 1;
  for (const { name } of signature.inputs) {
    instances = Math.max(instances, inputs.get(name)?.shape[0] ?? 1, sparseRows(name, inputs));
  }
  return instances;
}

const DENSE_SHAPE = "/dense_shape";

/** The first dimension of the dense shape of a sparse input, or 1 for any other; a sparse input consists of three tensors (`meta-graph.ts`). */
function sparseRows(name: string, inputs: ReadonlyMap<string, Tensor>): number {
  if (!name.endsWith(DENSE_SHAPE)) return 1;
  if (!inputs.has(`${name.slice(0, -DENSE_SHAPE.length)}/indices`)) return 1;
  const shape = inputs.get(name);
  return shape?.dtype === "int64" && shape.data.length > 0 ? Number(shape.data[0]) : 1;
}

/**
 * Checks the number of instances, and names the longest input, which may be a list of one user.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function checkInstances(
  instances: number,
  { instancesMax }: Pick<RequestLimits, "instancesMax">,
  inputs?: ReadonlyMap<string, Pick<Tensor, "shape">>,
): void {
  if (instances <= instancesMax) return;
  const longest = Array.from(inputs ?? []).find(([, { shape }]) => shape[0] === instances);
  const most = `at most ${instancesMax} are allowed`;
  if (longest === undefined) refuse(`The request has ${instances} instances; ${most}`);
  refuse(`Input "${longest[0]}" has ${instances} instances, or values of one list; ${most}`);
}

/**
 * Checks the shape of an input before its values are read: those of more than one for each instance cost time.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function checkShapeToRead(
  input: SignatureTensor,
  shape: readonly number[],
  limits: Pick<RequestLimits, "instancesMax">,
): void {
  if (elementCount(shape) > limits.instancesMax) checkInputShape(input, shape);
  checkInstances(shape[0] ?? 1, limits, new Map([[input.name, { shape }]]));
}

/**
 * Checks the number of query vectors: a graph may make more of them than the request has instances, and each
 * is a search.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function checkQueries(
  queries: number,
  { instancesMax }: Pick<RequestLimits, "instancesMax">,
): void {
  if (queries <= instancesMax) return;
  refuse(
    `The model makes ${queries} queries of this request; at most ${instancesMax} are searched`,
  );
}

/** Checks a k; `text` is the k as the request has it, for the message. @throws WinnowError INVALID_ARGUMENT */
export function checkK(
  k: number,
  { kMax }: Pick<RequestLimits, "kMax">,
  text: () => string = () => String(k),
): void {
  if (Number.isSafeInteger(k) && k >= 1 && k <= kMax) return;
  refuse(`"k" is ${text()}; it must be an integer from 1 to ${kMax}`);
}

/** Checks the candidates of an answer. @throws WinnowError INVALID_ARGUMENT */
export function checkCandidates(
  candidates: number,
  { candidatesMax }: Pick<RequestLimits, "candidatesMax">,
): void {
  if (candidates <= candidatesMax) return;
  refuse(
    `The answer would have ${candidates} items; at most ${candidatesMax} are allowed: send fewer ` +
      "instances",
  );
}

/** Checks the number of listed ids. @throws WinnowError INVALID_ARGUMENT */
export function checkListedIds(
  ids: number,
  { excludedIdsMax }: Pick<RequestLimits, "excludedIdsMax">,
  field: "exclude" | "include" = "exclude",
): void {
  if (ids <= excludedIdsMax) return;
  refuse(`"${field}" has ${ids} ids; at most ${excludedIdsMax} ids are allowed`);
}

/** Checks the bytes of listed ids. @throws WinnowError INVALID_ARGUMENT */
export function checkExcludedBytes(
  { ids, bytes }: { readonly ids: number; readonly bytes: number },
  { excludedBytesMax }: Pick<RequestLimits, "excludedBytesMax">,
  what: "excluded ids" | "included ids" | "filters" = "excluded ids",
): void {
  if (bytes <= excludedBytesMax) return;
  refuse(
    `Cannot answer for ${ids} ${what} of ${bytes} bytes; a request takes at most ` +
      `${excludedBytesMax} bytes of them (excludedBytesMax)`,
  );
}

/** Checks the different filters of one request and their conditions. @throws WinnowError INVALID_ARGUMENT */
export function checkFilters(
  { filters, conditions }: { readonly filters: number; readonly conditions: number },
  { filtersMax, filterConditionsMax }: Pick<RequestLimits, "filtersMax" | "filterConditionsMax">,
): void {
  if (filters > filtersMax) {
    refuse(
      `"filter" has ${filters} different filters; at most ${filtersMax} are allowed: send fewer ` +
        "instances",
    );
  }
  if (conditions <= filterConditionsMax) return;
  refuse(
    `"filter" has ${conditions} conditions in all; at most ${filterConditionsMax} are allowed: send ` +
      "fewer instances",
  );
}

/** Checks the length of one filter as workers read it. @throws WinnowError INVALID_ARGUMENT */
export function checkFilterBytes(bytes: number): void {
  if (bytes <= FILTER_LIMITS.bytesMax) return;
  refuse(`A filter takes ${bytes} bytes; at most ${FILTER_LIMITS.bytesMax} are allowed`);
}

/** Checks the attribute values of an answer. @throws WinnowError INVALID_ARGUMENT */
export function checkDescribed(
  values: number,
  { describedValuesMax }: Pick<RequestLimits, "describedValuesMax">,
): void {
  if (values <= describedValuesMax) return;
  refuse(
    `"return" would give ${values} attributes; at most ${describedValuesMax} are allowed: send fewer ` +
      "instances, a smaller k or fewer names (a vector counts as one attribute per 384 values; of a " +
      "pipeline, all candidates of its retrievals count, whatever k)",
  );
}

/** Checks the keys of one look-up. @throws WinnowError INVALID_ARGUMENT */
export function checkKeys(
  table: string,
  keys: Tensor,
  { lookupBytesMax }: Pick<RequestLimits, "lookupBytesMax">,
): void {
  const bytes = keyBytes(keys);
  if (bytes <= lookupBytesMax) return;
  refuse(
    `Cannot answer for ${keys.data.length} keys of ${bytes} bytes to look up in table "${table}"; ` +
      `a look-up takes at most ${lookupBytesMax} bytes of them (lookupBytesMax)`,
  );
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
