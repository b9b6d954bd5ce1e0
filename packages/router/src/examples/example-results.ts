// What Classify and Regress take from a signature's outputs, checked as TensorFlow Serving checks it
// (servables/tensorflow/classifier.cc, PostProcessClassificationResult; regressor.cc, PostProcessRegressionResult).

import { WinnowError, requireEqualRows } from "@winnow/core";
import type { StringColumn, Tensor } from "@winnow/core";
import { DTYPE_NAMES } from "../dtype-names.ts";
import { CLASSIFICATION_OUTPUTS, REGRESSION_OUTPUT } from "./example-signature.ts";

type Outputs = ReadonlyMap<string, Tensor>;

/** The classes of all instances, one instance after the other; what is missing is "" or 0 for each. */
export interface Classifications {
  readonly instances: number;
  /** Classes of each instance. */
  readonly classes: number;
  /** `instances` × `classes` of them. */
  readonly labels: StringColumn | undefined;
  /** `instances` × `classes` of them. */
  readonly scores: Float32Array | undefined;
}

/** The classes in the outputs of a signature. @throws WinnowError INVALID_ARGUMENT for another shape or dtype */
export function classificationsOf(outputs: Outputs, instances: number): Classifications {
  const labels = matrixOf(outputs, "labels", instances);
  const scores = matrixOf(outputs, "scores", instances);
  const [ofLabels, ofScores] = [labels?.shape[1], scores?.shape[1]];
  if (ofLabels !== undefined && ofScores !== undefined && ofLabels !== ofScores) {
    const text = "Tensors class and score should match in dim_size(1)";
    throw invalid(`${text}. Got ${ofLabels} vs. ${ofScores}`);
  }
  return {
    instances,
    classes: ofLabels ?? ofScores ?? 0,
    labels: labels?.dtype === "string" ? labels.data : undefined,
    scores: scores?.dtype === "float32" ? scores.data : undefined,
  };
}

function matrixOf(
  outputs: Outputs,
  kind: keyof typeof CLASSIFICATION_OUTPUTS,
  instances: number,
): Tensor | undefined {
  const name = CLASSIFICATION_OUTPUTS[kind];
  const found = outputs.get(name);
  if (found === undefined) return undefined;
  const { dtype, shape } = found;
  if (shape.length !== 2) {
    const text = "Expected Tensor shape: [batch_size num_classes] but got";
    throw invalid(`${text} ${shapeText(shape)}`);
  }
  const wanted = kind === "labels" ? "string" : "float32";
  if (dtype !== wanted) {
    const text = `Expected ${name} Tensor of ${DTYPE_NAMES[wanted]}`;
    throw invalid(`${text}. Got: ${DTYPE_NAMES[dtype]}`);
  }
  if (shape[0] !== instances) {
    throw invalid(`Expected ${name} output batch size of ${instances}. Got: ${shape[0]}`);
  }
  requireEqualRows(found, "a classification has as many classes for each instance");
  return found;
}

/** The value of each instance. @throws WinnowError INVALID_ARGUMENT for another shape or dtype */
export function regressionsOf(outputs: Outputs, instances: number): Float32Array {
  const found = outputs.get(REGRESSION_OUTPUT);
  if (found === undefined) throw new RangeError(`prediction without output "${REGRESSION_OUTPUT}"`);
  const { shape } = found;
  if (shape.length !== 1 && !(shape.length === 2 && shape[1] === 1)) {
    const text =
      "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got";
    throw invalid(`${text} ${shapeText(shape)}`);
  }
  if (shape[0] !== instances) {
    const text = "Input batch size did not match output batch size";
    throw invalid(`${text}: ${instances} vs. ${shape[0]}`);
  }
  if (found.dtype !== "float32") {
    throw invalid(`Expected output Tensor of DT_FLOAT.  Got: ${DTYPE_NAMES[found.dtype]}`);
  }
  return found.data;
}

const shapeText = (shape: readonly number[]): string => `[${shape.join(",")}]`;

function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}
