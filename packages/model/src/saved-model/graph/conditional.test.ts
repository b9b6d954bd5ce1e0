// What conditionals become: both branches under their conditions, and a choice for each result.

import { describe, expect, test } from "vitest";
import { Attributes } from "./definition/attributes.ts";
import type { AttributeValue } from "./definition/attributes.ts";
import type { FunctionDefinition, NodeDefinition } from "./definition/graph-definition.ts";
import type { GraphSources } from "./sources/graph-sources.ts";
import type { GraphValue } from "./graph-value.ts";
import { GraphWalk } from "./graph-walk.ts";
import { Lowering } from "./lowered-nodes.ts";
import { visitNode } from "./lowering.ts";
import { OperationTable } from "./definition/operation-table.ts";
import { placeNodes } from "./placement-of-nodes.ts";
import type { TableRegistry } from "./tables/table-registry.ts";

const FLOAT: AttributeValue = { kind: "type", value: 1 };
const INT32: AttributeValue = { kind: "type", value: 3 };
const functionNamed = (value: string): AttributeValue => ({ kind: "function", value });

type Written = readonly [name: string, op: string, inputs?: readonly string[]];

function nodeOf([name, op, inputs = []]: Written, more: Record<string, AttributeValue> = {}) {
  const own = { T: FLOAT, dtype: FLOAT, SrcT: FLOAT, DstT: INT32, ...more };
  const attributes = new Attributes(name, new Map(Object.entries(own)));
  return [name, { name, op, inputs, attributes }] satisfies [string, NodeDefinition];
}

function functionOf(
  name: string,
  results: readonly string[],
  nodes: readonly Written[] = [],
): [string, FunctionDefinition] {
  const bodies = new Map(nodes.map((node) => nodeOf(node)));
  return [name, { name, parameters: ["x", "a", "b"], results, controlResults: [], nodes: bodies }];
}

const predicate: GraphValue = { dtype: "bool", shape: [] };
const x: GraphValue = { dtype: "float32", shape: [-1, 4] };
const handleOf = (name: string): GraphValue => {
  return { dtype: "resource", shape: [], resource: { kind: "variable", name } };
};

/** Lowers `cond(p, yes(x), no(x))`. */
function lowered(yes: [string, FunctionDefinition], no: [string, FunctionDefinition]) {
  const branches = { then_branch: functionNamed(yes[0]), else_branch: functionNamed(no[0]) };
  const nodes = new Map([nodeOf(["cond", "StatelessIf", ["p", "x", "a", "b"]], branches)]);
  const lowering = new Lowering({} as GraphSources, {} as TableRegistry);
  const graph = { nodes, functions: new Map([yes, no]) };
  const walk = new GraphWalk(graph, new OperationTable(new Map()), (node, inputs) =>
    visitNode(lowering, { node, inputs, walk }),
  );
  const given = new Map([
    ["p", predicate],
    ["x", x],
    ["a", handleOf("a")],
    ["b", handleOf("b")],
  ]);
  const count = yes[1].results.length;
  const wanted = Array.from({ length: count }, (_, at) => `cond:output:${at}`);
  return { lowering, outputs: walk.valuesOf(wanted, given) };
}

describe("a conditional", () => {
  test("runs the nodes of each branch under its condition, and chooses", () => {
    const { lowering, outputs } = lowered(
      functionOf("yes", ["n:y:0"], [["n", "Neg", ["x"]]]),
      functionOf("no", ["s:y:0"], [["s", "Square", ["x"]]]),
    );

    expect(lowering.nodes.map(({ kind, when }) => [kind, when?.isTrue])).toEqual([
      ["operation", true],
      ["operation", false],
      ["choice", undefined],
    ]);
    expect(lowering.nodes[0]!.when?.predicate).toBe(predicate);
    expect(outputs[0]).toMatchObject({ dtype: "float32", shape: [-1, 4] });
  });

  test("gives what is the same in both branches as it is", () => {
    const { lowering, outputs } = lowered(functionOf("yes", ["x"]), functionOf("no", ["x"]));

    expect(outputs).toEqual([x]);
    expect(lowering.nodes).toEqual([]);
  });

  test("has of a shape what both branches agree on", () => {
    const cut: Written = ["s", "Sum", ["x", "axes"]];
    const { outputs } = lowered(
      functionOf("yes", ["x"]),
      functionOf("no", ["s:output:0"], [cut, ["axes", "Identity", ["x"]]]),
    );

    expect(outputs[0]?.shape).toBeUndefined();
  });

  test("lets nodes behind it wait for both branches", () => {
    const { lowering, outputs } = lowered(
      functionOf("yes", ["n:y:0"], [["n", "Neg", ["x"]]]),
      functionOf("no", ["x"]),
    );
    const attributes = new Attributes("after", new Map());
    const node = { op: "Tanh", name: "after", attributes, outputDtypes: ["float32"] as const };
    const after = lowering.operation(node, [outputs[0]!]);

    const { places } = placeNodes(lowering.nodes, new Set());

    expect([...places.values()].map(({ side, phase }) => [side, phase])).toEqual([
      ["dense", 1],
      ["remote", 1],
      ["dense", 2],
    ]);
    expect(places.get(after)?.phase).toBe(2);
  });

  test.each([
    [
      "INVALID_ARGUMENT",
      "has branches with 1 and 2 results",
      functionOf("yes", ["x"]),
      functionOf("no", ["x", "x"]),
    ],
    [
      "INVALID_ARGUMENT",
      "gives float32 or int32 values",
      functionOf("yes", ["x"]),
      functionOf("no", ["c:y:0"], [["c", "Cast", ["x"]]]),
    ],
    [
      "UNIMPLEMENTED",
      "chooses between two resource values",
      functionOf("yes", ["a"]),
      functionOf("no", ["b"]),
    ],
  ])("is %s where it %s", (code, fault, ...branches) => {
    const refusal = expect.objectContaining({
      code,
      message: expect.stringContaining(fault) as string,
    }) as Error;

    expect(() => lowered(...branches)).toThrow(refusal);
  });
});
