// Whether a signature computes each value of its outputs from the values at the same place of its inputs alone:
// then it means the same for inputs of any shape.

import type { GraphValue, LoweredNode } from "./graph-value.ts";
import { elementwise } from "./onnx/elementwise.ts";
import type { SignatureGraph } from "./signature-graph.ts";

/** `Select` takes its condition by rows, or one for all, by its rank. */
const BY_RANK: ReadonlySet<string> = new Set(["BiasAdd", "Select"]);

/** Whether all nodes are elementwise, and all that they read beside the inputs are single numbers. */
export function isElementwiseSignature({
  inputs,
  outputs,
  nodes,
}: Pick<SignatureGraph, "inputs" | "outputs" | "nodes">): boolean {
  const placed = new Set<GraphValue>(inputs);
  for (const node of nodes) {
    if (!isOfOneValue(node, placed)) return false;
    for (const output of node.outputs) placed.add(output);
  }
  return nodes.length > 0 && outputs.every((output) => placed.has(output));
}

function isOfOneValue(node: LoweredNode, placed: ReadonlySet<GraphValue>): boolean {
  if (node.kind !== "operation" || node.when !== undefined || node.loop !== undefined) return false;
  if (!Object.hasOwn(elementwise, node.op) || BY_RANK.has(node.op)) return false;
  // What is made of numbers alone has no place, and the shape of a number.
  if (!node.inputs.some((input) => placed.has(input))) return false;
  return node.inputs.every((input) => placed.has(input) || isNumber(input));
}

const isNumber = ({ shape, constant, stored }: GraphValue): boolean =>
  shape?.length === 0 && (constant !== undefined || stored !== undefined);
