// Variables that a request would change: those of stateful layers, counters. Winnow keeps no state
// between requests, and each of its routers answers by itself. A change that no answer depends on is
// left out; an answer that depends on such a variable is refused, because the second one would be wrong.

import { WinnowError, excerpt } from "@winnow/core";
import type { GraphValue, LoweredNode } from "./graph-value.ts";
import type { Handler, Lowering } from "./lowered-nodes.ts";

const assign: Handler = (lowering, { node, inputs }) => {
  const resource = inputs[0]?.resource;
  if (resource?.kind !== "variable") return undefined;
  lowering.changedVariables.set(resource.name, node.name);
  return [];
};

/** Handlers of assignments. */
export const ASSIGNMENT_HANDLERS: readonly (readonly [string, Handler])[] = [
  ["AssignAddVariableOp", assign],
  ["AssignSubVariableOp", assign],
  ["AssignVariableOp", assign],
];

/** Refuses nodes and outputs that read what the signature changes. @throws WinnowError UNIMPLEMENTED */
export function refuseChangedVariables(
  { changedVariables, readVariables }: Lowering,
  nodes: readonly LoweredNode[],
  outputs: readonly GraphValue[],
): void {
  if (changedVariables.size === 0) return;
  const needed = new Set([...outputs, ...nodes.flatMap(({ inputs }) => inputs)]);
  for (const [variable, node] of changedVariables) {
    const value = readVariables.get(variable);
    if (value === undefined || !needed.has(value)) continue;
    const what = `node ${node} changes the variable ${excerpt(variable)}, which answers depend on`;
    const advice = "no state is kept between requests; export the model without stateful layers";
    throw new WinnowError("UNIMPLEMENTED", `${what}: ${advice}`);
  }
}
