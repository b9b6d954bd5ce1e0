// Half and bfloat16 values of a graph. Tables and weights are stored in them to be small, and cast to
// float32 before anything is computed. Every such value is a float32, so it is read as one: a cast to
// float32 changes nothing, and what only picks or rearranges values (a gather, a transposition) does
// the same with float32. Arithmetic in half would have to round as TensorFlow does, and is refused
// where an answer needs it.

import { WinnowError } from "@winnow/core";
import { isNarrowFloat } from "../bundle/data-type.ts";
import { narrowValue } from "./graph-value.ts";
import type { GraphValue, OperationNode } from "./graph-value.ts";
import type { GraphNode } from "./graph-walk.ts";
import type { Visit } from "./lowered-nodes.ts";

/** Operations whose results are values of their inputs, unchanged, or tell of shapes alone. */
const PICKING: ReadonlySet<string> = new Set([
  ..."BroadcastTo,ConcatV2,ExpandDims,Gather,GatherNd,GatherV2,Pack,Rank,ReadVariableOp,Reshape".split(
    ",",
  ),
  ..."ResourceGather,ReverseV2,SelectV2,Shape,Size,Slice,Split,SplitV,Squeeze,StridedSlice,Tile".split(
    ",",
  ),
  ..."Transpose,Unpack".split(","),
]);

/**
 * Visits a node that reads or gives half or bfloat16 values as if they were float32; any other node
 * is visited as it is.
 */
export function visitNarrow(
  visit: Visit,
  visitWide: (visit: Visit) => readonly GraphValue[],
): readonly GraphValue[] {
  const { node, inputs } = visit;
  const isCast = node.op === "Cast" && inputs[0]?.widened !== undefined;
  const isOfNarrow =
    node.outputDtypes.some(isNarrowFloat) || inputs.some(({ widened }) => widened !== undefined);
  if (!isCast && !(PICKING.has(node.op) && isOfNarrow)) return visitWide(visit);
  const wide = inputs.map((input) => input.widened ?? input);
  if (isCast && node.outputDtypes[0] === "float32") return wide;
  const computed = wide.find(({ dtype }) => isNarrowFloat(dtype));
  if (computed !== undefined || (isCast && node.outputDtypes.some(isNarrowFloat))) {
    return visitWide(visit);
  }
  const outputs = visitWide({ ...visit, node: widenedNode(node), inputs: wide });
  return outputs.map((output, index) => {
    const dtype = node.outputDtypes[index] ?? output.dtype;
    if (!isNarrowFloat(dtype) || isNarrowFloat(output.dtype)) return output;
    return narrowValue(dtype, output);
  });
}

function widenedNode(node: GraphNode): GraphNode {
  const outputDtypes = node.outputDtypes.map((dtype) => (isNarrowFloat(dtype) ? "float32" : dtype));
  return { ...node, outputDtypes };
}

/** Refuses a node that computes with half or bfloat16 values. @throws WinnowError UNIMPLEMENTED */
export function refuseNarrow({ op, name, inputs, outputs }: OperationNode): void {
  const narrow = [...inputs, ...outputs].find(({ dtype }) => isNarrowFloat(dtype));
  if (narrow === undefined) return;
  const what = `operation ${op} (node ${name}) computes with ${narrow.dtype} values`;
  throw new WinnowError("UNIMPLEMENTED", `${what}; cast them to float32 before it`);
}
