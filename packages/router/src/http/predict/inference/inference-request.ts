// The body of an inference request by the Open Inference Protocol (KServe's V2) → named tensors:
//
//   {"id": "42", "parameters": {"k": 5, "filter": {"year": {"$gte": 1990}}},
//    "inputs": [{"name": "user_id", "shape": [1], "datatype": "BYTES", "data": ["42"]}],
//    "outputs": [{"name": "output_2"}]}
//
// Values are flat or nested, row by row; or they follow the JSON, as in the extension "binary_tensor_data".
// The parameters of the request are Winnow's fields (`request-extensions.ts`) and `signature_name`. The
// protocol allows only strings, numbers and bools as parameters, so lists and objects may also be given as
// strings of JSON.

import { WinnowError, elementCount, excerpt } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { checkInstances, instancesOf } from "../../../limits/request-limits.ts";
import type { RequestLimits } from "../../../limits/request-limits.ts";
import { RANK_MAX } from "../../../limits/tensor-shape.ts";
import { shownValue } from "../../json/json-dump.ts";
import { JsonReader, KIND } from "../../json/json-reader.ts";
import type { ValueIndex } from "../../json/json-reader.ts";
import { JsonSyntaxError } from "../../json/json-syntax-error.ts";
import { parseRequestBody, signatureNamed } from "../predict-request.ts";
import type { PredictInputs, SignatureInputs } from "../predict-request.ts";
import {
  fieldsOf,
  isWrittenAsText,
  namesOfKeys,
  readExtensions,
  readIgnoredKeys,
} from "../request-extensions.ts";
import type { FieldReader, KnownKeys, RequestExtensions } from "../request-extensions.ts";
import { TensorReader } from "../tensor-reader.ts";
import { readBinaryTensor } from "./binary-tensors.ts";
import {
  checkDatatype,
  checkShape,
  declaredInput,
  inputsInOrder,
  refuseParameters,
} from "./inference-tensors.ts";

/** An output that a request wants. */
interface WantedOutput {
  readonly name: string;
  /** Whether its values follow the JSON as binary data. */
  readonly isBinary: boolean;
}

/** The form of the answer to a request. */
export interface AskedInference {
  /** Echoed in the answer, if the request has one. */
  readonly id: string | undefined;
  /** The outputs wanted, in this order; `undefined`: all. */
  readonly outputs: readonly WantedOutput[] | undefined;
  /** Whether outputs that `outputs` does not name follow the JSON as binary data. */
  readonly isBinary: boolean;
}

/** How a body is to be read. */
export interface InferenceQuestion {
  /** The model's; `undefined` if the model could not be pinned, and then no inputs are read. */
  readonly signatures: readonly SignatureInputs[] | undefined;
  /** Bytes of the JSON, if binary data follow it. */
  readonly jsonBytes: number | undefined;
  readonly limits: InferenceLimits;
}

type InferenceLimits = Pick<
  RequestLimits,
  "jsonValuesMax" | "instancesMax" | "kMax" | "excludedIdsMax"
>;

/** The content of a body. */
interface InferenceContent {
  /** "" if the body names none. */
  readonly signatureName: string;
  readonly asked?: PredictInputs &
    RequestExtensions & { readonly ignored: readonly string[]; readonly inference: AskedInference };
}

const ROOT: ValueIndex = 0;
const NONE: ValueIndex = -1;
const REQUEST_KEYS: KnownKeys = namesOfKeys(["id", "parameters", "inputs", "outputs"]);
const PARAMETERS: KnownKeys = namesOfKeys(
  "signature_name binary_data_output k exclude include filter return return_vectors explain".split(
    " ",
  ),
);
const IGNORED_MAX = 8;
/** What goes from the reading thread to the event loop, which writes it into the answer. */
const OUTPUTS_MAX = 1024;
const OUTPUT_NAME_BYTES_MAX = 65_536;
const ID_BYTES_MAX = 65_536;

/**
 * Reads a body; `document` holds it until it reads another body.
 * @throws WinnowError INVALID_ARGUMENT, or RESOURCE_EXHAUSTED for more than `jsonValuesMax` values
 */
export function readInference(
  document: JsonReader,
  bytes: Uint8Array,
  { signatures, jsonBytes, limits }: InferenceQuestion,
): InferenceContent {
  if (jsonBytes !== undefined && jsonBytes > bytes.length) {
    refuse(
      `Inference-Header-Content-Length is ${jsonBytes}, but the body has ${bytes.length} bytes; it is the ` +
        "length of the JSON alone",
    );
  }
  parseRequestBody(document, bytes.subarray(0, jsonBytes));
  const parameters = objectAt(document, ROOT, "parameters");
  const signatureName = textAt(document, parameters, "signature_name") ?? "";
  if (signatures === undefined) return { signatureName };
  const signature = signatureNamed(signatures, signatureName);
  const binary = jsonBytes === undefined ? undefined : bytes.subarray(jsonBytes);
  const inputs = readInputs(document, signature, binary);
  const instances = instancesOf(signature, inputs);
  checkInstances(instances, limits, inputs);
  const wanted = readExtensions(parametersOf(document, parameters, limits), instances, limits);
  const ignored = [
    ...readIgnoredKeys(document, ROOT, REQUEST_KEYS),
    ...(parameters < 0 ? [] : readIgnoredKeys(document, parameters, PARAMETERS)),
  ].slice(0, IGNORED_MAX);
  const inference = readAsked(document, parameters);
  return {
    signatureName,
    asked: { format: "column", instances, inputs, ...wanted, ignored, inference },
  };
}

function readAsked(document: JsonReader, parameters: ValueIndex): AskedInference {
  const isBinary = flagAt(document, parameters, "binary_data_output") ?? false;
  const id = textAt(document, ROOT, "id");
  if (id !== undefined) checkBytes("The request's id", id, ID_BYTES_MAX);
  const list = listAt(document, ROOT, "outputs");
  if (list.length > OUTPUTS_MAX) {
    refuse(`"outputs" names ${list.length} outputs; at most ${OUTPUTS_MAX} are allowed`);
  }
  const names = new Set<string>();
  const outputs = list.map((output): WantedOutput => {
    const name = nameOf(document, output, "outputs");
    checkBytes("The name of an output", name, OUTPUT_NAME_BYTES_MAX);
    if (names.has(name)) refuse(`Output "${excerpt(name)}" stands twice in "outputs"`);
    names.add(name);
    const own = objectAt(document, output, "parameters");
    refuseParameters((each) => memberOf(document, own, each) >= 0, `output "${excerpt(name)}"`);
    return { name, isBinary: flagAt(document, own, "binary_data") ?? isBinary };
  });
  // As in Triton, an empty list names no output, so all are wanted.
  return { id, outputs: outputs.length === 0 ? undefined : outputs, isBinary };
}

function checkBytes(what: string, text: string, bytesMax: number): void {
  const bytes = Buffer.byteLength(text);
  if (bytes > bytesMax) refuse(`${what} has ${bytes} bytes; at most ${bytesMax} are allowed`);
}

/** Reads exactly the inputs of a signature, in its order. */
function readInputs(
  document: JsonReader,
  signature: SignatureInputs,
  binary: Uint8Array | undefined,
): ReadonlyMap<string, Tensor> {
  const list = listAt(document, ROOT, "inputs");
  const read = new Map<string, Tensor>();
  let taken = 0;
  for (const input of list) {
    const name = nameOf(document, input, "inputs");
    const declared = declaredInput(signature, name, read);
    const shape = readShape(document, input, name);
    const { dtype } = declared;
    checkDatatype(declared, textAt(document, input, "datatype"));
    const own = objectAt(document, input, "parameters");
    refuseParameters((each) => memberOf(document, own, each) >= 0, `input "${name}"`);
    const size = sizeAt(document, own, name);
    if (size === undefined) {
      read.set(name, readData(document, input, { name, dtype, shape }));
      continue;
    }
    const part = binaryPart(binary, { name, from: taken, size });
    if (memberOf(document, input, "data") >= 0) {
      refuse(
        `Input "${name}" has both "data" and "binary_data_size"; one of them holds its values`,
      );
    }
    read.set(name, readBinaryTensor(part, { name, dtype, shape }));
    taken += size;
  }
  const left = (binary?.length ?? 0) - taken;
  if (left > 0)
    refuse(`${left} bytes of binary data belong to no input; "binary_data_size" claims them`);
  return inputsInOrder(signature, read);
}

function binaryPart(
  binary: Uint8Array | undefined,
  { name, from, size }: { readonly name: string; readonly from: number; readonly size: number },
): Uint8Array {
  if (binary === undefined) {
    refuse(
      `Input "${name}" has "binary_data_size", but the header Inference-Header-Content-Length, which says ` +
        "where binary data begin, is missing",
    );
  }
  if (from + size <= binary.length) return binary.subarray(from, from + size);
  refuse(
    `Input "${name}" wants ${size} bytes of binary data; ${binary.length - from} are left in the body`,
  );
}

/** Reads the values of "data", flat or nested like the shape. */
function readData(
  document: JsonReader,
  input: ValueIndex,
  { name, dtype, shape }: { name: string; dtype: Tensor["dtype"]; shape: readonly number[] },
): Tensor {
  const value = memberOf(document, input, "data");
  if (value < 0) refuse(`Input "${name}" has no "data"`);
  const tensor = named(name, () => new TensorReader(document, dtype).readWhole(value));
  const isFlat = tensor.shape.length <= 1;
  const isNested = tensor.shape.join(",") === shape.join(",");
  if (!isNested && !(isFlat && tensor.data.length === elementCount(shape))) {
    refuse(
      `Input "${name}" has data of shape [${tensor.shape.join(",")}]; shape [${shape.join(",")}] needs ` +
        `${elementCount(shape)} values, in one list or nested likewise`,
    );
  }
  return { ...tensor, shape };
}

function readShape(document: JsonReader, input: ValueIndex, name: string): readonly number[] {
  const value = memberOf(document, input, "shape");
  const sizes =
    value >= 0 && document.kinds[value] === KIND.array ? document.children(value) : undefined;
  const shape = sizes?.map((size) =>
    document.kinds[size] === KIND.integer ? document.numbers[size]! : Number.NaN,
  );
  const isRight = shape?.every((size) => Number.isSafeInteger(size) && size >= 0) ?? false;
  if (shape !== undefined && isRight && shape.length <= RANK_MAX) {
    checkShape(name, shape);
    return shape;
  }
  refuse(
    `Input "${name}" has ${value < 0 ? "no shape" : `shape ${shownValue(document, value)}`}; a shape is a list of ` +
      `at most ${RANK_MAX} integers from 0`,
  );
}

function sizeAt(document: JsonReader, parameters: ValueIndex, name: string): number | undefined {
  const value = memberOf(document, parameters, "binary_data_size");
  if (value < 0) return undefined;
  const size = document.kinds[value] === KIND.integer ? document.numbers[value]! : Number.NaN;
  if (Number.isSafeInteger(size) && size >= 0) return size;
  refuse(
    `Input "${name}" has "binary_data_size" ${shownValue(document, value)}; it must be an integer from 0`,
  );
}

/** Winnow's fields among the parameters; lists and objects may also be strings of JSON. */
function parametersOf(
  document: JsonReader,
  parameters: ValueIndex,
  limits: InferenceLimits,
): FieldReader {
  if (parameters < 0) return () => undefined;
  const fields = fieldsOf(document, parameters);
  return (field) => {
    const found = fields(field);
    const isText = found !== undefined && document.kinds[found.value] === KIND.string;
    if (!isText || !isWrittenAsText(field)) return found;
    return readJsonText(field, document.bytesOf(found.value).slice(), limits);
  };
}

/** A parameter that is JSON in a string. @throws WinnowError INVALID_ARGUMENT for another text */
export function readJsonText(
  field: string,
  text: Uint8Array,
  { jsonValuesMax }: Pick<RequestLimits, "jsonValuesMax">,
): { readonly document: JsonReader; readonly value: ValueIndex } {
  const document = new JsonReader({ valuesMax: jsonValuesMax });
  try {
    document.parse(text);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    refuse(
      `Parameter "${field}" is a string, but no JSON: ${error.message} at offset ${error.offset}`,
    );
  }
  return { document, value: ROOT };
}

/** The objects in a list, which may be absent. */
function listAt(document: JsonReader, object: ValueIndex, key: string): readonly ValueIndex[] {
  const value = memberOf(document, object, key);
  if (value < 0) return [];
  const elements = document.kinds[value] === KIND.array ? document.children(value) : undefined;
  if (elements?.every((element) => document.kinds[element] === KIND.object) === true)
    return elements;
  refuse(`"${key}" must be a list of objects, each with a "name"`);
}

function nameOf(document: JsonReader, object: ValueIndex, list: string): string {
  return textAt(document, object, "name") ?? refuse(`An element of "${list}" has no "name"`);
}

/** The position of an object, or `NONE`. */
function objectAt(document: JsonReader, object: ValueIndex, key: string): ValueIndex {
  const value = memberOf(document, object, key);
  if (value < 0 || document.kinds[value] === KIND.object) return value;
  refuse(`"${key}" is ${shownValue(document, value)}; it must be an object`);
}

function textAt(document: JsonReader, object: ValueIndex, key: string): string | undefined {
  const value = memberOf(document, object, key);
  if (value < 0) return undefined;
  if (document.kinds[value] === KIND.string) {
    return Buffer.from(document.bytesOf(value)).toString("utf8");
  }
  refuse(`"${key}" is ${shownValue(document, value)}; it must be a string`);
}

function flagAt(document: JsonReader, object: ValueIndex, key: string): boolean | undefined {
  const value = memberOf(document, object, key);
  if (value < 0) return undefined;
  const kind = document.kinds[value];
  if (kind === KIND.true || kind === KIND.false) return kind === KIND.true;
  refuse(`"${key}" is ${shownValue(document, value)}; it must be true or false`);
}

/** A member of an object, which may itself be absent. */
function memberOf(document: JsonReader, object: ValueIndex, key: string): ValueIndex {
  return object < 0 ? NONE : document.member(object, Buffer.from(key));
}

/** Runs `work`, and names the input in its errors. */
function named<Value>(input: string, work: () => Value): Value {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof WinnowError)) throw error;
    throw new WinnowError(error.code, `Input "${input}": ${error.message}`);
  }
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
