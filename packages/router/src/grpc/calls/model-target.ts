// What a ModelSpec means, checked in TensorFlow Serving's order and with its messages: a request without a
// model is refused before anything is looked up.

import { WinnowError, excerpt } from "@winnow/core";
import type { ModelProgram, SignatureProgram } from "@winnow/core";
import type { ModelTarget } from "../../predictor.ts";
import type { ModelSpec } from "./request-messages.ts";

const DEFAULT_SIGNATURE = "serving_default";
const METHOD_NAMES = ["predict", "classify", "regress"].map((name) => `tensorflow/serving/${name}`);

/** The spec, which a request must have. @throws WinnowError INVALID_ARGUMENT */
export function requiredSpec(spec: ModelSpec | undefined): ModelSpec {
  if (spec === undefined) throw new WinnowError("INVALID_ARGUMENT", "Missing ModelSpec");
  return spec;
}

/** The model, version or label to pin. @throws WinnowError INVALID_ARGUMENT without a name, NOT_FOUND beyond 2⁵³ */
export function targetOf({ name, version, label }: ModelSpec): ModelTarget {
  if (name === "") {
    throw new WinnowError("INVALID_ARGUMENT", "ModelSpec has no name specified.");
  }
  if (version === undefined) return { model: name, label };
  if (!Number.isSafeInteger(Number(version))) {
    const wanted = `Specific(${excerpt(name)}, ${version})`;
    throw new WinnowError("NOT_FOUND", `Servable not found for request: ${wanted}`);
  }
  return { model: name, version: Number(version) };
}

/**
 * The signature a request names, `serving_default` if it names none.
 * @throws WinnowError FAILED_PRECONDITION for an unknown one; INTERNAL, TensorFlow Serving's code, for
 * one that is no prediction, such as the initialiser
 */
export function predictSignature(program: ModelProgram, name: string): SignatureProgram {
  const wanted = name === "" ? DEFAULT_SIGNATURE : name;
  const signature = program.signatures.find((candidate) => candidate.name === wanted);
  if (signature === undefined) {
    const message = `Serving signature key "${wanted}" not found.`;
    throw new WinnowError("FAILED_PRECONDITION", message);
  }
  if (!METHOD_NAMES.includes(signature.methodName)) {
    const message =
      "Expected prediction signature method_name to be one of " +
      `{${METHOD_NAMES.join(", ")}}. Was: ${signature.methodName}`;
    throw new WinnowError("INTERNAL", message);
  }
  return signature;
}
