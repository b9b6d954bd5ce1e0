// The requests that a version directory holds for its warm-up:
// `assets.extra/tf_serving_warmup_requests`, a TFRecord file of `tensorflow.serving.PredictionLog`.
// As in TensorFlow Serving (servables/tensorflow/saved_model_warmup_util.cc) there are at most
// 1000, and a request that the model does not accept fails the version's load. Logs of calls other
// than Predict, Classify and Regress are skipped.

import {
  EXAMPLES_INPUT,
  ExampleInput,
  WinnowError,
  elementCount,
  signatureOf,
  tensor,
} from "@winnow/core";
import type { ProtobufReader, SignatureProgram, Tensor, WarmUpRequest } from "@winnow/core";
import { messageReader } from "./message.ts";
import { readShape, readTensorProto } from "./graph/definition/tensor-proto.ts";
import { recordsOf } from "./bundle/record-file.ts";
import type { StoredDirectory } from "../storage/stored-directory.ts";

/** Relative to the version directory. */
const WARM_UP_FILE = "assets.extra/tf_serving_warmup_requests";
const RECORDS_MAX = 1000;
const FILE_BYTES_MAX = 64 * 2 ** 20;
const ELEMENTS_MAX = 2 ** 24;

/**
 * Reads and checks the requests; none where there is no file.
 * @throws WinnowError DATA_LOSS, INVALID_ARGUMENT naming the record
 */
export function readWarmUp(
  directory: StoredDirectory,
  signatures: readonly SignatureProgram[],
): WarmUpRequest[] {
  if (!directory.has(WARM_UP_FILE)) return [];
  const file = directory.open(WARM_UP_FILE);
  try {
    if (file.size > FILE_BYTES_MAX) {
      const text = `${WARM_UP_FILE} has ${file.size} bytes; up to ${FILE_BYTES_MAX} are replayed`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    const content = file.readAll(FILE_BYTES_MAX);
    return requestsOf(content, signatures);
  } finally {
    file.close();
  }
}

/**
 * The requests of the file's content. @throws WinnowError DATA_LOSS, INVALID_ARGUMENT
 *
 * @internal tests call it
 */
export function requestsOf(
  content: Uint8Array,
  signatures: readonly SignatureProgram[],
): WarmUpRequest[] {
  const budget: ElementBudget = { left: ELEMENTS_MAX };
  const records = recordsOf(content, { file: WARM_UP_FILE, recordsMax: RECORDS_MAX });
  return records.flatMap((record, index) => {
    const what = `warm-up record ${index}`;
    const request = readLog(messageReader(record, what), what, budget);
    if (request === undefined) return [];
    if (checked(request, signatures, what) !== undefined) return [request];
    const text = `Cannot run ${what}: there is no signature "${request.signature}"`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  });
}

interface ElementBudget {
  left: number;
}

function checked(
  request: WarmUpRequest,
  signatures: readonly SignatureProgram[],
  what: string,
): SignatureProgram | undefined {
  return named(what, () => signatureOf(request, signatures));
}

/** What `work` gives; its errors name the record. */
function named<Made>(what: string, work: () => Made): Made {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    throw new WinnowError(error.code, `Cannot run ${what}: ${error.message}`, { cause: error });
  }
}

/** Fields of `PredictionLog`; each log has its request in the same field. */
const PREDICT_LOG = 6;
const EXAMPLE_LOGS: ReadonlySet<number> = new Set([2, 3]);
const LOGGED_REQUEST = 1;
const DEFAULT_SIGNATURE = "serving_default";

/** PredictionLog → the request of Predict, Classify or Regress. */
function readLog(
  log: ProtobufReader,
  what: string,
  budget: ElementBudget,
): WarmUpRequest | undefined {
  let request: WarmUpRequest | undefined;
  while (log.next()) {
    const read =
      log.field === PREDICT_LOG
        ? readRequest
        : EXAMPLE_LOGS.has(log.field)
          ? readExamplesRequest
          : undefined;
    if (read === undefined) continue;
    const logged = log.message();
    while (logged.next()) {
      if (logged.field === LOGGED_REQUEST) request = read(logged.message(), what, budget);
    }
  }
  return request;
}

/** PredictRequest: model_spec = 1, inputs = 2. */
function readRequest(request: ProtobufReader, what: string, budget: ElementBudget): WarmUpRequest {
  const inputs = new Map<string, Tensor>();
  let signature = DEFAULT_SIGNATURE;
  while (request.next()) {
    if (request.field === 1) signature = signatureNameIn(request.message());
    else if (request.field === 2) {
      const { key, value } = readEntry(request.message());
      const name = `${what}, input "${key}"`;
      takeElements(value, name, budget);
      inputs.set(key, readTensorProto(value, name));
    }
  }
  return { signature, inputs };
}

/** ClassificationRequest and RegressionRequest: model_spec = 1, input = 2. */
function readExamplesRequest(
  request: ProtobufReader,
  what: string,
  budget: ElementBudget,
): WarmUpRequest {
  const input = new ExampleInput(() => takeFrom(budget, 1, what));
  let signature = DEFAULT_SIGNATURE;
  while (request.next()) {
    if (request.field === 1) signature = signatureNameIn(request.message());
    else if (request.field === 2) input.read(request.message());
  }
  const column = named(what, () => input.column());
  return {
    signature,
    inputs: new Map([[EXAMPLES_INPUT, tensor("string", [column.length], column)]]),
  };
}

/** ModelSpec: signature_name = 3. */
function signatureNameIn(spec: ProtobufReader): string {
  let name = "";
  while (spec.next()) if (spec.field === 3) name = spec.text();
  return name || DEFAULT_SIGNATURE;
}

function readEntry(entry: ProtobufReader): { readonly key: string; readonly value: Uint8Array } {
  let key = "";
  let value: Uint8Array = new Uint8Array();
  while (entry.next()) {
    if (entry.field === 1) key = entry.text();
    else if (entry.field === 2) value = entry.view();
  }
  return { key, value };
}

/**
 * Takes a tensor's elements from the budget before the tensor is made, because a few bytes of
 * TensorProto may describe a large tensor.
 */
function takeElements(tensor: Uint8Array, what: string, budget: ElementBudget): void {
  const reader = messageReader(tensor, what);
  while (reader.next()) {
    if (reader.field !== 2) continue;
    const shape = readShape(reader.message()) ?? [];
    takeFrom(budget, shape.some((size) => size < 0) ? 0 : elementCount(shape), what);
  }
}

function takeFrom(budget: ElementBudget, values: number, what: string): void {
  budget.left -= values;
  if (budget.left >= 0) return;
  const text = `${WARM_UP_FILE} has more than ${ELEMENTS_MAX} values, at ${what}`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}
