// Nodes that every walk treats alike: constants, handles of variables and tables, and nodes that
// pass their input through. A reference variable of TensorFlow 1 is a handle too: what reads it
// directly, without a ReadVariableOp between, is lowering's to know (`reference-variables.ts`).

import { graphDtypeOf } from "../definition/graph-dtype.ts";
import { constantValue, narrowValue } from "../graph-value.ts";
import type { GraphValue, Resource } from "../graph-value.ts";
import type { GraphNode } from "../graph-walk.ts";

const ALIASES: ReadonlySet<string> = new Set([
  "Identity",
  "IdentityN",
  "StopGradient",
  "PreventGradient",
  "Snapshot",
  "PlaceholderWithDefault",
  "EnsureShape",
  "RefIdentity",
]);

const TABLES: ReadonlySet<string> = new Set([
  "HashTable",
  "HashTableV2",
  "MutableHashTable",
  "MutableHashTableV2",
  "AnonymousHashTable",
]);

const VARIABLES: ReadonlySet<string> = new Set(["VarHandleOp", "VariableV2", "Variable"]);

/** The outputs of a constant, handle or pass-through node; `undefined` for any other. */
export function visitSource(
  node: GraphNode,
  inputs: readonly GraphValue[],
): readonly GraphValue[] | undefined {
  if (node.op === "Const") return [constantOf(node)];
  if (ALIASES.has(node.op)) return inputs;
  if (node.op === "NoOp" || node.op === "ControlTrigger") return [];
  if (VARIABLES.has(node.op)) {
    return [handleOf({ kind: "variable", name: sharedNameOf(node) })];
  }
  if (TABLES.has(node.op)) return [tableHandleOf(node)];
  return undefined;
}

function constantOf(node: GraphNode): GraphValue {
  const { tensor, narrow } = node.attributes.tensor("value");
  const value = constantValue(tensor, { kind: "constant", name: node.name, tensor });
  return narrow === undefined ? value : narrowValue(narrow, value);
}

function tableHandleOf(node: GraphNode): GraphValue {
  const keyDtype = graphDtypeOf(node.attributes.type("key_dtype"));
  const valueDtype = graphDtypeOf(node.attributes.type("value_dtype"));
  return handleOf({ kind: "table", name: sharedNameOf(node), keyDtype, valueDtype });
}

/** The name of a handle's resource. Handles with one shared name are one resource, as in a TensorFlow session. */
export function sharedNameOf(node: Pick<GraphNode, "name" | "attributes">): string {
  return node.attributes.text("shared_name") || node.name;
}

function handleOf(resource: Resource): GraphValue {
  return { dtype: "resource", shape: [], resource };
}
