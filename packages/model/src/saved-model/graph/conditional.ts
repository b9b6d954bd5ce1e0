// Branches: tf.cond, as it is exported. Where the graph does not tell which branch is taken, both are
// walked: their nodes run under the condition of their branch, on the host, in dense parts and in
// lookups and searches alike, so that a branch may contain whatever a signature may, and what would
// fail in the branch that is not taken does not run. Each result is a choice between two values:
//
//   predicate ─┬─▶ nodes of then_branch, where it is true ──┐
//              ├─▶ nodes of else_branch, where it is false ─┤
//              └────────────────────────────────────────────┴─▶ choice ─▶ result

import { WinnowError } from "@winnow/core";
import type { ChoiceNode, GraphValue, Shape } from "./graph-value.ts";
import type { GraphNode } from "./graph-walk.ts";
import type { Lowering, Visit } from "./lowered-nodes.ts";

/** Handles If and StatelessIf. */
export function visitConditional(lowering: Lowering, visit: Visit): readonly GraphValue[] {
  const { node, inputs, walk } = visit;
  const [predicate, ...values] = inputs;
  if (predicate === undefined) throw unfit(node, "has no predicate");
  const [taken = [], other = []] = ["then_branch", "else_branch"].map((branch) => {
    const name = node.attributes.functionName(branch) ?? "";
    const isTrue = branch === "then_branch";
    return lowering.under({ predicate, isTrue }, () =>
      walk.call(name, values, `${node.name}/${branch}`),
    );
  });
  if (taken.length !== other.length) {
    throw unfit(node, `has branches with ${taken.length} and ${other.length} results`);
  }
  return taken.map((value, at) => choice(lowering, node, [predicate, value, other[at]!]));
}

function choice(
  lowering: Lowering,
  node: GraphNode,
  inputs: readonly [GraphValue, GraphValue, GraphValue],
): GraphValue {
  const [, yes, no] = inputs;
  if (yes === no) return yes;
  if (yes.dtype !== no.dtype) throw unfit(node, `gives ${yes.dtype} or ${no.dtype} values`);
  const { dtype } = yes;
  if (dtype === "resource" || dtype === "variant" || dtype === "invalid") {
    const what = `operation ${node.op} (node ${node.name}) chooses between two ${dtype} values`;
    throw new WinnowError("UNIMPLEMENTED", `${what}; branches can give tensors`);
  }
  const chosen: ChoiceNode = { kind: "choice", name: node.name, inputs, outputs: [] };
  const value: GraphValue = { dtype, shape: commonShape(yes.shape, no.shape), producer: chosen };
  chosen.outputs = [value];
  lowering.add(chosen);
  return value;
}

/** What holds for both shapes. */
function commonShape(a: Shape, b: Shape): Shape {
  if (a === undefined || a.length !== b?.length) return undefined;
  return a.map((size, axis) => (size === b[axis] ? size : -1));
}

function unfit(node: GraphNode, fault: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `node ${node.name} (${node.op}) ${fault}`);
}
