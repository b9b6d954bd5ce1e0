// Which TensorFlow operations run in TypeScript, and the one door to them. An operation is a pure
// function of tensors and attributes; it is used by the interpreter in the router and, while a graph
// is read, to fold constants. Semantics and messages follow TensorFlow's CPU kernels.

import { WinnowError } from "../errors.ts";
import type { Tensor } from "../tensor.ts";
import type { HostStep } from "./program.ts";
import type { VocabularyIndex } from "./vocabulary-index.ts";

/** Whether `runHostStep` knows this TensorFlow operation. */
export function isHostOperation(op: string): boolean {
  return op === "Identity";
}

/**
 * Refuses, when a graph is read, what would fail on every request: an unknown operation, a regular
 * expression that cannot be translated, an unsupported attribute.
 * @throws WinnowError UNIMPLEMENTED, INVALID_ARGUMENT
 */
export function validateHostStep(step: HostStep): void {
  if (!isHostOperation(step.op)) {
    throw new WinnowError("UNIMPLEMENTED", `Operation ${step.op} of node ${step.node}`);
  }
}

/**
 * Runs one operation. Lookup operations take `[keys, default]` (the table handle is replaced by
 * `step.vocabulary`). @throws WinnowError in TensorFlow's words, with the node's name
 */
export function runHostStep(
  step: HostStep,
  inputs: readonly Tensor[],
  vocabularies: readonly VocabularyIndex[],
): Tensor[] {
  void vocabularies;
  validateHostStep(step);
  return [...inputs];
}
