// Graphs that are deep, wide, circular or wrong, and control flow that constants decide.

import { describe, expect, test } from "vitest";
import { Attributes } from "./definition/attributes.ts";
import type { AttributeValue } from "./definition/attributes.ts";
import type {
  FunctionDefinition,
  GraphDefinition,
  NodeDefinition,
} from "./definition/graph-definition.ts";
import { constantValue } from "./graph-value.ts";
import type { GraphValue } from "./graph-value.ts";
import { GraphWalk } from "./graph-walk.ts";
import { OperationTable } from "./definition/operation-table.ts";

const T: AttributeValue = { kind: "type", value: 3 };
const functionNamed = (value: string): AttributeValue => ({ kind: "function", value });

interface WrittenNode {
  readonly name: string;
  readonly op: string;
  readonly inputs?: readonly string[];
  readonly attributes?: Readonly<Record<string, AttributeValue>>;
}

function node({ name, op, inputs = [], attributes = {} }: WrittenNode): NodeDefinition {
  const own = new Map(Object.entries({ T, dtype: T, ...attributes }));
  return { name, op, inputs, attributes: new Attributes(name, own) };
}

const named = (nodes: readonly WrittenNode[]): Map<string, NodeDefinition> =>
  new Map(nodes.map((written) => [written.name, node(written)]));

interface WrittenFunction {
  readonly name: string;
  readonly parameters: readonly string[];
  readonly results: readonly string[];
  readonly nodes: readonly WrittenNode[];
}

function functionOf({ nodes, ...rest }: WrittenFunction): FunctionDefinition {
  return { ...rest, controlResults: [], nodes: named(nodes) };
}

/** Walks with a visitor that records the nodes it saw; Identity passes its input through. */
function walk(
  nodes: readonly WrittenNode[],
  functions: readonly WrittenFunction[] = [],
): { readonly walk: GraphWalk; readonly seen: string[] } {
  const graph: GraphDefinition = {
    nodes: named(nodes),
    functions: new Map(functions.map((written) => [written.name, functionOf(written)])),
  };
  const seen: string[] = [];
  const operations = new OperationTable(new Map());
  return {
    seen,
    walk: new GraphWalk(graph, operations, ({ name, op }, inputs) => {
      seen.push(name);
      return op === "Identity" ? inputs : [{ dtype: "int32", shape: [] }];
    }),
  };
}

const truth = (isTrue: boolean): GraphValue =>
  constantValue({ dtype: "bool", shape: [], data: Uint8Array.of(Number(isTrue)) });

describe("GraphWalk", () => {
  test("visits what is wanted and nothing else, each node after its inputs", () => {
    const { walk: graph, seen } = walk([
      { name: "sum", op: "AddV2", inputs: ["left:0", "right", "^effect"] },
      { name: "left", op: "Const" },
      { name: "right", op: "Identity", inputs: ["left"] },
      { name: "effect", op: "NoOp" },
      { name: "unused", op: "Const" },
    ]);

    graph.valuesOf(["sum:0"], new Map());

    expect(seen).toEqual(["left", "right", "effect", "sum"]);
  });

  test("orders a chain of 100,000 nodes without recursion", () => {
    const chain = Array.from({ length: 100_000 }, (_, index) => ({
      name: `n${index}`,
      op: "Identity",
      inputs: [index === 0 ? "start" : `n${index - 1}`],
    }));
    const { walk: graph } = walk(chain);
    const start: GraphValue = { dtype: "int32", shape: [] };

    const [end] = graph.valuesOf(["n99999"], new Map([["start", start]]));

    expect(end).toBe(start);
  });

  test("follows the branch that a constant chooses, and leaves others to the visitor", () => {
    const branch = (name: string, result: string): WrittenFunction => ({
      name,
      parameters: ["a", "b"],
      results: [result],
      nodes: [],
    });
    const attributes = {
      then_branch: functionNamed("first"),
      else_branch: functionNamed("second"),
    };
    const choose = { name: "if", op: "StatelessIf", inputs: ["p", "x", "y"], attributes };
    const [x, y]: GraphValue[] = [
      { dtype: "int32", shape: [] },
      { dtype: "int32", shape: [] },
    ];
    const chosen = [true, false].map((isTrue) => {
      const { walk: graph } = walk([choose], [branch("first", "a"), branch("second", "b")]);
      const fed = new Map([["p", truth(isTrue)]]).set("x", x!).set("y", y!);
      return graph.valuesOf(["if"], fed)[0];
    });

    expect(chosen[0]).toBe(x);
    expect(chosen[1]).toBe(y);
  });

  test.each<readonly [string, readonly WrittenNode[], readonly WrittenFunction[]]>([
    [
      "turns in a circle",
      [
        { name: "out", op: "Identity", inputs: ["loop"] },
        { name: "loop", op: "Identity", inputs: ["out"] },
      ],
      [],
    ],
    [
      "enable_control_flow_v2",
      [
        { name: "out", op: "Identity", inputs: ["merge"] },
        { name: "merge", op: "Merge", inputs: ["next"] },
        { name: "next", op: "NextIteration", inputs: ["merge"] },
      ],
      [],
    ],
    ["nothing defines", [{ name: "out", op: "Identity", inputs: ["nobody"] }], []],
    [
      "nest more than",
      [{ name: "out", op: "PartitionedCall", attributes: { f: functionNamed("again") } }],
      [
        {
          name: "again",
          parameters: [],
          results: ["call:output:0"],
          nodes: [
            { name: "call", op: "PartitionedCall", attributes: { f: functionNamed("again") } },
          ],
        },
      ],
    ],
    [
      "does not exist",
      [{ name: "out", op: "PartitionedCall", attributes: { f: functionNamed("missing") } }],
      [],
    ],
    [
      "passes 1 values for 0 parameters",
      [
        {
          name: "out",
          op: "PartitionedCall",
          inputs: ["x"],
          attributes: { f: functionNamed("empty") },
        },
        { name: "x", op: "Const" },
      ],
      [{ name: "empty", parameters: [], results: [], nodes: [] }],
    ],
  ])("refuses a graph that %s", (fault, nodes, functions) => {
    const { walk: graph } = walk(nodes, functions);

    expect(() => graph.valuesOf(["out"], new Map())).toThrow(fault);
  });

  test("refuses functions that call each other into a billion nodes", () => {
    const functions = Array.from({ length: 30 }, (_, level): WrittenFunction => {
      const f = functionNamed(`level${level + 1}`);
      const call = (name: string): WrittenNode => ({
        name,
        op: "PartitionedCall",
        attributes: { f },
      });
      const nodes = level === 29 ? [{ name: "b", op: "Const" }] : [call("a"), call("b")];
      const results = level === 29 ? ["b:output:0"] : ["a:output:0", "b:output:0"];
      return { name: `level${level}`, parameters: [], results, nodes };
    });
    const { walk: graph } = walk(
      [{ name: "out", op: "PartitionedCall", attributes: { f: functionNamed("level0") } }],
      functions,
    );

    expect(() => graph.valuesOf(["out"], new Map())).toThrow("grows beyond");
  });
});
