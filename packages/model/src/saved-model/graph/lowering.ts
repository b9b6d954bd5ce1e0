// From a graph to the nodes of a program, one signature at a time. The walk visits the flat graph
// in order: constants are folded, nodes that pass their input through disappear, gathers from
// embedding tables become lookups, searches of candidate tables become top-k, and everything else
// stays an operation. No unused node is dropped here: `signature-graph.ts` keeps those that outputs
// need.

import { elementCount } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { ASSIGNMENT_HANDLERS } from "./changed-variables.ts";
import { fold } from "./constant-folding.ts";
import { visitCase, visitConditional } from "./conditional.ts";
import { visitDataset } from "./dataset-nodes.ts";
import { visitCastOfRows, visitGather, visitGatherNd } from "./lookups/embedding-lookup.ts";
import type { Handler, Lowering, Visit } from "./lowered-nodes.ts";
import { constantValue } from "./graph-value.ts";
import type { GraphValue } from "./graph-value.ts";
import { visitLoop } from "./loops/loops.ts";
import { visitCountedFromEnd, visitIdentifierLookup } from "./scores/identifier-lookup.ts";
import { inLaterWords, visitReference } from "./reference-variables.ts";
import { visitSparseProduct, visitSparseSegments } from "./lookups/sparse-features.ts";
import { visitApproximateTopK, visitTopK } from "./scores/retrieval.ts";
import { visitScannSearch } from "./scores/scann-index.ts";
import { visitPrefix } from "./scores/search-prefix.ts";
import { visitNarrow } from "./narrow-values.ts";
import { storedTogether, wholeOf } from "./tables/stored-together.ts";
import { inferShape } from "./shapes/shape-inference.ts";
import type { InferredOutput } from "./shapes/shape-rule.ts";
import { visitSource } from "./sources/source-nodes.ts";
import { LIST_HANDLERS } from "./loops/tensor-lists.ts";

const HANDLERS: ReadonlyMap<string, Handler> = new Map<string, Handler>([
  ["Cast", visitCastOfRows],
  ["ReadVariableOp", readVariable],
  ["LookupTableFindV2", visitIdentifierLookup],
  ["LookupTableSizeV2", tableSize],
  ["ResourceGather", visitGather],
  ["Gather", visitGather],
  ["GatherV2", visitGather],
  ["GatherNd", visitGatherNd],
  ["ResourceGatherNd", visitGatherNd],
  ["ApproxTopK", visitApproximateTopK],
  ["TopKV2", visitTopK],
  [
    "Scann>ScannSearchBatched",
    (lowering, visit) => visitScannSearch(lowering, visit, (plain) => visitWide(lowering, plain)),
  ],
  ["SelectV2", visitCountedFromEnd],
  ["StridedSlice", visitPrefix],
  ["Slice", visitPrefix],
  ["ConcatV2", concatenated],
  ["SparseTensorDenseMatMul", ofSparse(visitSparseProduct)],
  ["SparseSegmentMean", ofSparse(visitSparseSegments)],
  ["SparseSegmentSqrtN", ofSparse(visitSparseSegments)],
  ["SparseSegmentSum", ofSparse(visitSparseSegments)],
  ["Shape", shapeOf],
  ["Size", sizeOf],
  ["Rank", rankOf],
  ["Assert", assertion],
  ["Case", visitCase],
  ["StatelessCase", visitCase],
  ["If", visitConditional],
  ["StatelessIf", visitConditional],
  ["StatelessWhile", visitLoop],
  ["While", visitLoop],
  ...ASSIGNMENT_HANDLERS,
  ...LIST_HANDLERS,
]);

/**
 * Names of the operations that become something else than themselves: lookups, searches, constants, branches, loops.
 * @internal for docs/operations.md
 */
export const loweredOperationNames: readonly string[] = [...HANDLERS.keys()].toSorted();

/** Elements of all folded constants of one signature, at most; results beyond stay operations. */
const FOLDED_ELEMENTS_MAX = 2 ** 24;

/** A handler whose operations are visited as if they stood in the graph. */
function ofSparse(handler: typeof visitSparseProduct): Handler {
  return (lowering, visit) => handler(visit, (plain) => visitWide(lowering, plain));
}

/** Visits one node of the flat graph; see `NodeVisitor`. */
export function visitNode(lowering: Lowering, visit: Visit): readonly GraphValue[] {
  return visitNarrow(inLaterWords(visit), (widened) => visitWide(lowering, widened));
}

function visitWide(lowering: Lowering, visit: Visit): readonly GraphValue[] {
  const { node, inputs } = visit;
  return (
    visitReference(lowering, visit) ??
    visitSource(node, inputs) ??
    HANDLERS.get(node.op)?.(lowering, visit) ??
    visitDataset(lowering, visit) ??
    foldedOutputs(lowering, visit) ??
    lowering.operation(node, inputs).outputs
  );
}

/** Folds operations on constants, and operations whose integers follow from known shapes. */
function foldedOutputs(lowering: Lowering, visit: Visit): readonly GraphValue[] | undefined {
  const { node, inputs } = visit;
  if (node.outputDtypes.length === 0) return undefined;
  return ofConstants(lowering, visit) ?? ofKnownIntegers(visit, inferShape(node, inputs));
}

function ofConstants(
  lowering: Lowering,
  { node, inputs }: Visit,
): readonly GraphValue[] | undefined {
  const outputCount = node.outputDtypes.length;
  const isLookup = node.op === "LookupTableFindV2";
  const values = isLookup ? inputs.slice(1) : inputs;
  const tensors = values.flatMap(({ constant }) => constant ?? []);
  if (tensors.length < values.length || values.length === 0) return undefined;
  const table = isLookup ? inputs[0]?.resource : undefined;
  if (isLookup && table?.kind !== "table") return undefined;
  const vocabulary = table === undefined ? undefined : lowering.sources.tables.get(table.name);
  const results = fold({ ...node, outputCount }, tensors, vocabulary);
  return results?.length === outputCount ? asConstants(lowering, results) : undefined;
}

/** Folded results as constants; `undefined` once `FOLDED_ELEMENTS_MAX` is reached. */
function asConstants(
  lowering: Lowering,
  tensors: readonly Tensor[],
): readonly GraphValue[] | undefined {
  const elements = tensors.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  if (lowering.foldedElements + elements > FOLDED_ELEMENTS_MAX) return undefined;
  lowering.foldedElements += elements;
  return tensors.map((tensor) => constantValue(tensor));
}

function ofKnownIntegers(
  { node }: Visit,
  { shape, known }: InferredOutput,
): readonly GraphValue[] | undefined {
  const [dtype, ...others] = node.outputDtypes;
  if (others.length > 0 || (dtype !== "int32" && dtype !== "int64")) return undefined;
  if (shape === undefined || known === undefined || known.includes(-1)) return undefined;
  return elementCount(shape) === known.length ? [integers(known, shape, dtype)] : undefined;
}

function integers(
  values: readonly number[],
  shape: readonly number[],
  dtype: "int32" | "int64",
): GraphValue {
  const tensor: Tensor =
    dtype === "int32"
      ? { dtype, shape, data: Int32Array.from(values) }
      : { dtype, shape, data: BigInt64Array.from(values, BigInt) };
  return constantValue(tensor);
}

function readVariable(lowering: Lowering, { inputs }: Visit): readonly GraphValue[] | undefined {
  const resource = inputs[0]?.resource;
  if (resource?.kind !== "variable") return undefined;
  const value = lowering.sources.variable(resource.name);
  lowering.readVariables.set(resource.name, value);
  return [value];
}

function tableSize(lowering: Lowering, { inputs }: Visit): readonly GraphValue[] | undefined {
  const resource = inputs[0]?.resource;
  if (resource?.kind !== "table") return undefined;
  const { vocabulary } = lowering.sources.tables.get(resource.name);
  return [integers([vocabulary.keys.data.length], [], "int64")];
}

/** The integer type of the result of a Shape or Size node. */
function integerDtype({ node }: Visit): "int32" | "int64" {
  return node.outputDtypes[0] === "int64" ? "int64" : "int32";
}

function shapeOf(_: Lowering, visit: Visit): readonly GraphValue[] | undefined {
  const shape = visit.inputs[0]?.shape;
  if (shape === undefined || shape.includes(-1)) return undefined;
  return [integers(shape, [shape.length], integerDtype(visit))];
}

function sizeOf(_: Lowering, visit: Visit): readonly GraphValue[] | undefined {
  const shape = visit.inputs[0]?.shape;
  if (shape === undefined || shape.includes(-1)) return undefined;
  const size = shape.reduce((product, length) => product * length, 1);
  return size > 2 ** 31 ? undefined : [integers([size], [], integerDtype(visit))];
}

function rankOf(_: Lowering, visit: Visit): readonly GraphValue[] | undefined {
  const shape = visit.inputs[0]?.shape;
  return shape === undefined ? undefined : [integers([shape.length], [], "int32")];
}

/**
 * Leaves out parts without elements; if one part is left, it is the result. Stored parts one after
 * the other are stored too.
 */
function concatenated(
  { sources }: Lowering,
  { node, inputs }: Visit,
): readonly GraphValue[] | undefined {
  const axis = inputs.at(-1)?.constant === undefined ? undefined : inputs.at(-1)?.known?.[0];
  if (axis === undefined) return undefined;
  const parts = inputs.slice(0, -1);
  const full = parts.filter((part) => part.shape?.at(axis) !== 0);
  const isSingle = full.length === 1 && parts.length > 1 && full[0]?.dtype === node.outputDtypes[0];
  const whole = isSingle
    ? full[0]
    : (storedTogether(full, axis, sources.files) ?? wholeOf(full, axis, sources.files));
  return whole === undefined ? undefined : [whole];
}

/** An assertion whose condition is the constant true disappears. */
function assertion(_: Lowering, { inputs }: Visit): readonly GraphValue[] | undefined {
  const condition = inputs[0]?.constant;
  return condition?.dtype === "bool" && condition.data[0] === 1 ? [] : undefined;
}
