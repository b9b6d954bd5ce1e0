// Branches: tf.cond and tf.switch_case, as exported. If the graph does not tell which branch is taken, both
// are walked: their nodes run under the condition of their branch, on the host, in dense parts, lookups and
// searches alike. So a branch may contain everything that a signature may, and operations of the branch that
// is not taken, which might fail, do not run. Each result is a choice between two values:
//
//   predicate ─┬─▶ nodes of then_branch, where it is true ──┐
//              ├─▶ nodes of else_branch, where it is false ─┤
//              └────────────────────────────────────────────┴─▶ choice ─▶ result

import { WinnowError } from "@winnow/core";
import { Attributes } from "./definition/attributes.ts";
import { constantValue, integerOf } from "./graph-value.ts";
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

const BRANCHES_MAX = 256;

/**
 * Handles Case and StatelessCase (tf.switch_case): one branch for each index, the last one for all others.
 * Each runs where the index is its own; a result is the first branch's, or else that of the others.
 */
export function visitCase(lowering: Lowering, visit: Visit): readonly GraphValue[] {
  const { node, inputs, walk } = visit;
  const [index, ...values] = inputs;
  const names = node.attributes.functionNames("branches");
  const last = names.length - 1;
  if (index === undefined || last < 0) throw unfit(node, "has no index or no branch");
  if (names.length > BRANCHES_MAX) throw unfit(node, `has more than ${BRANCHES_MAX} branches`);
  const known = integerOf(index);
  if (known !== undefined) {
    const taken = known >= 0 && known < last ? known : last;
    return walk.call(names[taken]!, values, `${node.name}/branch${taken}`);
  }
  const isIndex = names.slice(0, -1).map((_, at) => isEqual(lowering, index, { node, at }));
  const isOther = isIndex.reduce<GraphValue | undefined>(
    (any, one) => (any === undefined ? one : either(lowering, node, [any, one])),
    undefined,
  );
  const results = names.map((name, at) => {
    const predicate = at < last ? isIndex[at] : isOther;
    const follow = (): (GraphValue | undefined)[] => [
      ...walk.call(name, values, `${node.name}/branch${at}`),
    ];
    return predicate === undefined
      ? follow()
      : lowering.under({ predicate, isTrue: at < last }, follow);
  });
  return results.reduceRight((others, taken, at) => {
    if (taken.length !== others.length) throw unfit(node, "has branches of unlike results");
    return taken.map((value, result) =>
      choice(lowering, node, [isIndex[at]!, value!, others[result]!]),
    );
  }) as GraphValue[];
}

function isEqual(
  lowering: Lowering,
  index: GraphValue,
  { node, at }: { readonly node: GraphNode; readonly at: number },
): GraphValue {
  const number = constantValue({ dtype: "int32", shape: [], data: Int32Array.of(at) });
  return ofBooleans(lowering, { op: "Equal", name: `${node.name}/is${at}` }, [index, number]);
}

function either(
  lowering: Lowering,
  { name }: GraphNode,
  inputs: readonly [GraphValue, GraphValue],
): GraphValue {
  return ofBooleans(lowering, { op: "LogicalOr", name: `${name}/any` }, inputs);
}

function ofBooleans(
  lowering: Lowering,
  { op, name }: { readonly op: string; readonly name: string },
  inputs: readonly GraphValue[],
): GraphValue {
  const attributes = new Attributes(name, new Map());
  const node = { op, name, attributes, outputDtypes: ["bool"] as const };
  return lowering.operation(node, inputs).outputs[0]!;
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

/** The most exact shape that describes values of both shapes. */
function commonShape(a: Shape, b: Shape): Shape {
  if (a === undefined || a.length !== b?.length) return undefined;
  return a.map((size, axis) => (size === b[axis] ? size : -1));
}

function unfit(node: GraphNode, fault: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `node ${node.name} (${node.op}) ${fault}`);
}
