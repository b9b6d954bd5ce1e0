// What a body says: all of its reading that needs nothing of the router but the inputs of the model's
// signatures. So it can be done here or in a thread (`body-parser.ts`), with the same outcome and in
// the same words. The order of the checks is TensorFlow Serving's.

import { checkExamples } from "./examples-request.ts";
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
  /** `signatures`: the model's, or `undefined` where it could not be pinned: no inputs are read then. */
  | { readonly kind: "predict"; readonly signatures: readonly SignatureInputs[] | undefined }
  /** By the Open Inference Protocol; `jsonBytes`: where binary data begin, if any are sent. */
  | {
      readonly kind: "infer";
      readonly signatures: readonly SignatureInputs[] | undefined;
      readonly jsonBytes: number | undefined;
    }
  | { readonly kind: "examples" };

/** How much a body may ask for. */
export type BodyLimits = Pick<
  RequestLimits,
  "jsonValuesMax" | "instancesMax" | "kMax" | "excludedIdsMax"
>;

/** The content of a request to predict. */
export interface AskedPrediction extends PredictInputs, RequestExtensions {
  /** Some of the body's keys that mean nothing. */
  readonly ignored: readonly string[];
  /** How the answer is to be, of a request by the Open Inference Protocol. */
  readonly inference?: AskedInference | undefined;
}

/** What a body says. */
export interface BodyContent {
  /** "" if it names none. */
  readonly signatureName: string;
  readonly asked?: AskedPrediction | undefined;
}

/**
 * Reads a body, which the caller gives up; `document` holds it until it reads another.
 * @throws WinnowError INVALID_ARGUMENT, or RESOURCE_EXHAUSTED over `jsonValuesMax` values
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
    checkExamples(document);
    return { signatureName };
  }
  const { signatures } = question;
  if (signatures === undefined) return { signatureName };
  const inputs = readPredictInputs(document, signatureNamed(signatures, signatureName));
  const { instances } = inputs;
  checkInstances(instances, limits);
  const wanted = readExtensions(fieldsOf(document), instances, limits);
  const ignored = readIgnoredKeys(document);
  return { signatureName, asked: { ...inputs, ...wanted, ignored } };
}
