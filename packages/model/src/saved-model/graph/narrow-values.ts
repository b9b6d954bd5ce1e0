// Half and bfloat16 values of a graph. Tables and weights are stored in them to be small, and layers of mixed
// precision compute with them. Every such value is a float32, so it is read as one: a cast to float32
// changes nothing, and what only picks or rearranges values (a gather, a transposition) does the same with
// float32. Arithmetic is done in float32, and rounded as TensorFlow rounds its results: it computes products
// and functions of half values in float32 too. A value is rounded once it is computed with, so that a table
// which is cast before rows are gathered is looked up as it is stored.

import { WinnowError } from "@winnow/core";
import { isNarrowFloat } from "../bundle/data-type.ts";
import { Attributes } from "./definition/attributes.ts";
import type { AttributeValue } from "./definition/attributes.ts";
import { narrowValue } from "./graph-value.ts";
import type { GraphValue, OperationNode } from "./graph-value.ts";
import type { GraphNode } from "./graph-walk.ts";
import type { Visit } from "./lowered-nodes.ts";

/** Operations whose results are values of their inputs, unchanged, or depend on shapes alone. */
const PICKING: ReadonlySet<string> = new Set([
  ..."BroadcastTo,ConcatV2,ExpandDims,Gather,GatherNd,GatherV2,Pack,Rank,ReadVariableOp,Reshape".split(
    ",",
  ),
  ..."ResourceGather,ReverseV2,SelectV2,Shape,Size,Slice,Split,SplitV,Squeeze,StridedSlice,Tile".split(
    ",",
  ),
  ..."Transpose,Unpack".split(","),
]);

/** Operations whose results are values of their inputs once these are rounded, with another sign, or a bound that each type has. */
const CHOOSING: ReadonlySet<string> = new Set(
  "Abs,Max,Maximum,MaxPool,Min,Minimum,Neg,Relu,Relu6,Sign,TopKV2".split(","),
);

/** Visits a node in float32. */
type VisitWide = (visit: Visit) => readonly GraphValue[];

/**
 * Visits a node that reads or gives half or bfloat16 values as if they were float32; any other node
 * is visited as it is.
 */
export function visitNarrow(visit: Visit, visitWide: VisitWide): readonly GraphValue[] {
  const { node, inputs } = visit;
  const isOfNarrow = [...node.outputDtypes, ...inputs.map(({ dtype }) => dtype)].some(
    isNarrowFloat,
  );
  const isKnown = inputs.every(
    ({ dtype, widened }) => widened !== undefined || !isNarrowFloat(dtype),
  );
  if (!isOfNarrow || !isKnown || KEPT.has(node.op)) return visitWide(visit);
  if (node.op === "Cast") return cast(visit, visitWide);
  const isPicking = PICKING.has(node.op);
  const wide = inputs.map((input) =>
    isPicking ? (input.widened ?? input) : roundedOf(input, visit, visitWide),
  );
  const outputs = visitWide({ ...visit, node: widenedNode(node), inputs: wide });
  const isUnrounded = isPicking
    ? inputs.some((input) => input.isUnrounded === true)
    : !CHOOSING.has(node.op);
  return outputs.map((output, index) => {
    const dtype = node.outputDtypes[index] ?? output.dtype;
    if (!isNarrowFloat(dtype) || isNarrowFloat(output.dtype)) return output;
    return narrowValue(dtype, output, isUnrounded);
  });
}

/** What takes values of any type in, or gives them: sources, calls, lists and loops. */
const KEPT: ReadonlySet<string> = new Set([
  ..."Const,Placeholder,PlaceholderWithDefault,VarHandleOp,RestoreV2,ParseExampleV2".split(","),
  ..."While,StatelessWhile,If,StatelessIf,Case,StatelessCase,Assert,Identity,IdentityN".split(","),
  ..."TensorListReserve,TensorListSetItem,TensorListGetItem,TensorListFromTensor".split(","),
  ..."TensorListStack,TensorListPushBack,AssignVariableOp,ReadVariableOp".split(","),
]);

function cast(visit: Visit, visitWide: VisitWide): readonly GraphValue[] {
  const { node, inputs } = visit;
  const [input] = inputs;
  const [dtype] = node.outputDtypes;
  if (input === undefined || dtype === undefined) return visitWide(visit);
  if (!isNarrowFloat(dtype)) {
    const value = roundedOf(input, visit, visitWide);
    return dtype === "float32" ? [value] : visitWide({ ...visit, inputs: [value] });
  }
  const isWider =
    input.widened === undefined || input.isUnrounded === true || input.dtype !== dtype;
  if (input.dtype === "float32") return [narrowValue(dtype, input, true)];
  if (input.widened !== undefined) {
    return [narrowValue(dtype, roundedOf(input, visit, visitWide), isWider)];
  }
  const [wide] = visitWide({ ...visit, node: castToFloats(node) });
  return wide === undefined ? visitWide(visit) : [narrowValue(dtype, wide, true)];
}

/** DataType numbers of half and bfloat16. */
const TYPES = { half: 19, bfloat16: 14 } as const;

/** The values of an input as float32, rounded as its type has them. */
function roundedOf(input: GraphValue, { node, walk }: Visit, visitWide: VisitWide): GraphValue {
  const { dtype, widened, isUnrounded } = input;
  if (widened === undefined || isUnrounded !== true || !isNarrowFloat(dtype))
    return widened ?? input;
  const name = `${node.name}/rounded`;
  const type: AttributeValue = { kind: "type", value: TYPES[dtype] };
  const attributes = new Attributes(name, new Map([["DstT", type]]));
  const rounding = { op: ROUNDING, name, attributes, outputDtypes: ["float32"] as const };
  return visitWide({ node: rounding, inputs: [widened], walk })[0]!;
}

/** An operation that graphs do not have: float32 values to the nearest ones of a narrower type. */
export const ROUNDING = "RoundToNarrow";

function widenedNode(node: GraphNode): GraphNode {
  const outputDtypes = node.outputDtypes.map((dtype) => (isNarrowFloat(dtype) ? "float32" : dtype));
  return { ...node, outputDtypes };
}

/** A cast to float32 in the place of one to a narrower type: the host reads the type from the attribute. */
function castToFloats(node: GraphNode): GraphNode {
  const type: AttributeValue = { kind: "type", value: FLOAT32 };
  const attributes = new Attributes(node.name, new Map([["DstT", type]]));
  return { ...node, attributes, outputDtypes: ["float32"] };
}

const FLOAT32 = 1;

/** Refuses a node that computes with half or bfloat16 values. @throws WinnowError UNIMPLEMENTED */
export function refuseNarrow({ op, name, inputs, outputs }: OperationNode): void {
  const narrow = [...inputs, ...outputs].find(({ dtype }) => isNarrowFloat(dtype));
  if (narrow === undefined) return;
  const what = `operation ${op} (node ${name}) computes with ${narrow.dtype} values`;
  throw new WinnowError("UNIMPLEMENTED", `${what}; cast them to float32 before it`);
}
