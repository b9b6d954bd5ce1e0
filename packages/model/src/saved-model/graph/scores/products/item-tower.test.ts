// Graphs of items that are large for a reader rather than for a worker: values that many operations share, and chains
// without an end. What towers are read as is compared with TensorFlow's answers (test/oracle.test.ts).

import { expect, test } from "vitest";
import { Attributes } from "../../definition/attributes.ts";
import { constantValue } from "../../graph-value.ts";
import type { GraphValue, OperationNode } from "../../graph-value.ts";
import { TowerReading } from "./item-tower.ts";

const ITEMS = 5;
const stored = constantValue({
  dtype: "float32",
  shape: [ITEMS, 2],
  data: new Float32Array(ITEMS * 2),
});

/** What an operation gives of values of all items. */
function made(op: string, ...inputs: readonly GraphValue[]): GraphValue {
  const attributes = new Attributes(op, new Map());
  const node: OperationNode = { kind: "operation", op, name: op, attributes, inputs, outputs: [] };
  const value: GraphValue = { dtype: "float32", shape: [ITEMS, 2], producer: node };
  node.outputs = [value];
  return value;
}

/** So many doublings, one of the other. */
function doubled(value: GraphValue, times: number): GraphValue {
  let last = value;
  for (let time = 0; time < times; time += 1) last = made("Maximum", last, last);
  return last;
}

const reading = (): TowerReading => new TowerReading(ITEMS, () => undefined);

test("a value that operations share is read once, whether it is one of items or not", () => {
  const [known, unknown] = [stored, made("Cumsum", stored)];

  expect(reading().valuesOf(doubled(known, 100))).toEqual({ of: 100, shape: [2] });
  expect(reading().valuesOf(doubled(unknown, 100))).toBeUndefined();
});

test("a chain of more operations than a tower may have is none", () => {
  expect(reading().valuesOf(doubled(stored, 300))).toBeUndefined();
  expect(reading().valuesOf(doubled(stored, 100_000))).toBeUndefined();
});
