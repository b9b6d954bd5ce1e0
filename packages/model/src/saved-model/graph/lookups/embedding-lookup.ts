// Gather operations. A gather of rows from a float32 matrix that is a variable (or a constant of
// the graph), by indices that depend on the request, is a lookup in a keyed table: by key if the
// indices come from a vocabulary, by row otherwise. Identifiers gathered by the rows of a top-k
// become part of that search. All other gathers stay operations.

import { elementCount } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { Attributes } from "../definition/attributes.ts";
import type { AttributeValue } from "../definition/attributes.ts";
import { constantValue, integerOf, producerOf } from "../graph-value.ts";
import type { GraphValue, LookupNode, LoweredNode, OperationNode } from "../graph-value.ts";
import { recogniseKeyExpression } from "./key-expression.ts";
import type { KeyExpression } from "./key-expression.ts";
import type { Lowering, Visit } from "../lowered-nodes.ts";
import { gatherIdentifiers } from "../scores/retrieval.ts";
import { withoutAddedAxis } from "../scores/values/rearrangement.ts";
import { gatheredScores } from "../scores/search-prefix.ts";
import { PICKED_VALUES_MAX, firstOfRun } from "../tables/row-slice.ts";
import { storedRowsOf } from "../tables/table-registry.ts";
import type { StoredRows } from "../tables/table-registry.ts";

/** A gather by constant indices is not a lookup if its matrix has at most this many values. */
const CONSTANT_VALUES_MAX = 1 << 20;
const GUARD_STEPS_MAX = 16;

/** The arguments that ResourceGather, Gather and GatherV2 have in common. */
interface Gather {
  /** What is gathered from: the whole content of a variable or constant, or a computed value. */
  readonly source: GraphValue;
  readonly indices: GraphValue;
  readonly axis: number | undefined;
  readonly batchDims: number;
}

/** Handles ResourceGather, Gather and GatherV2. */
export function visitGather(lowering: Lowering, visit: Visit): readonly GraphValue[] | undefined {
  const gather = gatherOf(lowering, visit);
  if (gather === undefined) return undefined;
  const { source, indices, axis } = gather;
  const gathered = gatheredRows(lowering, visit, gather) ?? foundScores(lowering, gather);
  if (gathered !== undefined) return [gathered];
  if (isOrdinal(source, indices, axis)) return [source];
  return visit.node.op === "GatherV2" ? undefined : [asGatherV2(lowering, visit, gather)];
}

/** Handles GatherNd and ResourceGatherNd: of places of one number, a gather of rows. */
export function visitGatherNd(lowering: Lowering, visit: Visit): readonly GraphValue[] | undefined {
  const { node, inputs } = visit;
  const [, indices] = inputs;
  const source = sourceOf(lowering, visit);
  if (source === undefined || indices === undefined) return undefined;
  if (indices.shape?.at(-1) === 1) {
    const rows = withoutLastAxis(lowering, node.name, indices);
    const gather = { ...node, op: "Gather" };
    return visitGather(lowering, { ...visit, node: gather, inputs: [source, rows] });
  }
  if (node.op === "GatherNd") return undefined;
  return lowering.operation({ ...node, op: "GatherNd" }, [source, indices]).outputs;
}

/** Indices before or without their last axis, which has size 1. */
function withoutLastAxis(lowering: Lowering, name: string, indices: GraphValue): GraphValue {
  const before = withoutAddedAxis(indices, indices.shape!.length - 1);
  if (before !== undefined) return before;
  const attributes = new Attributes(
    name,
    new Map<string, AttributeValue>([
      ["squeeze_dims", { kind: "list", value: [{ kind: "int", value: -1 }] }],
    ]),
  );
  const outputDtypes = [indices.dtype];
  const squeeze = { op: "Squeeze", name: `${name}/rows`, attributes, outputDtypes };
  return lowering.operation(squeeze, [indices]).outputs[0]!;
}

/** All rows as they are, the identifiers of a search, or a lookup. */
function gatheredRows(
  lowering: Lowering,
  visit: Visit,
  { source, indices, axis, batchDims }: Gather,
): GraphValue | undefined {
  if (axis !== 0 || batchDims !== 0) return undefined;
  if (takesAllRows(source, indices)) return source;
  const identifiers = gatherIdentifiers(lowering, source, indices);
  if (identifiers !== undefined) return identifiers;
  const rows = storedRowsOf(source);
  if (rows === undefined) return undefined;
  const isSmall = rows.rows * rows.dim <= CONSTANT_VALUES_MAX;
  const isOfItems = firstOfRun(indices) !== undefined || takesMost(rows, indices);
  if ((isSmall || isOfItems) && isStored(indices)) return undefined;
  return lookUp(lowering, visit, { rows, indices });
}

/** Scores of the items that a search found. */
function foundScores(
  lowering: Lowering,
  { source, indices, axis, batchDims }: Gather,
): GraphValue | undefined {
  return axis === 1 && batchDims === 1 ? gatheredScores(lowering, source, indices) : undefined;
}

/** Operations that give numbers of rows of what is stored of each item. */
const NUMBERING: ReadonlySet<string> = new Set(
  "AddV2,Bucketize,Cast,ExpandDims,Less,Reshape,SelectV2,Squeeze,StridedSlice".split(","),
);

/** Whether indices are constants or stored, or follow from such alone: those of items, not of a request. */
function isStored(indices: GraphValue): boolean {
  const values = new Set([indices]);
  for (const { constant, stored, producer } of values) {
    if (constant !== undefined || stored !== undefined) continue;
    const isKnown = producer?.kind === "operation" && NUMBERING.has(producer.op);
    if (!isKnown || values.size > GUARD_STEPS_MAX) return false;
    for (const input of producer.inputs) values.add(input);
  }
  return true;
}

/**
 * Whether a gather takes at least half as many rows as there are, those of all items and not of a few popular ones, of a
 * matrix whose rows may be picked.
 */
function takesMost({ rows, dim }: StoredRows, { shape = [] }: GraphValue): boolean {
  return elementCount(shape) * 2 >= rows && rows * dim <= PICKED_VALUES_MAX;
}

/** Whether a gather takes each row of a variable in order: `embedding(range(items))`. */
function takesAllRows({ stored, shape }: GraphValue, indices: GraphValue): boolean {
  if (stored === undefined || indices.shape?.[0] !== shape?.[0]) return false;
  return firstOfRun(indices) === 0;
}

function gatherOf(lowering: Lowering, visit: Visit): Gather | undefined {
  const { node, inputs } = visit;
  const [, indices, axis] = inputs;
  const source = sourceOf(lowering, visit);
  if (source === undefined || indices === undefined) return undefined;
  const batchDims = node.attributes.int("batch_dims", 0);
  if (node.op === "GatherV2") return { source, indices, axis: integerOf(axis), batchDims };
  return { source, indices, axis: 0, batchDims: node.op === "Gather" ? 0 : batchDims };
}

/** What is gathered from; `undefined` for a variable that is none. */
function sourceOf(lowering: Lowering, { node, inputs }: Visit): GraphValue | undefined {
  const [source] = inputs;
  if (!node.op.startsWith("Resource")) return source;
  if (source?.resource?.kind !== "variable") return undefined;
  const variable = lowering.sources.variable(source.resource.name);
  return variable.widened ?? variable;
}

/**
 * Handles Cast: rows that a graph gathers from a matrix of int8 or uint8 and casts to float32, as a quantised embedding does,
 * are looked up as the float32 values that they are.
 */
export function visitCastOfRows(
  lowering: Lowering,
  visit: Visit,
): readonly GraphValue[] | undefined {
  const [gathered] = visit.inputs;
  const isOfBytes = gathered?.dtype === "int8" || gathered?.dtype === "uint8";
  if (!isOfBytes || visit.node.outputDtypes[0] !== "float32") return undefined;
  const found = gatheredRowsOf(gathered);
  return found && [lookUp(lowering, visit, found)];
}

function gatheredRowsOf(value: GraphValue): WantedRows | undefined {
  const node = producerOf(value, "GatherV2");
  const [source, indices, axis] = node?.inputs ?? [];
  if (source === undefined || indices === undefined || integerOf(axis) !== 0) return undefined;
  const isOfRequest = indices.constant === undefined && !node?.attributes.int("batch_dims", 0);
  const rows = isOfRequest ? storedRowsOf({ ...source, dtype: "float32" }) : undefined;
  return rows && { rows, indices };
}

interface WantedRows {
  readonly rows: StoredRows;
  readonly indices: GraphValue;
}

function lookUp(lowering: Lowering, { node }: Visit, { rows, indices }: WantedRows): GraphValue {
  const expression = recogniseKeyExpression(indices, {
    rows: rows.rows,
    vocabularyOf: (lookup) => {
      const table = lookup.inputs[0]?.resource;
      return table === undefined ? undefined : lowering.sources.tables.get(table.name);
    },
  });
  const table =
    expression === undefined
      ? lowering.registry.keyed(rows, { keys: { kind: "row" }, vocabulary: undefined })
      : fusedTable(lowering, rows, expression);
  const keys = expression?.key ?? asInt64(lowering, node.name, indices);
  const lookup: LookupNode = {
    kind: "lookup",
    name: node.name,
    table,
    rows: indices,
    of: rows,
    inputs: [keys],
    outputs: [],
  };
  const shape = keys.shape === undefined ? undefined : [...keys.shape, rows.dim];
  const value: GraphValue = { dtype: "float32", shape, producer: lookup };
  lookup.outputs = [value];
  lowering.add(lookup);
  return value;
}

function fusedTable(lowering: Lowering, rows: StoredRows, expression: KeyExpression): number {
  const { keyDtype, fixed, vocabulary, lookup } = expression;
  const isRefused = lowering.nodes.some((node) => isGuardOf(node, lookup));
  // A gather in a branch refuses unknown keys only where the branch is taken.
  const isAlwaysRefused = isRefused && lookup.when === lowering.condition;
  if (isAlwaysRefused) lowering.guardedLookups.add(lookup);
  const missing = isRefused ? ({ kind: "refuse" } as const) : expression.missing;
  const keys = { kind: "vocabulary", keyDtype, missing, fixed } as const;
  return lowering.registry.keyed(rows, { keys, vocabulary });
}

/**
 * Whether a node asserts that a lookup found every key: its condition is derived from nothing but a
 * comparison of the lookup's results with the result for a missing key.
 */
export function isGuardOf(node: LoweredNode | undefined, lookup: OperationNode): boolean {
  if (node?.kind !== "operation" || node.op !== "Assert" || node.when !== lookup.when) return false;
  let value = node.inputs[0];
  for (let steps = 0; value !== undefined && steps < GUARD_STEPS_MAX; steps += 1) {
    if (comparesWithMissing(value, lookup)) return true;
    const next = producerOf(value, "Equal", "Size", "Where", "All", "Any", "LogicalNot", "Reshape");
    value = next?.inputs.find(({ constant }) => constant === undefined);
  }
  return false;
}

/** Whether a value is the comparison of a lookup's results with its result for a missing key. */
function comparesWithMissing(value: GraphValue, lookup: OperationNode): boolean {
  const comparison = producerOf(value, "Equal", "NotEqual");
  const missing = lookup.inputs[2]?.constant;
  if (comparison === undefined || missing === undefined) return false;
  const [a, b] = comparison.inputs;
  const other = a?.producer === lookup ? b : a;
  const isOfLookup = a?.producer === lookup || b?.producer === lookup;
  return isOfLookup && isSameScalar(other?.constant, missing);
}

function isSameScalar(a: Tensor | undefined, b: Tensor): boolean {
  return a !== undefined && a.dtype !== "string" && b.dtype !== "string" && a.data[0] === b.data[0];
}

/** Casts row numbers to int64, the type of a lookup's keys. */
function asInt64(lowering: Lowering, name: string, indices: GraphValue): GraphValue {
  if (indices.dtype === "int64") return indices;
  const attributes = new Attributes(
    name,
    new Map<string, AttributeValue>([
      ["SrcT", { kind: "type", value: 3 }],
      ["DstT", { kind: "type", value: 9 }],
    ]),
  );
  const node = { op: "Cast", name: `${name}/rows`, attributes, outputDtypes: ["int64"] as const };
  return lowering.operation(node, [indices]).outputs[0]!;
}

/** Whether a gather takes elements 0, 1, 2, … of each row of a search's own output: no change. */
function isOrdinal(source: GraphValue, indices: GraphValue, axis: number | undefined): boolean {
  const sorted = indices.producer;
  if (sorted?.kind !== "operation" || sorted.op !== "Ordinal" || axis !== 1) return false;
  return sorted.inputs.includes(source);
}

/**
 * A gather from a value that is no table: the same operation, on the content instead of a handle.
 */
function asGatherV2(lowering: Lowering, { node }: Visit, gather: Gather): GraphValue {
  const axis = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(0) });
  const attributes = new Attributes(
    node.name,
    new Map<string, AttributeValue>([["batch_dims", { kind: "int", value: gather.batchDims }]]),
  );
  const plain = { op: "GatherV2", name: node.name, attributes, outputDtypes: node.outputDtypes };
  return lowering.operation(plain, [gather.source, gather.indices, axis]).outputs[0]!;
}
