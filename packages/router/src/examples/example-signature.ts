// Which signatures answer requests of tf.Examples: TensorFlow Serving's Classify and Regress, checked as there
// (servables/tensorflow/classifier.cc, PreProcessClassification; regressor.cc, PreProcessRegression). The name of the
// method that a signature states does not matter, as there unless a flag says so: TensorFlow 2 states "predict" for all.

import { EXAMPLES_INPUT, WinnowError, excerpt } from "@winnow/core";
import type { ModelProgram, SignatureProgram } from "@winnow/core";

/** What may be asked with tf.Examples. */
export type ExampleMethod = "classify" | "regress";

/** The output of a regression: float32 of shape [instances] or [instances, 1]. */
export const REGRESSION_OUTPUT = "outputs";
/** The outputs of a classification, of which one may be missing: string and float32, of shape [instances, classes]. */
export const CLASSIFICATION_OUTPUTS = { labels: "classes", scores: "scores" } as const;

/** The signature of a request that names none. */
export const DEFAULT_SIGNATURE = "serving_default";
const NOUNS = { classify: "classification", regress: "regression" } as const;

/**
 * The signature with this name, `serving_default` for "", which the method can run.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function exampleSignature(
  program: ModelProgram,
  method: ExampleMethod,
  name: string,
): SignatureProgram {
  const wanted = name === "" ? DEFAULT_SIGNATURE : name;
  const signature = program.signatures.find((candidate) => candidate.name === wanted);
  if (signature === undefined) {
    throw invalid(`No signature was found with the name: ${excerpt(wanted)}`);
  }
  if (signature.inputs.length !== 1) throw invalid("Expected one input Tensor.");
  const outputs = namesOf(signature.outputs);
  checkOutputCount(method, outputs.length);
  const [input] = signature.inputs;
  if (input!.name !== EXAMPLES_INPUT) {
    const text = `No ${NOUNS[method]} inputs found in SignatureDef`;
    throw invalid(`${text}: its input is "${excerpt(input!.name)}", not "${EXAMPLES_INPUT}"`);
  }
  checkOutputNames(method, outputs);
  if (input!.dtype !== "string") {
    const text = `Input "${EXAMPLES_INPUT}" of signature "${excerpt(wanted)}" takes ${input!.dtype}`;
    throw invalid(`${text}, not serialized tf.Examples; ask with :predict`);
  }
  return signature;
}

function checkOutputCount(method: ExampleMethod, count: number): void {
  if (method === "regress" && count !== 1) throw invalid("Expected one output Tensor.");
  if (method === "classify" && count !== 1 && count !== 2) {
    throw invalid(`Expected one or two output Tensors, found ${count}`);
  }
}

function checkOutputNames(method: ExampleMethod, outputs: readonly string[]): void {
  const has = excerpt(outputs.map((name) => `"${name}"`).join(", "));
  if (method === "regress") {
    if (outputs.includes(REGRESSION_OUTPUT)) return;
    const text = `No regression outputs found in SignatureDef: its output is ${has}`;
    throw invalid(`${text}, not "${REGRESSION_OUTPUT}"`);
  }
  const { labels, scores } = CLASSIFICATION_OUTPUTS;
  if (outputs.includes(labels) || outputs.includes(scores)) return;
  const text = "Expected classification signature outputs to contain at least one of";
  throw invalid(`${text} "${labels}" or "${scores}". It has ${has}`);
}

function namesOf(parts: readonly { readonly name: string }[]): readonly string[] {
  return parts.map(({ name }) => name);
}

function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}
