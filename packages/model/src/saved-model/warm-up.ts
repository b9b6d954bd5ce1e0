// The requests that a version directory holds for its warm-up:
// `assets.extra/tf_serving_warmup_requests`, a TFRecord file of `tensorflow.serving.PredictionLog`.
// As in TensorFlow Serving (servables/tensorflow/saved_model_warmup_util.cc) there are at most
// 1000, and a request that the model does not accept fails the version's load. Logs of calls other
// than Predict are skipped.

import { WinnowError, elementCount, signatureOf } from "@winnow/core";
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
  try {
    return signatureOf(request, signatures);
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    throw new WinnowError(error.code, `Cannot run ${what}: ${error.message}`, { cause: error });
  }
}

const PREDICT_LOG = 6;
const PREDICT_REQUEST = 1;
const DEFAULT_SIGNATURE = "serving_default";

/** PredictionLog → its PredictRequest. */
function readLog(
  log: ProtobufReader,
  what: string,
  budget: ElementBudget,
): WarmUpRequest | undefined {
  let request: WarmUpRequest | undefined;
  while (log.next()) {
    if (log.field !== PREDICT_LOG) continue;
    const predict = log.message();
    while (predict.next()) {
      if (predict.field === PREDICT_REQUEST) request = readRequest(predict.message(), what, budget);
    }
  }
  return request;
}

/** PredictRequest: model_spec = 1 { signature_name = 3 }, inputs = 2. */
function readRequest(request: ProtobufReader, what: string, budget: ElementBudget): WarmUpRequest {
  const inputs = new Map<string, Tensor>();
  let signature = DEFAULT_SIGNATURE;
  while (request.next()) {
    if (request.field === 1) {
      const spec = request.message();
      while (spec.next()) if (spec.field === 3) signature = spec.text() || DEFAULT_SIGNATURE;
    } else if (request.field === 2) {
      const { key, value } = readEntry(request.message());
      const name = `${what}, input "${key}"`;
      takeElements(value, name, budget);
      inputs.set(key, readTensorProto(value, name));
    }
  }
  return { signature, inputs };
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
    budget.left -= shape.some((size) => size < 0) ? 0 : elementCount(shape);
  }
  if (budget.left >= 0) return;
  const text = `${WARM_UP_FILE} has more than ${ELEMENTS_MAX} values, at ${what}`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}
