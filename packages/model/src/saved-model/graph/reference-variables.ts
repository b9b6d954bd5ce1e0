// What TensorFlow 1 spells otherwise. A reference variable (VariableV2) is its own value: an Identity, a
// product or a gather reads it without a ReadVariableOp. Hash tables of that time have operations
// without "V2", which take and give the same.

import type { GraphValue } from "./graph-value.ts";
import type { Lowering, Visit } from "./lowered-nodes.ts";

const REFERENCES: ReadonlySet<string> = new Set(["VariableV2", "Variable"]);

const LATER_NAMES: ReadonlyMap<string, string> = new Map([
  ["LookupTableFind", "LookupTableFindV2"],
  ["LookupTableSize", "LookupTableSizeV2"],
]);

/** The visit with the operation's name since TensorFlow 2. */
export function inLaterWords(visit: Visit): Visit {
  const op = LATER_NAMES.get(visit.node.op);
  return op === undefined ? visit : { ...visit, node: { ...visit.node, op } };
}

/** The content of a reference variable; `undefined` for any other node. */
export function visitReference(
  lowering: Lowering,
  { node }: Visit,
): readonly GraphValue[] | undefined {
  if (!REFERENCES.has(node.op)) return undefined;
  return [lowering.sources.variable(node.attributes.text("shared_name") || node.name)];
}
