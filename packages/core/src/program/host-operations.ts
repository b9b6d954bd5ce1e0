// The TensorFlow operations that run in TypeScript, and the one function that runs them. An
// operation is a pure function of tensors and attributes. The interpreter in the router uses it,
// and the model reader folds constants with it. Semantics and messages follow TensorFlow's CPU
// kernels.
//
// Attributes have the form of `Attribute` (`program.ts`): a dtype by name ("int64"), a shape as a
// list of sizes, a list of shapes as a list of texts ("3,2"; "" is a scalar), an int64 beyond 2⁵³
// as decimal text.

import { WinnowError } from "../errors/errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { HostCall, HostOperation, HostOperations } from "./host-call.ts";
import { errorAtNode } from "./node-error.ts";
import { arithmeticOperations } from "./operations/arithmetic.ts";
import { assemblyOperations } from "./operations/assembly.ts";
import { assertionOperations } from "./operations/assertion.ts";
import { comparisonOperations } from "./operations/comparison.ts";
import { conversionOperations } from "./operations/conversion.ts";
import { countingOperations } from "./operations/counting.ts";
import { crossingOperations } from "./operations/crossing.ts";
import { exampleOperations } from "./operations/example-parsing.ts";
import { gatheringOperations } from "./operations/gathering.ts";
import { lookupOperations } from "./operations/lookup.ts";
import { matrixOperations } from "./operations/matrices.ts";
import { partitioningOperations } from "./operations/partitioning.ts";
import { raggedOperations } from "./operations/ragged.ts";
import { rearrangementOperations } from "./operations/rearrangement.ts";
import { reductionOperations } from "./operations/reduction.ts";
import { checkRegex, regexOperations } from "./operations/regex.ts";
import { scatteringOperations } from "./operations/scattering.ts";
import { searchingOperations } from "./operations/searching.ts";
import { segmentOperations } from "./operations/segments.ts";
import { selectionOperations } from "./operations/selection.ts";
import { shapeOperations } from "./operations/shape.ts";
import { slicingOperations } from "./operations/slicing.ts";
import { sparseOperations } from "./operations/sparse.ts";
import { textOperations } from "./operations/text.ts";
import { textNumberOperations } from "./operations/text-number.ts";
import { tokenOperations } from "./operations/tokens.ts";
import type { HostStep } from "./program.ts";
import type { VocabularyIndex } from "./vocabulary-index.ts";

const THEMES: readonly HostOperations[] = [
  arithmeticOperations,
  assemblyOperations,
  assertionOperations,
  comparisonOperations,
  conversionOperations,
  countingOperations,
  crossingOperations,
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
