// The part of reading a body that needs nothing of the router but the inputs of the model's signatures. It
// can therefore run on the event loop or in a thread (`body-parser.ts`), with the same result and the same
// messages. The order of the checks is TensorFlow Serving's.

import { readExamples } from "./examples-request.ts";
import type { JsonReader } from "../json/json-reader.ts";
import {
  parseRequestBody,
  readPredictInputs,
  readSignatureName,
  signatureNamed,
} from "./predict-request.ts";
import type { PredictInputs, SignatureInputs } from "./predict-request.ts";
import { checkInstances } from "../../limits/request-limits.ts";
import type { RequestLimits } from "../../limits/request-limits.ts";
import { fieldsOf, readExtensions, readIgnoredKeys } from "./request-extensions.ts";
import type { RequestExtensions } from "./request-extensions.ts";
import { readInference } from "./inference/inference-request.ts";
import type { AskedInference } from "./inference/inference-request.ts";

/** How a body is to be read. */
export type BodyQuestion =
  /** `signatures`: the model's; `undefined` if the model could not be pinned, and then no inputs are read. */
  | { readonly kind: "predict"; readonly signatures: readonly SignatureInputs[] | undefined }
  /** A request of the Open Inference Protocol; `jsonBytes`: where binary data begin, if there are any. */
  | {
      readonly kind: "infer";
      readonly signatures: readonly SignatureInputs[] | undefined;
      readonly jsonBytes: number | undefined;
    }
  | { readonly kind: "examples" };

/** Limits of a body. */
export type BodyLimits = Pick<
  RequestLimits,
  "jsonValuesMax" | "instancesMax" | "kMax" | "excludedIdsMax"
>;

/** The content of a request to predict. */
export interface AskedPrediction extends PredictInputs, RequestExtensions {
  /** Some of the body's keys that have no meaning. */
  readonly ignored: readonly string[];
  /** For the Open Inference Protocol: the form of the answer. */
  readonly inference?: AskedInference | undefined;
}

/** The content of a body. */
export interface BodyContent {
  /** "" if the body names none. */
  readonly signatureName: string;
  readonly asked?: AskedPrediction | undefined;
}

/** Of requests that classify or regress, which have none. */
const NO_EXTENSIONS: RequestExtensions & Pick<AskedPrediction, "ignored"> = {
  k: undefined,
  exclude: undefined,
  include: undefined,
  filter: undefined,
  attributes: undefined,
  vectors: undefined,
  explain: undefined,
  ignored: [],
};

/**
 * Reads a body, whose bytes are given up; `document` holds it until it reads another body.
 * @throws WinnowError INVALID_ARGUMENT, or RESOURCE_EXHAUSTED for more than `jsonValuesMax` values
 */
export function readContent(
  document: JsonReader,
  bytes: Uint8Array,
  about: { readonly question: BodyQuestion; readonly limits: BodyLimits },
): BodyContent {
  const { question, limits } = about;
  if (question.kind === "infer") return readInference(document, bytes, { ...question, limits });
  parseRequestBody(document, bytes);
  const signatureName = readSignatureName(document);
  if (question.kind === "examples") {
    const examples = readExamples(document, limits);
    return { signatureName, asked: { ...examples, ...NO_EXTENSIONS } };
  }
  const { signatures } = question;
  if (signatures === undefined) return { signatureName };
  const inputs = readPredictInputs(document, signatureNamed(signatures, signatureName));
  const { instances } = inputs;
  checkInstances(instances, limits, inputs.inputs);
  const wanted = readExtensions(fieldsOf(document), instances, limits);
  // Field by field: V8 copies a second object into one by looking up each name.
  const asked = {
    format: inputs.format,
    instances,
    inputs: inputs.inputs,
    k: wanted.k,
    exclude: wanted.exclude,
    include: wanted.include,
    filter: wanted.filter,
    attributes: wanted.attributes,
    vectors: wanted.vectors,
    explain: wanted.explain,
    ignored: readIgnoredKeys(document),
  };
  return { signatureName, asked };
}
