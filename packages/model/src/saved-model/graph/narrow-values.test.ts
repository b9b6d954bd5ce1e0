// Half and bfloat16 values: what is visited as float32, and what is not.

import { describe, expect, test } from "vitest";
import { Attributes } from "./definition/attributes.ts";
import { narrowValue } from "./graph-value.ts";
import type { GraphValue } from "./graph-value.ts";
import type { GraphWalk } from "./graph-walk.ts";
import type { GraphDtype } from "./definition/graph-dtype.ts";
import type { Visit } from "./lowered-nodes.ts";
import { visitNarrow } from "./narrow-values.ts";

const wide: GraphValue = {
  dtype: "float32",
  shape: [4, 2],
  stored: { kind: "bundle", key: "rows" },
};
const half = narrowValue("half", wide);
const computedHalf: GraphValue = { dtype: "half", shape: [4, 2] };

/** Visits a node, and notes what it is visited as. */
function visited(
  op: string,
  inputs: readonly GraphValue[],
  outputDtypes: readonly GraphDtype[],
): { readonly seen: Visit[]; readonly outputs: readonly GraphValue[] } {
  const seen: Visit[] = [];
  const node = { op, name: "node", attributes: new Attributes("node", new Map()), outputDtypes };
  const visit = { node, inputs, walk: undefined as unknown as GraphWalk };
  const outputs = visitNarrow(visit, (given) => {
    seen.push(given);
    return given.node.outputDtypes.map((dtype) => ({ dtype, shape: [2] }));
  });
  return { seen, outputs };
}

describe("half values", () => {
  test("cast to float32 are the stored values themselves", () => {
    const { seen, outputs } = visited("Cast", [half], ["float32"]);

    expect(seen).toEqual([]);
    expect(outputs).toEqual([wide]);
  });

  test("cast to another type are cast from float32", () => {
    const { seen, outputs } = visited("Cast", [half], ["int64"]);

    expect(seen[0]?.inputs).toEqual([wide]);
    expect(outputs[0]?.dtype).toBe("int64");
  });

  test.each(["Transpose", "GatherV2", "ConcatV2", "ResourceGather"])(
    "are picked by %s as float32, and are half again",
    (op) => {
      const { seen, outputs } = visited(op, [half], ["half"]);

      expect(seen[0]?.inputs).toEqual([wide]);
      expect(seen[0]?.node.outputDtypes).toEqual(["float32"]);
      expect(outputs[0]).toMatchObject({ dtype: "half", widened: { dtype: "float32" } });
    },
  );

  test("tell their shape as float32 values do", () => {
    expect(visited("Shape", [half], ["int32"]).seen[0]?.inputs).toEqual([wide]);
  });

  test("are computed with as float32, and are to be rounded before the next operation", () => {
    const { seen, outputs } = visited("MatMul", [half, half], ["half"]);

    expect(seen[0]?.inputs).toEqual([wide, wide]);
    expect(seen[0]?.node.outputDtypes).toEqual(["float32"]);
    expect(outputs[0]).toMatchObject({ dtype: "half", isUnrounded: true });
    const next = visited("Relu", [outputs[0]!], ["half"]).seen;
    expect(next.map(({ node }) => node.op)).toEqual(["RoundToNarrow", "Relu"]);
    expect(next[0]?.node.attributes.type("DstT")).toBe(19);
  });

  test.each(["TopKV2", "Max", "Relu"])("are not rounded again behind %s", (op) => {
    const [computed] = visited("MatMul", [half, half], ["half"]).outputs;
    const { seen, outputs } = visited(op, [computed!], ["half"]);

    expect(seen.map(({ node }) => node.op)).toEqual(["RoundToNarrow", op]);
    expect(outputs[0]).toMatchObject({ dtype: "half" });
    expect(outputs[0]).not.toHaveProperty("isUnrounded");
  });

  test("that were cast from float32 are picked as they were, and rounded when they are computed with", () => {
    const [cast] = visited("Cast", [wide], ["bfloat16"]).outputs;
    const [picked] = visited("GatherV2", [cast!], ["bfloat16"]).outputs;

    expect(cast).toMatchObject({ dtype: "bfloat16", widened: wide, isUnrounded: true });
    expect(visited("GatherV2", [cast!], ["bfloat16"]).seen.map(({ node }) => node.op)).toEqual([
      "GatherV2",
    ]);
    const { seen } = visited("Cast", [picked!], ["float32"]);
    expect(seen.map(({ node }) => node.op)).toEqual(["RoundToNarrow"]);
    expect(visited("Cast", [half], ["bfloat16"]).outputs[0]).toMatchObject({
      dtype: "bfloat16",
      widened: wide,
      isUnrounded: true,
    });
  });

  test.each([
    ["picked from what was computed", "Transpose", computedHalf, "half"],
    ["cast after they were computed", "Cast", computedHalf, "float32"],
  ] as const)("stay half where they are %s", (...situation) => {
    const [, op, input, dtype] = situation;
    const { seen, outputs } = visited(op, [input], [dtype]);

    expect(seen[0]?.inputs).toEqual([input]);
    expect(outputs[0]).toEqual({ dtype, shape: [2] });
  });
});
