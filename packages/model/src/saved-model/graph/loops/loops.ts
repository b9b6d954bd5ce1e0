// Loops: While, as recurrent layers and map_fn are exported. A loop whose iterations cannot be followed one
// by one while the graph is read, because the request decides their number or because they work on
// lists, becomes one operation of a dense part (`onnx/loop.ts`). Its body is walked once, with
// unknown values for what changes from iteration to iteration:
//
//   state of the loop         becomes
//   what none changes         the value outside of the loop: weights, lists that are read
//   a tensor                  a parameter of the iteration, and its next value
//   a list that is written    one item per iteration (loop-lists.ts)
//
// All of the body must be computable in a dense part: no strings, no searches, and no lookups but those
// that can be made before the loop (loop-lookups.ts).

import { WinnowError } from "@winnow/core";
import type { FunctionDefinition } from "../definition/graph-definition.ts";
import type { GraphValue, LoweredNode, OperationNode, Shape } from "../graph-value.ts";
import { integerOf } from "../graph-value.ts";
import type { GraphNode } from "../graph-walk.ts";
import { listOfIterations } from "./loop-lists.ts";
import { withoutLookups } from "./loop-lookups.ts";
import type { Lowering, Visit } from "../lowered-nodes.ts";
import { refuseParsing } from "../missing-operations.ts";
import { listOf, metShape, unfollowed } from "./tensor-lists.ts";

/** Walks of a body, at most, until shapes hold for every iteration: each one leaves more sizes open. */
const WALKS_MAX = 10;

/** Handles While and StatelessWhile. */
export function visitLoop(lowering: Lowering, visit: Visit): readonly GraphValue[] {
  const { node, inputs, walk } = visit;
  const [bodyName, conditionName] = ["body", "cond"].map(
    (name) => node.attributes.functionName(name) ?? "",
  );
  const definition = walk.functionNamed(bodyName!);
  if (definition.results.length !== inputs.length) {
    const counts = `${definition.results.length} values out of ${inputs.length}`;
    throw new WinnowError("INVALID_ARGUMENT", `the body of loop ${node.name} makes ${counts}`);
  }
  const [begins] = walk.call(conditionName!, inputs, node.name);
  const loop = new LoopLowering(visit, definition);
  let shapes = inputs.map(({ shape }) => shape);
  for (let walks = 0; walks < WALKS_MAX; walks += 1) {
    const parameters = loop.parametersOf(shapes);
    const { result, nodes } = iterationOf(lowering, () => {
      const next = walk.call(bodyName!, parameters, node.name);
      const [goesOn] = walk.call(conditionName!, next, node.name);
      return { next, goesOn };
    });
    const wider = shapes.map((shape, at) => joinedShape(shape, loop.shapeOf(result.next, at)));
    if (wider.every((shape, at) => shape?.join() === shapes[at]?.join())) {
      const iteration = { parameters, ...result, nodes };
      return loop.write(lowering, begins, iteration);
    }
    shapes = wider;
  }
  throw unfollowed(node, "changes the shape of its values again and again");
}

/** What an iteration gives, and its nodes, which are none of the program's. */
function iterationOf<Result>(
  lowering: Lowering,
  follow: () => Result,
): { readonly result: Result; readonly nodes: LoweredNode[] } {
  const before = lowering.isInLoop;
  lowering.isInLoop = true;
  try {
    return lowering.aside(follow);
  } finally {
    lowering.isInLoop = before;
  }
}

/** A body, walked once. */
interface Iteration {
  readonly parameters: readonly GraphValue[];
  readonly next: readonly GraphValue[];
  readonly goesOn: GraphValue | undefined;
  readonly nodes: readonly LoweredNode[];
}

class LoopLowering {
  readonly #node: GraphNode;
  readonly #initial: readonly GraphValue[];
  /** Shapes that the graph states for all iterations. */
  readonly #stated: readonly Shape[];
  /** Positions that each iteration passes on as they are. */
  readonly #isPassedOn: readonly boolean[];

  constructor({ node, inputs }: Visit, body: FunctionDefinition) {
    this.#node = node;
    this.#initial = inputs;
    this.#stated = node.attributes.shapes("output_shapes");
    this.#isPassedOn = inputs.map((_, position) => passesOn(body, position));
  }

  /** What stands for the state at the start of any iteration. */
  parametersOf(shapes: readonly Shape[]): readonly GraphValue[] {
    return this.#initial.map((value, at): GraphValue => {
      if (this.#isPassedOn[at] === true) return value;
      if (value.list !== undefined) return listOf({ kind: "carried" });
      return { dtype: value.dtype, shape: metShape(shapes[at], this.#stated[at]) };
    });
  }

  /** The shape of a value of the state at the end of an iteration. */
  shapeOf(next: readonly GraphValue[], at: number): Shape {
    return metShape(next[at]?.shape, this.#stated[at]);
  }

  /** Adds the loop to the program; gives its state after the last iteration. */
  write(
    lowering: Lowering,
    begins: GraphValue | undefined,
    iteration: Iteration,
  ): readonly GraphValue[] {
    const { parameters, next, goesOn } = iteration;
    refuseParsing(this.#node.name, iteration.nodes);
    if (begins?.dtype !== "bool" || goesOn?.dtype !== "bool") {
      throw unfollowed(this.#node, "has a condition that is no truth value");
    }
    const positions = [...parameters.keys()];
    const tensors = positions.filter((at) => this.#isTensor(at));
    const carried = tensors.map((at) => ({ parameter: parameters[at]!, next: next[at]! }));
    const filled = positions.filter((at) => this.#isWritten(at, iteration));
    const lists = filled.map((at) =>
      listOfIterations(this.#node, { initial: this.#initial, ...iteration }, at),
    );
    const values = [goesOn, ...tensors.map((at) => next[at]!), ...lists.map(({ item }) => item)];
    const changing = tensors.map((at) => parameters[at]!);
    const nodes = this.#needed(values, withoutLookups(lowering, iteration.nodes, changing));
    const ofLists = lists.flatMap(({ before, count }) => [...before, ...(count ? [count] : [])]);
    const { op, name, attributes } = this.#node;
    const operation: OperationNode = {
      kind: "operation",
      op,
      name,
      attributes,
      inputs: [
        begins,
        ...tensors.map((at) => this.#initial[at]!),
        ...new Set([...readFromOutside(values, nodes, changing), ...ofLists]),
      ],
      outputs: [],
      loop: { carried, lists, goesOn, nodes },
    };
    operation.outputs = [
      ...changing.map(({ dtype, shape }) => ({ dtype, shape, producer: operation })),
      ...lists.map((list) => ({
        dtype: list.item.dtype,
        shape: [list.kind === "last" ? 1 : (integerOf(list.count) ?? -1), ...list.shape],
        producer: operation,
      })),
    ];
    lowering.add(operation);
    const results = [...this.#initial];
    for (const [index, output] of operation.outputs.entries()) {
      const isTensor = index < tensors.length;
      const at = isTensor ? tensors[index]! : filled[index - tensors.length]!;
      results[at] = isTensor ? output : listOf({ kind: "stacked", tensor: output });
    }
    return results;
  }

  #isTensor(at: number): boolean {
    const { dtype, list } = this.#initial[at]!;
    if (this.#isPassedOn[at] === true || list !== undefined) return false;
    if (isNumber(dtype)) return true;
    throw unfollowed(
      this.#node,
      `changes ${dtype} values; only numbers may change from iteration to iteration`,
    );
  }

  /** Whether an iteration writes into the list at a position; a list that stays as it is remains. */
  #isWritten(at: number, { parameters, next }: Iteration): boolean {
    if (this.#isPassedOn[at] === true || this.#initial[at]!.list === undefined) return false;
    return next[at] !== parameters[at];
  }

  /** The nodes of an iteration that its values depend on. */
  #needed(values: readonly GraphValue[], nodes: readonly LoweredNode[]): OperationNode[] {
    const makers = new Map(nodes.flatMap((node) => node.outputs.map((value) => [value, node])));
    const needed = new Set<LoweredNode>(
      nodes.filter((node) => node.kind === "operation" && node.op === "Assert"),
    );
    const stack = [...values, ...[...needed].flatMap(({ inputs }) => inputs)];
    for (let value = stack.pop(); value !== undefined; value = stack.pop()) {
      const maker = makers.get(value);
      if (maker === undefined || needed.has(maker)) continue;
      needed.add(maker);
      stack.push(...maker.inputs);
    }
    return nodes.flatMap((node) => (needed.has(node) ? [this.#computable(node)] : []));
  }

  #computable(node: LoweredNode): OperationNode {
    const where = `in the loop ${this.#node.name}`;
    if (node.kind !== "operation") {
      const what = REMOTE[node.kind] ?? "is no computation on numbers";
      const text = `node ${node.name} ${what} ${where}; do so before or after the loop`;
      throw new WinnowError("UNIMPLEMENTED", text);
    }
    const stranger = [...node.inputs, ...node.outputs].find(({ dtype }) => !isNumber(dtype));
    if (stranger === undefined && node.op !== "Assert") return node;
    const why =
      stranger === undefined ? "values are not checked" : `no ${stranger.dtype} values are used`;
    const text = `operation ${node.op} (node ${node.name}) is not supported ${where}: ${why} in loops`;
    throw new WinnowError("UNIMPLEMENTED", text);
  }
}

const REMOTE: Readonly<Record<string, string>> = {
  lookup: "looks up an embedding table by keys that are computed",
};

function isNumber(dtype: GraphValue["dtype"]): boolean {
  return dtype !== "string" && dtype !== "resource" && dtype !== "variant" && dtype !== "invalid";
}

/** Whether a function gives one of its arguments as the result at the same position. */
function passesOn({ parameters, results, nodes }: FunctionDefinition, position: number): boolean {
  let reference = results[position] ?? "";
  for (let hops = 0; hops <= nodes.size; hops += 1) {
    const [name = ""] = reference.split(":");
    if (name === parameters[position]) return true;
    const node = nodes.get(name);
    if (node?.op !== "Identity") return false;
    reference = node.inputs[0] ?? "";
  }
  return false;
}

/** Values that an iteration reads and that come from outside of the loop. */
function readFromOutside(
  values: readonly GraphValue[],
  nodes: readonly OperationNode[],
  changing: readonly GraphValue[],
): Set<GraphValue> {
  const inside = new Set<GraphValue>([...changing, ...nodes.flatMap(({ outputs }) => outputs)]);
  const read = [...nodes.flatMap(({ inputs }) => inputs), ...values];
  return new Set(read.filter((value) => !inside.has(value)));
}

/** The shape of which both shapes are examples. */
function joinedShape(shape: Shape, other: Shape): Shape {
  if (shape === undefined || shape.length !== other?.length) return undefined;
  return shape.map((size, axis) => (size === other[axis] ? size : -1));
}
