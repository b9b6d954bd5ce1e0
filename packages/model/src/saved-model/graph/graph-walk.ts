// Walks a graph from wanted tensors back to their sources and then forward, each node once, calling
// a visitor with the values of its inputs. Function calls are entered as if their bodies replaced
// the call, so the visitor sees one flat graph. Branches and loops are followed when their
// predicate is a constant; other loops are shown to the visitor, which can walk an iteration by itself.
// Bodies are ordered without recursion; only calls nest, up to a limit.

import { WinnowError, excerpt } from "@winnow/core";
import type { Attributes } from "./definition/attributes.ts";
import type {
  FunctionDefinition,
  GraphDefinition,
  NodeDefinition,
} from "./definition/graph-definition.ts";
import type { GraphDtype } from "./definition/graph-dtype.ts";
import { constantValue } from "./graph-value.ts";
import type { GraphValue } from "./graph-value.ts";
import type { OperationTable } from "./definition/operation-table.ts";

/** A node on the walk, its name preceded by the calls that lead to it. */
export interface GraphNode {
  readonly op: string;
  readonly name: string;
  readonly attributes: Attributes;
  readonly outputDtypes: readonly GraphDtype[];
}

/** Gives the values of a node's outputs. */
export type NodeVisitor = (
  node: GraphNode,
  inputs: readonly GraphValue[],
  walk: GraphWalk,
) => readonly GraphValue[];

const CALL_DEPTH_MAX = 100;
const VISITS_MAX = 300_000;
const LOOP_ITERATIONS_MAX = 1000;
const CALLS: ReadonlySet<string> = new Set(["PartitionedCall", "StatefulPartitionedCall"]);
const BRANCHES: ReadonlySet<string> = new Set(["If", "StatelessIf"]);
const LOOPS: ReadonlySet<string> = new Set(["While", "StatelessWhile"]);

interface Body {
  readonly nodes: ReadonlyMap<string, NodeDefinition>;
  /**
   * Values that references name directly: arguments of a function, or fed tensors of the main
   * graph.
   */
  readonly given: ReadonlyMap<string, GraphValue>;
  readonly path: string;
}

/**
 * A walk over one graph; one call of `valuesOf` visits each node of the main graph at most once.
 */
export class GraphWalk {
  readonly #graph: GraphDefinition;
  readonly #operations: OperationTable;
  readonly #visitor: NodeVisitor;
  #depth = 0;
  #visits = 0;

  constructor(graph: GraphDefinition, operations: OperationTable, visitor: NodeVisitor) {
    this.#graph = graph;
    this.#operations = operations;
    this.#visitor = visitor;
  }

  /**
   * Values of tensors of the main graph (`StatefulPartitionedCall:0`, or a node's name); `fed`
   * gives values of tensors that are not computed. @throws WinnowError
   */
  valuesOf(
    references: readonly string[],
    fed: ReadonlyMap<string, GraphValue>,
  ): (GraphValue | undefined)[] {
    return this.#run({ nodes: this.#graph.nodes, given: fed, path: "" }, references);
  }

  /** Results of a function for these arguments. @throws WinnowError */
  call(name: string, inputs: readonly GraphValue[], path: string): GraphValue[] {
    const definition = this.functionNamed(name);
    if (inputs.length !== definition.parameters.length) {
      const counts = `${inputs.length} values for ${definition.parameters.length} parameters`;
      throw broken(`a call passes ${counts} to function ${excerpt(name)}`);
    }
    if (this.#depth >= CALL_DEPTH_MAX) throw broken(`calls nest more than ${CALL_DEPTH_MAX} deep`);
    const given = new Map(definition.parameters.map((name, index) => [name, inputs[index]!]));
    const body = { nodes: definition.nodes, given, path };
    this.#depth += 1;
    try {
      const controls = definition.controlResults.map((control) => `^${control}`);
      const values = this.#run(body, [...definition.results, ...controls]);
      return values.slice(0, definition.results.length).map((value, index) => {
        if (value !== undefined) return value;
        throw broken(`function ${excerpt(name)} does not give result ${index}`);
      });
    } finally {
      this.#depth -= 1;
    }
  }

  /** A function of the library. @throws WinnowError INVALID_ARGUMENT when there is none */
  functionNamed(name: string): FunctionDefinition {
    const definition = this.#graph.functions.get(name);
    if (definition !== undefined) return definition;
    throw broken(`function ${excerpt(name)} does not exist`);
  }

  #run(body: Body, references: readonly string[]): (GraphValue | undefined)[] {
    const results = new Map<string, readonly GraphValue[]>();
    const dead = new Set<string>();
    for (const node of nodesInOrder(body, references)) {
      this.#visits += 1;
      if (this.#visits > VISITS_MAX) throw broken(`it grows beyond ${VISITS_MAX} nodes`);
      const inputs = node.inputs
        .filter((input) => !input.startsWith("^"))
        .map((input) => this.#resolve(body, results, input));
      const isAfterDead = node.inputs.some(
        (input) => input.startsWith("^") && dead.has(input.slice(1)),
      );
      const chosen = this.#chosen(node, inputs, isAfterDead);
      if (chosen?.every((value) => value === NEVER) === true) dead.add(node.name);
      results.set(node.name, chosen ?? this.#visit(body, node, inputs));
    }
    return references.map((reference) =>
      reference.startsWith("^") || isBareControl(body, results, reference)
        ? undefined
        : this.#resolve(body, results, reference),
    );
  }

  /**
   * The values of a branch of TensorFlow 1 that a constant decides, such as the default of `is_training`: a Switch
   * passes its input to one side, and what follows the other one never runs. `undefined` for all other nodes.
   */
  #chosen(
    node: NodeDefinition,
    inputs: readonly GraphValue[],
    isAfterDead: boolean,
  ): readonly GraphValue[] | undefined {
    const [value] = inputs;
    if (node.op === "Switch" && value !== undefined && !isAfterDead && value !== NEVER) {
      const isTrue = truthOf(inputs[1]);
      return isTrue === undefined ? undefined : isTrue ? [NEVER, value] : [value, NEVER];
    }
    const at = inputs.findIndex((input) => input !== NEVER);
    if (node.op === "Merge" && at >= 0 && inputs.includes(NEVER)) {
      const tensor = { dtype: "int32", shape: [], data: Int32Array.of(at) } as const;
      return [inputs[at]!, constantValue(tensor)];
    }
    const isDead = isAfterDead || inputs.includes(NEVER);
    return isDead ? this.#operations.outputDtypesOf(node).map(() => NEVER) : undefined;
  }

  #visit(body: Body, node: NodeDefinition, inputs: readonly GraphValue[]): readonly GraphValue[] {
    const name = body.path === "" ? node.name : `${body.path}/${node.name}`;
    const attributes = this.#operations.attributesOf(node);
    if (CALLS.has(node.op)) return this.call(attributes.functionName("f") ?? "", inputs, name);
    if (BRANCHES.has(node.op)) {
      const isTrue = truthOf(inputs[0]);
      const branch = isTrue === true ? "then_branch" : "else_branch";
      const target = attributes.functionName(branch) ?? "";
      if (isTrue !== undefined) return this.call(target, inputs.slice(1), name);
    }
    // A loop over lists is left to the visitor, which keeps its iterations together.
    if (LOOPS.has(node.op) && !inputs.some(({ dtype }) => dtype === "variant")) {
      const final = this.#loop(attributes, inputs, name);
      if (final !== undefined) return final;
    }
    const outputDtypes = this.#operations.outputDtypesOf(node);
    return this.#visitor({ op: node.op, name, attributes, outputDtypes }, inputs, this);
  }

  /**
   * The final state of a loop; `undefined` where the request decides its iterations, or they are too
   * many.
   */
  #loop(
    attributes: Attributes,
    initial: readonly GraphValue[],
    name: string,
  ): readonly GraphValue[] | undefined {
    let state = initial;
    for (let iteration = 0; iteration < LOOP_ITERATIONS_MAX; iteration += 1) {
      const condition = this.call(attributes.functionName("cond") ?? "", state, name);
      const isTrue = truthOf(condition[0]);
      if (isTrue === undefined) return undefined;
      if (!isTrue) return state;
      state = this.call(attributes.functionName("body") ?? "", state, name);
    }
    return undefined;
  }

  #resolve(
    body: Body,
    results: ReadonlyMap<string, readonly GraphValue[]>,
    reference: string,
  ): GraphValue {
    const given = givenValue(body, reference);
    if (given !== undefined) return given;
    const [name = "", argument, index] = reference.split(":");
    const outputs = results.get(name);
    const node = body.nodes.get(name);
    if (outputs === undefined || node === undefined) {
      throw broken(`nothing defines ${excerpt(reference)}`);
    }
    const position =
      index === undefined
        ? Number(argument ?? 0)
        : this.#operations.outputOffset(node, argument ?? "") + Number(index);
    const value = outputs[position];
    if (value !== undefined) return value;
    throw broken(`node ${excerpt(name)} has no output ${excerpt(reference)}`);
  }
}

/** What a branch that is never taken gives. */
const NEVER: GraphValue = { dtype: "invalid", shape: undefined };

/** Whether a reference names a node without outputs, as the initialiser signature's output does. */
function isBareControl(
  body: Body,
  results: ReadonlyMap<string, readonly GraphValue[]>,
  reference: string,
): boolean {
  return !body.given.has(reference) && results.get(reference)?.length === 0;
}

/** The constant truth of a predicate; numbers are true unless zero, as in TensorFlow. */
function truthOf(value: GraphValue | undefined): boolean | undefined {
  const tensor = value?.constant;
  if (tensor === undefined || tensor.dtype === "string" || tensor.shape.length > 0)
    return undefined;
  return Number(tensor.data[0] ?? 0) !== 0;
}

/** Nodes that the references depend on by data or control edges, each after its inputs. */
function nodesInOrder(body: Body, references: readonly string[]): NodeDefinition[] {
  const order: NodeDefinition[] = [];
  const states = new Map<string, "open" | "done">();
  const stack: { readonly node: NodeDefinition; next: number }[] = [];
  const open = (reference: string): void => {
    const node = nodeOf(body, reference);
    if (node === undefined) return;
    const state = states.get(node.name);
    if (state === "open")
      throw circleThrough(
        node,
        stack.map((frame) => frame.node),
      );
    if (state === "done") return;
    states.set(node.name, "open");
    stack.push({ node, next: 0 });
  };
  for (const reference of references) {
    open(reference);
    for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
      const input = frame.node.inputs[frame.next];
      frame.next += 1;
      if (input !== undefined) open(input);
      else {
        states.set(frame.node.name, "done");
        order.push(frame.node);
        stack.pop();
      }
    }
  }
  return order;
}

/** Why a graph that turns in a circle is refused: as it is written in TensorFlow 1, a loop does so. */
function circleThrough(node: NodeDefinition, open: readonly NodeDefinition[]): WinnowError {
  const turn = open.find(({ op }) => op === "NextIteration" || op === "RefNextIteration");
  if (turn === undefined) return broken(`it turns in a circle through node ${excerpt(node.name)}`);
  const what = `operation ${turn.op} (node ${excerpt(turn.name)}) is not supported`;
  const advice = "export it with control flow v2 (tf.compat.v1.enable_control_flow_v2)";
  return new WinnowError("UNIMPLEMENTED", `${what}. A loop of TensorFlow 1: ${advice}`);
}

/** The value of an argument or of a fed tensor; `x` and `x:0` name the same value. */
function givenValue({ given }: Body, reference: string): GraphValue | undefined {
  const name = reference.endsWith(":0") ? reference.slice(0, -2) : reference;
  return given.get(name) ?? given.get(reference);
}

/** The node a reference leads to; `undefined` if its value is given. */
function nodeOf(body: Body, reference: string): NodeDefinition | undefined {
  const plain = reference.startsWith("^") ? reference.slice(1) : reference;
  if (givenValue(body, plain) !== undefined) return undefined;
  const colon = plain.indexOf(":");
  const node = body.nodes.get(colon < 0 ? plain : plain.slice(0, colon));
  if (node !== undefined) return node;
  throw broken(`nothing defines ${excerpt(reference)}`);
}

function broken(fault: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `The graph is broken: ${fault}`);
}
