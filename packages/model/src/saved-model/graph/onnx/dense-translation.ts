// Which TensorFlow operations run in a dense part, and their translation to ONNX (opset 17).

import { WinnowError } from "@winnow/core";
import { unsupported } from "../missing-operations.ts";
import { ROUNDING } from "../narrow-values.ts";
import { arrangement } from "./arrangement.ts";
import { blocks } from "./blocks.ts";
import { convolution } from "./convolution.ts";
import { einsum } from "./einsum.ts";
import { elementwise } from "./elementwise.ts";
import { linearAlgebra } from "./linear-algebra.ts";
import { loopTranslators } from "./loop.ts";
import { matrices } from "./matrices.ts";
import { reduction } from "./reduction.ts";
import { reversal } from "./reversal.ts";
import { OnnxModel } from "./onnx-model.ts";
import type { OperationNode } from "../graph-value.ts";
import { Translation } from "./translation.ts";
import type { Translator } from "./translation.ts";

const TRANSLATORS: ReadonlyMap<string, Translator> = new Map(
  Object.entries({
    ...arrangement,
    ...blocks,
    ...convolution,
    ...einsum,
    ...elementwise,
    ...linearAlgebra,
    ...loopTranslators(translate),
    ...matrices,
    ...reduction,
    ...reversal,
  }),
);

/**
 * Names of all operations of TensorFlow that can be part of an ONNX model, as most models use them.
 * @internal for docs/operations.md
 */
export const denseOperationNames: readonly string[] = [...TRANSLATORS.keys()]
  .filter((name) => name !== ROUNDING)
  .toSorted();

/**
 * Why an operation cannot be part of an ONNX model as it is used, or `undefined` if it can: its
 * translation is tried on an empty model.
 */
export function refusalOfTranslation(operation: OperationNode): WinnowError | undefined {
  const names = operation.inputs.map((_, index) => `input_${index}`);
  try {
    translate(new OnnxModel(), operation, names);
    return undefined;
  } catch (error) {
    if (error instanceof WinnowError) return error;
    throw error;
  }
}

/**
 * Adds an operation to a model; `names` are its inputs there. Returns the names of its outputs,
 * which may be fewer than the operation has. @throws WinnowError UNIMPLEMENTED
 */
export function translate(
  model: OnnxModel,
  operation: OperationNode,
  names: readonly string[],
): readonly string[] {
  const translator = TRANSLATORS.get(operation.op);
  if (translator === undefined) throw unsupported(operation);
  const outputs = translator(new Translation(model, operation, names));
  return typeof outputs === "string" ? [outputs] : outputs;
}
