// One refusal tells everything that a signature lacks, and blames no operation for another.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { Attributes } from "./definition/attributes.ts";
import type { GraphValue, OperationNode } from "./graph-value.ts";
import { refuseParsing } from "./missing-operations.ts";
import { placeNodes } from "./placement-of-nodes.ts";

const INPUT: GraphValue = { dtype: "float32", shape: [-1, 4] };

function operation(op: string, name: string, inputs: readonly GraphValue[]): OperationNode {
  const attributes = new Attributes(name, new Map());
  const node: OperationNode = { kind: "operation", op, name, attributes, inputs, outputs: [] };
  node.outputs = [{ dtype: "float32", shape: undefined, producer: node }];
  return node;
}

function refusalOf(nodes: readonly OperationNode[]): WinnowError {
  try {
    placeNodes(nodes, new Set());
  } catch (error) {
    if (error instanceof WinnowError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("a loop over strings", () => {
  test.each([
    [
      "ParseExampleV2",
      /ParseExampleV2 \(node parse\).* in the loop map\/while.*tf\.io\.parse_example/,
    ],
    ["ParseSingleExample", /tf\.io\.parse_example/],
    ["DecodeCSV", /DecodeCSV.*the whole batch at once/],
  ])("that has %s for each is refused with the way round", (op, advice) => {
    const nodes = [operation("AddV2", "sum", [INPUT]), operation(op, "parse", [INPUT])];

    expect(() => refuseParsing("map/while", nodes)).toThrow(advice);
  });

  test("without such an operation is not refused", () => {
    expect(() => refuseParsing("map/while", [operation("AddV2", "sum", [INPUT])])).not.toThrow();
  });
});

describe("a refusal of a signature", () => {
  test("names each missing operation once, with its first node and how many more use it", () => {
    const band = operation("Cholesky", "d/band", [INPUT]);
    const conv = operation("Conv3D", "d/conv", [INPUT]);
    const again = operation("Cholesky", "d/band_1", [conv.outputs[0]!]);

    const refusal = refusalOf([band, conv, again]);

    expect(refusal.code).toBe("UNIMPLEMENTED");
    expect(refusal.message).toBe(
      "2 operations are not supported: Cholesky (node d/band and 1 more), Conv3D (node d/conv)",
    );
  });

  test("names one operation that several nodes use as one", () => {
    const nodes = ["one", "other"].map((name) => operation("Cholesky", name, [INPUT]));

    expect(refusalOf(nodes).message).toBe(
      "1 operation is not supported: Cholesky (node one and 1 more)",
    );
  });

  test("does not blame an operation whose input only a missing operation could give", () => {
    const band = operation("Cholesky", "band", [INPUT]);
    const softmax = operation("LogSoftmax", "softmax", [band.outputs[0]!]);
    const product = operation("BatchMatMulV2", "product", [softmax.outputs[0]!, band.outputs[0]!]);

    expect(refusalOf([band, softmax, product]).message).toBe(
      "operation Cholesky (node band) is not supported",
    );
  });

  test.each([
    ["Scann>ScannSearchBatched", /BruteForce.*\n.*index_from_dataset.*\n.*saved_model\.save/],
    ["EagerPyFunc", /py_function calls Python/],
    ["RandomUniform", /training=False/],
    ["NextIteration", /control flow v2/],
    ["ParseSequenceExampleV2", /tf\.io\.RaggedFeature/],
    ["StatelessCase", /tf\.where/],
    ["XlaCallModule", /KERAS_BACKEND=tensorflow/],
  ])("tells the way round %s, once", (op, advice) => {
    const nodes = ["a", "b"].map((name) => operation(op, name, [INPUT]));

    const { message } = refusalOf(nodes);

    expect(message).toMatch(advice);
    expect(message.split(advice)).toHaveLength(2);
  });

  test("names a cast to a type that no value has, which would fail at each request", () => {
    const attributes = new Attributes("fp8", new Map([["DstT", { kind: "type", value: 24 }]]));
    const cast = operation("Cast", "fp8", [INPUT]);
    const narrow: OperationNode = { ...cast, attributes };
    narrow.outputs = [{ dtype: "invalid", shape: [-1, 4], producer: narrow }];

    const refusal = refusalOf([narrow]);

    expect(refusal.code).toBe("UNIMPLEMENTED");
    expect(refusal.message).toMatch(
      /^operation Cast \(node fp8\) gives values of \w+, which is not/,
    );
  });

  test("names an operation that nothing defines as one that is not supported", () => {
    const node = operation("DepthToSpace", "pixels", [INPUT]);
    node.outputs = [{ dtype: "invalid", shape: undefined, producer: node }];

    expect(refusalOf([node]).message).toBe("operation DepthToSpace (node pixels) is not supported");
  });

  test("stays short where thousands of operations are missing", () => {
    const nodes = Array.from({ length: 5000 }, (_, at) => operation(`Op${at}`, `n${at}`, [INPUT]));

    const { message } = refusalOf(nodes);

    expect(message).toMatch(/^5000 operations are not supported: Op0 .* and 4980 more$/);
    expect(message.length).toBeLessThan(2000);
  });
});
