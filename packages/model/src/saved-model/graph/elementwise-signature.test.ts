// Which signatures mean the same for inputs of any shape. What TensorFlow answers for such inputs is recorded in
// test/data/savedmodels/elementwise.

import { describe, expect, test } from "vitest";
import { tensor } from "@winnow/core";
import { Attributes } from "./definition/attributes.ts";
import { isElementwiseSignature } from "./elementwise-signature.ts";
import type { GraphValue, LoweredNode, OperationNode } from "./graph-value.ts";

const value = (...shape: readonly number[]): GraphValue => ({ dtype: "float32", shape });
const X = value(-1, 1);
const HALF: GraphValue = {
  ...value(),
  constant: tensor("float32", [], Float32Array.of(0.5)),
};
const HALVES: GraphValue = {
  ...HALF,
  shape: [1],
  constant: tensor("float32", [1], Float32Array.of(0.5)),
};

function operation(op: string, inputs: readonly GraphValue[]): OperationNode {
  const attributes = new Attributes(op, new Map());
  return { kind: "operation", op, name: op, attributes, inputs, outputs: [value(-1, 1)] };
}

const isElementwise = (nodes: readonly LoweredNode[], outputs = nodes.at(-1)!.outputs): boolean =>
  isElementwiseSignature({ inputs: [X], outputs, nodes });

const product = operation("Mul", [HALF, X]);
const [halved] = product.outputs as [GraphValue];

describe("a signature is elementwise", () => {
  test("whose values are computed of one value each and of numbers", () => {
    expect(isElementwise([product, operation("AddV2", [halved, HALF])])).toBe(true);
    expect(isElementwise([product, operation("Maximum", [halved, X])])).toBe(true);
  });

  test.each([
    ["an operation reads other values", [operation("Mean", [X])]],
    ["a constant has a place of its own", [operation("Mul", [HALVES, X])]],
    ["a value of another number has the number's shape", [operation("Sqrt", [HALF])]],
    ["an operation goes by the rank of what it reads", [operation("Select", [X, X, X])]],
    ["a value comes of a branch", [{ ...product, when: { predicate: X, isTrue: true } }]],
  ])("not where %s", (_, nodes) => {
    expect(isElementwise(nodes)).toBe(false);
  });

  test("not where an output is a constant, or nothing is computed", () => {
    expect(isElementwise([product], [halved, HALF])).toBe(false);
    expect(isElementwise([], [X])).toBe(false);
  });
});
