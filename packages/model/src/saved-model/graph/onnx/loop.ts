// A loop as ONNX's Loop: the state as loop-carried values, lists as what the loop collects over its
// iterations. TensorFlow's loops may run forever, so beside the state go the iterations that are left:
//
//   iterations left ─▶ ┌ an iteration ──────────────────┐ ─▶ iterations left - 1
//   state ───────────▶ │ nodes of the body, inner loops │ ─▶ state
//                      └────────────────────────────────┘ ─▶ items, collected
//
// An inner loop begins with what its outer one has left and leaves it what remains, so all iterations of
// a nest count, and the bound of a nest is the bound of one loop. An iteration that collects many values
// counts for several, and a state that grows from iteration to iteration has a bound of its own. ONNX has no
// operation that fails on purpose; a Gather behind the end of a list does, and ONNX Runtime names the node in its message.

import { WinnowError, elementCount, excerpt, isDtype } from "@winnow/core";
import type { Dtype } from "@winnow/core";
import type { GraphValue, LoopBody, LoopList } from "../graph-value.ts";
import type { OnnxModel } from "./onnx-model.ts";
import { reversed } from "./reversal.ts";
import type { Translation, Translator, Translators } from "./translation.ts";

/** Iterations of a loop and all loops inside of it, in one run. */
const ITERATIONS_MAX = 100_000;
/** Values that an iteration may collect before it counts for one more. */
const VALUES_PER_ITERATION = 2048;
/** Values of one tensor of the state, at most, where the graph does not tell how many there are. */
const STATE_VALUES_MAX = 2 ** 26;
const INT64 = 7;
const END = Number.MAX_SAFE_INTEGER;

/** Translators of loops; `translate` is that of all operations. */
export function loopTranslators(translate: TranslateNode): Translators {
  const translator: Translator = (t) => translatedLoop(t, translate);
  return { StatelessWhile: translator, While: translator };
}

/** Adds an operation to a model and names its outputs. */
export type TranslateNode = (
  model: OnnxModel,
  operation: LoopBody["nodes"][number],
  names: readonly string[],
) => readonly string[];

function translatedLoop(t: Translation, translate: TranslateNode): readonly string[] {
  const { loop } = t.operation;
  if (loop === undefined) throw t.untranslatable("cannot be followed");
  const { carried, lists } = loop;
  const outside = new Map(t.operation.inputs.map((value, at) => [value, t.name(at)]));
  const ofLast = lists.filter(({ kind }) => kind === "last");
  const iterationsLeft = t.model.iterationsLeft ?? t.model.integers(ITERATIONS_MAX);
  const begin = t.names.slice(1, 1 + carried.length);
  const unwritten = ofLast.map(({ item }) => t.model.zeros(dtypeOf(item, t), emptyShape(item)));
  const body = bodyOf(t, loop, { outside, translate });
  const after = t.model.nodes("Loop", ["", t.name(0), iterationsLeft, ...begin, ...unwritten], {
    attributes: { body: body.graph() },
    outputCount: 1 + carried.length + lists.length,
  });
  const [left, ...rest] = after;
  if (t.model.iterationsLeft !== undefined) t.model.iterationsLeft = left;
  const lastItems = rest.slice(carried.length, carried.length + ofLast.length);
  const collected = rest.slice(carried.length + ofLast.length);
  const results = lists.map((list) =>
    list.kind === "last"
      ? listOfLast(t, lastItems.shift()!, { iterationsLeft, left: left! })
      : listOfAll(t, collected.shift()!, { list, outside }),
  );
  return [...rest.slice(0, carried.length), ...results];
}

interface LoopSurroundings {
  readonly outside: ReadonlyMap<GraphValue, string>;
  readonly translate: TranslateNode;
}

/** The graph of one iteration. */
function bodyOf(
  t: Translation,
  { carried, lists, goesOn, nodes }: LoopBody,
  { outside, translate }: LoopSurroundings,
): OnnxModel {
  const body = t.model.inner();
  const names = new Map(outside);
  const nameOf = (value: GraphValue): string => {
    const name = names.get(value);
    if (name === undefined) throw t.untranslatable("uses a value that is not computed in it");
    return name;
  };
  const ofLast = lists.filter(({ kind }) => kind === "last");
  const ofAll = lists.filter(({ kind }) => kind !== "last");
  body.input("int64", []);
  body.input("bool", []);
  body.iterationsLeft = body.input("int64", []);
  for (const { parameter } of carried) {
    names.set(parameter, body.input(dtypeOf(parameter, t), undefined));
  }
  for (const { item } of ofLast) body.input(dtypeOf(item, t), undefined);
  for (const node of nodes) {
    const results = translate(body, node, node.inputs.map(nameOf));
    for (const [index, result] of results.entries()) {
      const output = node.outputs[index];
      if (output !== undefined) names.set(output, result);
    }
  }
  let left = body.node("Sub", [body.iterationsLeft, body.integers(1)]);
  for (const { item, shape } of ofAll) {
    if (isSmall(shape)) continue;
    const size = body.node("Size", [nameOf(item)]);
    left = body.node("Sub", [left, body.node("Div", [size, body.integers(VALUES_PER_ITERATION)])]);
  }
  const open = carried.filter(({ parameter: { shape } }) => shape?.includes(-1) !== false);
  const sizes = open.map(({ next }) => body.node("Size", [nameOf(next)]));
  body.output(furtherIteration(t, body, { goesOn: nameOf(goesOn), left, sizes }), "bool");
  body.output(left, "int64");
  for (const { next } of carried) body.output(nameOf(next), dtypeOf(next, t));
  for (const { item } of ofLast) body.output(nameOf(item), dtypeOf(item, t));
  for (const { item, shape } of ofAll) body.output(nameOf(item), dtypeOf(item, t), shape);
  return body;
}

/** What decides on another iteration: names of the body's answer, the iterations left, and sizes of its state. */
interface IterationEnd {
  readonly goesOn: string;
  readonly left: string;
  readonly sizes: readonly string[];
}

/** Whether another iteration follows: an element of [false, true], or one behind these if none may. */
function furtherIteration(
  t: Translation,
  body: OnnxModel,
  { goesOn, left, sizes }: IterationEnd,
): string {
  const room = sizes.map((size) => body.node("Sub", [body.integers(STATE_VALUES_MAX), size]));
  const one = body.node("Min", [left, body.integers(1), ...room]);
  const further = body.node("Sub", [body.integers(2), one]);
  const choice = body.node("Where", [goesOn, further, body.integers(0)]);
  const answers = body.constant(FALSE_AND_TRUE);
  const label = `${titleOf(t.operation.name)} takes more than ${ITERATIONS_MAX} iterations, or too much memory`;
  return body.nodes("Gather", [answers, choice], { label })[0]!;
}

const FALSE_AND_TRUE = { dtype: "bool", shape: [2], data: Uint8Array.of(0, 1) } as const;

/** A list of one element: what the last iteration wrote. Without an iteration there is no element. */
function listOfLast(
  t: Translation,
  item: string,
  { iterationsLeft, left }: { readonly iterationsLeft: string; readonly left: string },
): string {
  const iterations = t.node("Reshape", [
    t.node("Sub", [iterationsLeft, left]),
    t.model.integers([1]),
  ]);
  return t.node("Unsqueeze", [item, elementOrNone(t, iterations)]);
}

/** The items of all iterations as elements of their list, of which there must be as many as it has room for. */
function listOfAll(
  t: Translation,
  items: string,
  { list, outside }: { readonly list: LoopList; readonly outside: ReadonlyMap<GraphValue, string> },
): string {
  const { model } = t;
  const before = list.before.map((item) =>
    t.node("Unsqueeze", [outside.get(item)!, model.integers([0])]),
  );
  const ordered = list.kind === "backwards" ? reversed(t, items, [0]) : items;
  const all = before.length === 0 ? ordered : t.node("Concat", [...before, ordered], { axis: 0 });
  const size = t.node("Shape", [all]);
  const end = model.integers([END]);
  const [length, behind] = [model.integers([0]), model.integers([1])];
  const found = t.node("Slice", [size, length, behind]);
  const isOpen = list.shape.includes(-1) && list.before.length === 0;
  const first = isOpen ? t.node("Add", [behind, elementOrNone(t, found)]) : behind;
  const others = t.node("Slice", [size, first, end]);
  const count = list.count === undefined ? found : countOf(t, outside.get(list.count)!);
  const shape = t.node("Concat", [count, others], { axis: 0 });
  const label = `${titleOf(t.operation.name)} must fill the list that it writes`;
  return model.nodes("Reshape", [all, shape], { attributes: { allowzero: 1 }, label })[0]!;
}

function countOf(t: Translation, count: string): string {
  return t.node("Reshape", [t.cast(count, INT64), t.model.integers([1])]);
}

/** 0, as a vector, if a list has elements; without any, nobody knows their shape, and this fails. */
function elementOrNone(t: Translation, length: string): string {
  const isEmpty = t.cast(t.node("Equal", [length, t.model.integers([0])]), INT64);
  const label = `${titleOf(t.operation.name)} takes no iteration, so that its list has no element`;
  return t.model.nodes("Gather", [t.model.integers([0]), isEmpty], { label })[0]!;
}

function isSmall(shape: readonly number[]): boolean {
  return !shape.includes(-1) && elementCount(shape) < VALUES_PER_ITERATION;
}

/** A loop by its name, without the calls that lead to it, which differ between signatures. */
function titleOf(loop: string): string {
  return `loop ${excerpt(loop.replace(/^((Stateful)?PartitionedCall(_\d+)?\/)+/, ""))}`;
}

function dtypeOf({ dtype }: GraphValue, t: Translation): Exclude<Dtype, "string"> {
  if (isDtype(dtype) && dtype !== "string") return dtype;
  throw new WinnowError("UNIMPLEMENTED", `loop ${t.operation.name} works on ${dtype} values`);
}

/** A shape without elements, whose other sizes are those of an item. */
function emptyShape({ shape }: GraphValue): readonly number[] {
  return (shape ?? []).map(() => 0);
}
