// TensorLists, which TensorArray and therefore every recurrent layer and map_fn are made of. A list
// never leaves the graph: it is followed as a value while the graph is lowered. A list made of a tensor
// is that tensor, its elements along the first axis; a list that is written is a chain of writings back
// to where it began. What loops make of lists is in `loops.ts`.
//
//   TensorListFromTensor ─▶ stacked ─▶ GetItem: a gather, Stack: the tensor
//   TensorListReserve, EmptyTensorList ─▶ reserved ─▶ SetItem, PushBack: written ─▶ written ─▶ …

import { WinnowError } from "@winnow/core";
import { Attributes } from "../definition/attributes.ts";
import { constantValue, integerOf, integersOf } from "../graph-value.ts";
import type { GraphValue, Shape, TensorList } from "../graph-value.ts";
import type { GraphNode } from "../graph-walk.ts";
import { graphDtypeOf } from "../definition/graph-dtype.ts";
import type { Handler, Lowering, Visit } from "../lowered-nodes.ts";

/** Handlers of operations on lists. */
export const LIST_HANDLERS: readonly (readonly [string, Handler])[] = [
  ["TensorListConcatV2", (lowering, visit) => [joinedOf(lowering, visit)]],
  ["TensorListGather", (lowering, visit) => [elementsAt(lowering, visit)]],
  ["EmptyTensorList", (_, visit) => [listOf(reserved(visit, integer(0)))]],
  ["TensorListFromTensor", (_, { node, inputs }) => [listOf(stacked(inputAt(node, inputs, 0)))]],
  ["TensorListGetItem", (lowering, visit) => [itemOf(lowering, visit)]],
  ["TensorListLength", (lowering, visit) => [lengthOf(lowering, visit)]],
  ["TensorListPushBack", (_, visit) => [listOf(written(visit, undefined, 1))]],
  [
    "TensorListReserve",
    (_, visit) => [listOf(reserved(visit, inputAt(visit.node, visit.inputs, 1)))],
  ],
  [
    "TensorListSetItem",
    (_, visit) => [listOf(written(visit, inputAt(visit.node, visit.inputs, 1), 2))],
  ],
  ["TensorListStack", (lowering, visit) => [tensorOf(lowering, visit)]],
];

/** A handle of a list. */
export function listOf(list: TensorList): GraphValue {
  return { dtype: "variant", shape: [], list };
}

/** The shape that two statements about one value give together; of two ranks the first stands. */
export function metShape(shape: Shape, other: Shape): Shape {
  if (shape === undefined || shape.length !== other?.length) return shape ?? other;
  return shape.map((size, axis) => (size < 0 ? other[axis]! : size));
}

/** Why a list cannot be followed as the graph uses it. */
export function unfollowed(node: GraphNode, why: string): WinnowError {
  return new WinnowError("UNIMPLEMENTED", `operation ${node.op} (node ${node.name}) ${why}`);
}

/** Elements of a list that is written one by one, at most: any of them may be asked for. */
const WRITTEN_MAX = 1024;

type Writing = Extract<TensorList, { kind: "written" }>;

/**
 * The elements of a list that was written one by one, at places the graph states; `undefined` for
 * those nobody wrote, and for any other list.
 */
function elementsOf(list: TensorList | undefined): (GraphValue | undefined)[] | undefined {
  const chain: Writing[] = [];
  let first = list;
  while (first?.kind === "written" && chain.length <= WRITTEN_MAX) {
    chain.push(first);
    first = first.before.list;
  }
  const count = first?.kind === "reserved" ? (integerOf(first.count) ?? -1) : -1;
  if (count < 0 || count > WRITTEN_MAX) return undefined;
  const elements: (GraphValue | undefined)[] = Array.from({ length: count }, () => undefined);
  return chain.toReversed().every((writing) => put(elements, writing)) ? elements : undefined;
}

/** Writes an element; false where the graph does not tell its place, or the list has no such place. */
function put(elements: (GraphValue | undefined)[], { index, item, grows }: Writing): boolean {
  const isOpen = index === undefined || grows;
  const at = index === undefined ? elements.length : (integerOf(index) ?? -1);
  if (at < 0 || at >= elements.length + Number(isOpen)) return false;
  elements[at] = item;
  return true;
}

function stacked(tensor: GraphValue): TensorList {
  return { kind: "stacked", tensor };
}

function reserved({ node, inputs }: Visit, count: GraphValue): TensorList {
  return {
    kind: "reserved",
    count,
    elementDtype: graphDtypeOf(node.attributes.type("element_dtype")),
    elementShape: shapeGivenBy(inputAt(node, inputs, 0)),
  };
}

function written(
  { node, inputs }: Visit,
  index: GraphValue | undefined,
  itemAt: number,
): TensorList {
  const before = inputAt(node, inputs, 0);
  const item = inputAt(node, inputs, itemAt);
  if (before.list === undefined) throw unfollowed(node, "writes into a list of unknown origin");
  if (before.list.kind === "stacked") throw unfollowed(node, "writes into a list made of a tensor");
  const grows = node.attributes.flag("resize_if_index_out_of_bounds");
  return { kind: "written", before, index, item, grows };
}

function itemOf(lowering: Lowering, { node, inputs }: Visit): GraphValue {
  const [list, index] = [inputAt(node, inputs, 0).list, inputAt(node, inputs, 1)];
  if (list?.kind === "stacked") {
    const item = applied(lowering, node, {
      op: "GatherV2",
      inputs: [list.tensor, index, integer(0)],
    });
    const shape = list.tensor.shape?.slice(1);
    return withShape(item, metShape(shape, shapeGivenBy(inputAt(node, inputs, 2))));
  }
  const item = elementsOf(list)?.[integerOf(index) ?? -1];
  if (item !== undefined) return item;
  const isOwn = list?.kind === "carried" || list?.kind === "written";
  const why = isOwn
    ? "reads from a list that is being written"
    : "reads an element that was never written";
  throw unfollowed(node, `${why}; only lists made of a tensor are read`);
}

function tensorOf(lowering: Lowering, { node, inputs }: Visit): GraphValue {
  const { list } = inputAt(node, inputs, 0);
  if (list?.kind === "stacked") return list.tensor;
  const elements = elementsOf(list);
  const written = elements?.filter((element) => element !== undefined) ?? [];
  if (written.length > 0 && written.length === elements?.length) {
    return applied(lowering, node, { op: "Pack", inputs: written });
  }
  throw unfollowed(node, "stacks a list of which elements are not written at places known before");
}

/** The elements of a list one after the other, along the first axis that each of them has. */
function joinedOf(lowering: Lowering, { node, inputs }: Visit): GraphValue {
  const { list } = inputAt(node, inputs, 0);
  if (list?.kind === "stacked") {
    const rest = list.tensor.shape?.slice(2);
    if (rest === undefined || rest.includes(-1) || list.tensor.shape!.length < 2) {
      throw unfollowed(node, "puts elements of unknown sizes one after the other");
    }
    const data = Int32Array.of(-1, ...rest);
    const sizes = constantValue({ dtype: "int32", shape: [data.length], data });
    return applied(lowering, node, { op: "Reshape", inputs: [list.tensor, sizes] });
  }
  const elements = elementsOf(list);
  const written = elements?.filter((element) => element !== undefined) ?? [];
  if (written.length > 0 && written.length === elements?.length) {
    return applied(lowering, node, { op: "ConcatV2", inputs: [...written, integer(0)] });
  }
  throw unfollowed(node, "joins a list of which elements are not written at places known before");
}

/** The elements of a list at several places, stacked. */
function elementsAt(lowering: Lowering, { node, inputs }: Visit): GraphValue {
  const [list, indices] = [inputAt(node, inputs, 0).list, inputAt(node, inputs, 1)];
  const stack = list?.kind === "stacked" ? list.tensor : undefined;
  const elements = elementsOf(list);
  const chosen = integersOf(indices)?.flatMap((index) => elements?.[index] ?? []);
  if (stack !== undefined) {
    return applied(lowering, node, { op: "GatherV2", inputs: [stack, indices, integer(0)] });
  }
  if (chosen !== undefined && chosen.length > 0 && chosen.length === integersOf(indices)?.length) {
    return applied(lowering, node, { op: "Pack", inputs: chosen });
  }
  throw unfollowed(node, "takes elements of a list that are not written at places known before");
}

function lengthOf(lowering: Lowering, { node, inputs }: Visit): GraphValue {
  const { list } = inputAt(node, inputs, 0);
  if (list?.kind === "reserved") return list.count;
  const elements = elementsOf(list);
  if (elements !== undefined) return integer(elements.length);
  if (list?.kind !== "stacked") throw unfollowed(node, "counts a list that is being written");
  const known = list.tensor.shape?.[0] ?? -1;
  if (known >= 0) return integer(known);
  const sizes = applied(
    lowering,
    { ...node, outputDtypes: ["int32"] },
    { op: "Shape", inputs: [list.tensor] },
  );
  return applied(lowering, node, { op: "GatherV2", inputs: [sizes, integer(0), integer(0)] });
}

const NO_ATTRIBUTES = new Attributes("", new Map());

/** The result of another operation in the place of a node, under its name. */
function applied(
  lowering: Lowering,
  { name, outputDtypes }: GraphNode,
  { op, inputs }: { readonly op: string; readonly inputs: readonly GraphValue[] },
): GraphValue {
  const node = { op, name, attributes: NO_ATTRIBUTES, outputDtypes };
  return lowering.operation(node, inputs).outputs[0]!;
}

/** Sizes of elements as a graph gives them: a vector, or -1 for an unknown rank. */
function shapeGivenBy(value: GraphValue): Shape {
  const sizes = integersOf(value) ?? value.known;
  return value.shape?.length === 1 ? sizes : undefined;
}

function withShape(value: GraphValue, shape: Shape): GraphValue {
  const { producer } = value;
  const stated = { ...value, shape };
  if (producer?.kind === "operation") producer.outputs = [stated];
  return stated;
}

/** An int32 scalar. */
function integer(value: number): GraphValue {
  return constantValue({ dtype: "int32", shape: [], data: Int32Array.of(value) });
}

function inputAt(node: GraphNode, inputs: readonly GraphValue[], position: number): GraphValue {
  const input = inputs[position];
  if (input !== undefined) return input;
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `node ${node.name} (${node.op}) has no input ${position}`,
  );
}
