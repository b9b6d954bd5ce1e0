// Requests may have no rows. Some operations of ONNX Runtime end the process (a division by zero)
// where an operand has no values, so they are asked for only where it has some:
//
//   has values? ─┬─ yes ─▶ the operation
//                └─ no ──▶ zeros of the shape that the result has, mostly none at all

import type { Dtype } from "@winnow/core";
import { ONNX_TYPES } from "./onnx-message.ts";
import type { OnnxModel } from "./onnx-model.ts";
import type { Translation } from "./translation.ts";

/** What an operation gives, and what it would give without values. */
export interface Guarded {
  /** Names of the operands. */
  readonly operands: readonly string[];
  readonly outputs: readonly Dtype[];
  /** Adds the operation to a model, and names its outputs. */
  readonly compute: (model: OnnxModel) => readonly string[];
  /** Adds the shape of all outputs to a model, as an int64 vector. */
  readonly shape: (model: OnnxModel) => string;
}

/** Names of the outputs. */
export function unlessEmpty(t: Translation, guarded: Guarded): string[] {
  const { operands, outputs, compute, shape } = guarded;
  const counts = operands.map((name) => t.node("Size", [name]));
  const count = counts.reduce((all, next) => t.node("Mul", [all, next]));
  const isEmpty = t.node("Equal", [count, t.model.integers(0)]);
  const zeros = t.model.inner();
  const sizes = shape(zeros);
  for (const dtype of outputs) {
    const zero = zeros.node("ConstantOfShape", [sizes]);
    zeros.output(zeros.node("Cast", [zero], { to: ONNX_TYPES[dtype] }), dtype);
  }
  const computed = t.model.inner();
  for (const [at, name] of compute(computed).entries()) computed.output(name, outputs[at]!);
  const attributes = { then_branch: zeros.graph(), else_branch: computed.graph() };
  return t.model.nodes("If", [isEmpty], { attributes, outputCount: outputs.length });
}

/** Whether the graph does not say that an operand has values. */
export function mayBeEmpty(t: Translation, position: number): boolean {
  return t.value(position).shape?.every((size) => size > 0) !== true;
}
