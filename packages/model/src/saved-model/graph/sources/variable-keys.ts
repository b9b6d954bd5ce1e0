// Which checkpoint key holds which variable. The graph says so itself: the restore call reads tensors
// by key (RestoreV2) and assigns each to the handle of a variable, so the walk follows it. Where a
// variable is not restored that way, it may be what another one begins with: `tf.saved_model.save` of
// Keras 3's layers gives each of their variables a second handle, which alone is restored. The last to
// ask is the object graph stored in the checkpoint, which knows the variable's full name.

import type { ProtobufReader } from "@winnow/core";
import { messageReader } from "../../message.ts";
import { parseSliceName } from "../../bundle/tensor-slice.ts";
import type { StoredTensor } from "../../partitions/stored-table.ts";
import type { VersionFiles } from "../../version-files.ts";
import type { GraphValue } from "../graph-value.ts";
import { GraphWalk } from "../graph-walk.ts";
import type { GraphNode } from "../graph-walk.ts";
import type { GraphDefinition } from "../definition/graph-definition.ts";
import type { MetaGraph } from "../definition/meta-graph.ts";
import type { OperationTable } from "../definition/operation-table.ts";
import { sharedNameOf, visitSource } from "./source-nodes.ts";

const ASSIGNMENTS: ReadonlySet<string> = new Set(["AssignVariableOp", "Assign"]);
const IMPORTS: ReadonlySet<string> = new Set(["LookupTableImportV2", "LookupTableImport"]);
const OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH";

/** A tensor of the checkpoint, or a slice of one: a part of a partitioned variable. */
export type RestoredTensor = StoredTensor & { readonly kind: "bundle" };

/** What the restore call of a graph restores. */
export interface RestoredState {
  /** The tensor of the checkpoint, or the slice of one, by variable name. */
  readonly variables: ReadonlyMap<string, RestoredTensor>;
  /** Checkpoint keys of keys and values, by name of a mutable table. */
  readonly tables: ReadonlyMap<string, { readonly keys: string; readonly values: string }>;
}

/** Follows the restore call. @throws WinnowError INVALID_ARGUMENT, DATA_LOSS for a broken graph */
export function restoredState(meta: MetaGraph, operations: OperationTable): RestoredState {
  const variables = new Map<string, RestoredTensor>();
  const tables = new Map<string, { keys: string; values: string }>();
  const note = (op: string, name: string, [first, second]: readonly GraphValue[]): void => {
    const [restored, values] = [tensorOf(first), tensorOf(second)];
    if (restored === undefined) return;
    if (ASSIGNMENTS.has(op)) variables.set(name, restored);
    else if (IMPORTS.has(op) && values !== undefined) {
      tables.set(name, { keys: restored.key, values: values.key });
    }
  };
  const visit = (node: GraphNode, inputs: readonly GraphValue[]): readonly GraphValue[] => {
    const [target, ...given] = inputs;
    if (node.op === "RestoreV2") return restoredTensors(node, inputs);
    if (target?.resource !== undefined) note(node.op, target.resource.name, given);
    return visitSource(node, inputs) ?? node.outputDtypes.map(unknownValue);
  };
  const restore = meta.restoreNode.replace(/:\d+$/, "");
  if (meta.graph.nodes.has(restore)) {
    new GraphWalk(meta.graph, operations, visit).valuesOf([`^${restore}`], new Map());
  }
  for (const [copy, original] of initialValues(meta.graph)) {
    const restored = variables.get(copy);
    if (restored !== undefined && !variables.has(original)) variables.set(original, restored);
  }
  return { variables, tables };
}

/** Names of variables that begin with the value of another one, each with the other's name. */
function* initialValues({ nodes }: GraphDefinition): Generator<readonly [string, string]> {
  const nodeOf = (reference: string | undefined) => nodes.get(reference?.replace(/:0$/, "") ?? "");
  for (const { op, inputs } of nodes.values()) {
    if (op !== "AssignVariableOp") continue;
    const [copy, value] = inputs.map(nodeOf);
    const original = value?.op === "ReadVariableOp" ? nodeOf(value.inputs[0]) : undefined;
    if (copy?.op !== "VarHandleOp" || original?.op !== "VarHandleOp") continue;
    yield [sharedNameOf(copy), sharedNameOf(original)];
  }
}

function unknownValue(dtype: GraphValue["dtype"]): GraphValue {
  return { dtype, shape: undefined };
}

/** Outputs of RestoreV2: the tensors its names list, in order, or the slices that it names. */
function restoredTensors(node: GraphNode, [, names, slices]: readonly GraphValue[]): GraphValue[] {
  const [keys, parts] = [textsOf(names), textsOf(slices)];
  return node.outputDtypes.map((dtype, index) => {
    const key = keys[index];
    const slice = parseSliceName(parts[index] ?? "");
    const stored = key === undefined ? undefined : ({ kind: "bundle", key, slice } as const);
    return { dtype, shape: undefined, stored };
  });
}

function textsOf(value: GraphValue | undefined): readonly string[] {
  return value?.constant?.dtype === "string" ? value.constant.data.toText() : [];
}

function tensorOf(value: GraphValue | undefined): RestoredTensor | undefined {
  return value?.stored?.kind === "bundle" ? value.stored : undefined;
}

/** Checkpoint keys by full name of the variable; a full name with several keys is left out. */
export function keysByFullName(files: VersionFiles): ReadonlyMap<string, string> {
  const keys = new Map<string, string>();
  const ambiguous = new Set<string>();
  if (files.entryOf(OBJECT_GRAPH_KEY) === undefined) return keys;
  const graph = files.readTensor(OBJECT_GRAPH_KEY);
  if (graph.dtype !== "string" || graph.data.length !== 1) return keys;
  const reader = messageReader(graph.data.at(0), OBJECT_GRAPH_KEY);
  while (reader.next()) {
    if (reader.field !== 1) continue;
    for (const { fullName, key } of attributesOf(reader.message())) {
      if (keys.has(fullName) && keys.get(fullName) !== key) ambiguous.add(fullName);
      keys.set(fullName, key);
    }
  }
  for (const name of ambiguous) keys.delete(name);
  return keys;
}

function* attributesOf(
  object: ProtobufReader,
): Generator<{ readonly fullName: string; readonly key: string }, void, undefined> {
  while (object.next()) {
    if (object.field !== 2) continue;
    const attribute = object.message();
    let fullName = "";
    let key = "";
    while (attribute.next()) {
      if (attribute.field === 2) fullName = attribute.text();
      else if (attribute.field === 3) key = attribute.text();
    }
    if (fullName !== "") yield { fullName, key };
  }
}
