// Which TensorFlow operations run in a dense part, and their translation to ONNX (opset 17).

import { WinnowError } from "@winnow/core";
import { arrangement } from "./arrangement.ts";
import { elementwise } from "./elementwise.ts";
import { linearAlgebra } from "./linear-algebra.ts";
import { reduction } from "./reduction.ts";
import type { OnnxModel } from "./onnx-model.ts";
import type { OperationNode } from "../graph-value.ts";
import { Translation } from "./translation.ts";
import type { Translator } from "./translation.ts";

const TRANSLATORS: ReadonlyMap<string, Translator> = new Map(
  Object.entries({ ...arrangement, ...elementwise, ...linearAlgebra, ...reduction }),
);

/** Whether an operation can be part of an ONNX model. */
export function isDenseOperation(op: string): boolean {
  return TRANSLATORS.has(op);
}

/**
 * Adds an operation to a model; `names` are its inputs there. Gives the names of its outputs, which
 * may be fewer than the operation has. @throws WinnowError UNIMPLEMENTED
 */
export function translate(
  model: OnnxModel,
  operation: OperationNode,
  names: readonly string[],
): readonly string[] {
  const translator = TRANSLATORS.get(operation.op);
  if (translator === undefined) {
    const what = `operation ${operation.op} (node ${operation.name})`;
    throw new WinnowError("UNIMPLEMENTED", `${what} has no translation`);
  }
  const outputs = translator(new Translation(model, operation, names));
  return typeof outputs === "string" ? [outputs] : outputs;
}
