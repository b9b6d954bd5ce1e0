// The TensorFlow operations that run in TypeScript, and the one function that runs them. An
// operation is a pure function of tensors and attributes. The interpreter in the router uses it,
// and the model reader folds constants with it. Semantics and messages follow TensorFlow's CPU
// kernels.
//
// Attributes have the form of `Attribute` (`program.ts`): a dtype by name ("int64"), a shape as a
// list of sizes, a list of shapes as a list of texts ("3,2"; "" is a scalar), an int64 beyond 2⁵³
// as decimal text.

import { WinnowError } from "../../errors/errors.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { HostCall, HostOperation, HostOperations } from "./host-call.ts";
import { errorAtNode } from "../node-error.ts";
import { arithmeticOperations } from "./numbers/arithmetic.ts";
import { assemblyOperations } from "./arrays/assembly.ts";
import { assertionOperations } from "./assertion.ts";
import { comparisonOperations } from "./numbers/comparison.ts";
import { conversionOperations } from "./numbers/conversion.ts";
import { countingOperations } from "./numbers/counting.ts";
import { crossingOperations } from "./strings/crossing.ts";
import { csvOperations } from "./strings/csv.ts";
import { encodingOperations } from "./strings/encodings.ts";
import { exampleOperations } from "./examples/example-parsing.ts";
import { gatheringOperations } from "./arrays/gathering.ts";
import { lookupOperations } from "./strings/lookup.ts";
import { matrixOperations } from "./arrays/matrices.ts";
import { partitioningOperations } from "./arrays/partitioning.ts";
import { raggedOperations } from "./ragged/ragged.ts";
import { rearrangementOperations } from "./arrays/rearrangement.ts";
import { reductionOperations } from "./numbers/reduction.ts";
import { checkRegex, regexOperations } from "./strings/regex.ts";
import { scatteringOperations } from "./arrays/scattering.ts";
import { searchingOperations } from "./numbers/searching.ts";
import { segmentOperations } from "./numbers/segments.ts";
import { selectionOperations } from "./arrays/selection.ts";
import { shapeOperations } from "./arrays/shape.ts";
import { slicingOperations } from "./arrays/slicing.ts";
import { sparseOperations } from "./ragged/sparse.ts";
import { tensorTextOperations } from "./strings/tensor-text.ts";
import { textOperations } from "./strings/text.ts";
import { textNumberOperations } from "./strings/text-number.ts";
import { tokenOperations } from "./strings/tokens.ts";
import type { HostStep } from "../program.ts";
import type { VocabularyIndex } from "../vocabulary-index.ts";

const THEMES: readonly HostOperations[] = [
  arithmeticOperations,
  assemblyOperations,
  assertionOperations,
  comparisonOperations,
  conversionOperations,
  countingOperations,
  crossingOperations,
  csvOperations,
  encodingOperations,
  exampleOperations,
  gatheringOperations,
  lookupOperations,
  matrixOperations,
  partitioningOperations,
  raggedOperations,
  rearrangementOperations,
  reductionOperations,
  regexOperations,
  scatteringOperations,
  searchingOperations,
  segmentOperations,
  selectionOperations,
  shapeOperations,
  slicingOperations,
  sparseOperations,
  tensorTextOperations,
  textOperations,
  textNumberOperations,
  tokenOperations,
];
const OPERATIONS: ReadonlyMap<string, HostOperation> = new Map(
  THEMES.flatMap(Object.entries<HostOperation>),
);

/** Names of all host operations. */
export const hostOperationNames: readonly string[] = [...OPERATIONS.keys()].toSorted();

/** Whether `runHostStep` knows this TensorFlow operation. */
export function isHostOperation(op: string): boolean {
  return OPERATIONS.has(op);
}

/**
 * Refuses, when a graph is read, a step that would fail on every request: an unknown operation, a
 * constant regular expression that cannot be translated.
 * @throws WinnowError UNIMPLEMENTED, INVALID_ARGUMENT
 */
export function validateHostStep(step: HostStep): void {
  operationOf(step);
  if (!step.op.startsWith("StaticRegex")) return;
  const { pattern, rewrite } = step.attributes;
  try {
    checkRegex(String(pattern ?? ""), String(rewrite ?? ""));
  } catch (error) {
    throw errorAtNode(error, step.node);
  }
}

/**
 * Runs one operation. Lookup operations take `[keys, default]` (`[]` for the size): the table
 * handle is replaced by `step.vocabulary`, a position in `vocabularies`.
 * @throws WinnowError with TensorFlow's message and the node's name
 */
export function runHostStep(
  step: HostStep,
  inputs: readonly Tensor[],
  vocabularies: readonly VocabularyIndex[],
): Tensor[] {
  const operation = operationOf(step);
  const call: HostCall = {
    op: step.op,
    node: step.node,
    inputs,
    attributes: step.attributes,
    outputs: step.outputs.length,
    vocabulary: step.vocabulary === undefined ? undefined : vocabularies[step.vocabulary],
  };
  try {
    const outputs = [...operation(call)];
    if (outputs.length >= step.outputs.length) return outputs;
  } catch (error) {
    throw errorAtNode(error, step.node);
  }
  const wanted = `${step.outputs.length} outputs of ${step.op} (node ${step.node})`;
  throw new WinnowError("UNIMPLEMENTED", `The graph uses ${wanted}`);
}

function operationOf(step: HostStep): HostOperation {
  const operation = OPERATIONS.get(step.op);
  if (operation !== undefined) return operation;
  throw new WinnowError("UNIMPLEMENTED", `Operation ${step.op} (node ${step.node})`);
}
