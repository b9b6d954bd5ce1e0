// Work that is told before a step runs: too little, and the event loop stands still for what few strings become.

import { expect, test } from "vitest";
import { stringTensor } from "../../tensor/tensor.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { tensorWork, stepWork } from "./host-work.ts";
import type { Attribute, HostStep } from "../program.ts";
import { tensorOf } from "./tensor-memory.ts";

const step = (op: string, attributes: Record<string, Attribute> = {}): HostStep => {
  return { kind: "host", op, node: op, attributes, inputs: [], outputs: [] };
};
const integers = (shape: readonly number[], values: readonly number[]): Tensor =>
  tensorOf("int64", shape, BigInt64Array.from(values, BigInt));
const texts = (shape: readonly [number, number]): Tensor =>
  stringTensor(Array<string>(shape[0] * shape[1]).fill("ab"), shape);

test("texts count their bytes and an object each, numbers one", () => {
  expect(tensorWork([stringTensor(["abc", ""]), integers([4], [1, 2, 3, 4])])).toBe(3 + 64 + 4);
  expect(stepWork(step("StringLower"), [stringTensor(["abc", ""])])).toBe(3 + 64);
  expect(stepWork(step("Add"), [integers([1], [1]), integers([1], [2])])).toBe(0);
});

test("numbers that become texts count as texts", () => {
  expect(stepWork(step("AsString"), [integers([3], [1, 22, 333])])).toBe(3 * 32);
});

test("texts that are broadcast count as often as they are made", () => {
  expect(stepWork(step("AddV2"), [texts([300, 1]), texts([1, 200])])).toBe(60_000 * 32);
  expect(stepWork(step("StringJoin"), [stringTensor(["a"], []), texts([5, 1])])).toBe(
    1 + 32 + 5 * 34,
  );
});

test("a regular expression whose parts repeat counts the square of each text", () => {
  const text = [stringTensor(["a".repeat(8192), "bb"])];
  const repeating = step("StaticRegexFullMatch", { pattern: "a+b" });
  expect(stepWork(repeating, text)).toBe(8192 ** 2 + 4);
  expect(stepWork(step("StaticRegexReplace", { pattern: "[!?]" }), text)).toBe(8194 + 64);
  const given = [...text, stringTensor(["a+b"], [])];
  expect(stepWork(step("RegexFullMatch"), given)).toBe(8192 ** 2 + 4);
  expect(stepWork(step("RegexFullMatch"), [...text, stringTensor(["("], [])])).toBe(8195 + 96);
});

test("crosses count as many as their columns have in each row", () => {
  const cross = step("SparseCross", { N: 1 });
  const entries = Array.from({ length: 300 }, (_, at) => at);
  const places = entries.flatMap((at) => [at % 10, Math.floor(at / 10)]);
  const sparse = [integers([300, 2], places), integers([300], entries), integers([2], [10, 30])];
  expect(stepWork(cross, [...sparse, texts([10, 20])])).toBe(10 * 30 * 20 * 32);
  // Indices [n, 2] and a separator are no columns.
  const separator = stringTensor(["_x_"], []);
  expect(stepWork(step("SparseCrossV2", { N: 1 }), [...sparse, separator])).toBe(300 * 32);
  const few = [texts([1, 3]), texts([1, 4])];
  expect(stepWork(step("SparseCross", { N: 0 }), few)).toBe(tensorWork(few));
});

const numbers = (...shape: number[]): Tensor =>
  tensorOf("float32", shape, new Float32Array(shape.reduce((count, size) => count * size, 1)));

test("many numbers count an eighth of a byte, and more where an operation is slow", () => {
  const many = numbers(80_000);
  expect(stepWork(step("Exp"), [many])).toBe(10_000);
  expect(stepWork(step("Where"), [many])).toBe(40_000);
  expect(stepWork(step("Unique"), [many])).toBe(160_000);
  expect(stepWork(step("Unique"), [numbers(60_000)])).toBe(0);
});

test.each<[string, Tensor[], number]>([
  ["AddV2", [numbers(1000, 1), numbers(1, 4000)], 4e6 / 8],
  ["Less", [numbers(4, 1000, 1), numbers(1000)], 4e6 / 8],
  ["SelectV2", [numbers(1000, 1), numbers(1, 4000), numbers(1)], 4e6 / 2],
  ["Tile", [numbers(1000), integers([1], [4000])], 4e6 / 8],
  ["Fill", [integers([2], [1000, 4000]), numbers()], 4e6 / 8],
  ["BroadcastTo", [numbers(1), integers([2], [1000, 4000])], 4e6 / 8],
  ["OneHot", [numbers(1000), integers([], [4000])], 4e6 / 8],
  ["Range", [integers([], [8]), integers([], [-8_000_000 + 8]), integers([], [-2])], 4e6 / 8],
  ["GatherV2", [numbers(20, 400), numbers(10_000), integers([], [0])], 4e6 / 2],
  ["GatherV2", [numbers(400, 20), numbers(10_000), integers([], [-1])], 4e6 / 2],
])("the numbers that %s makes of few count", (op, inputs, work) => {
  expect(stepWork(step(op), inputs)).toBe(work);
});

test("numbers that are gathered do not count as if they were broadcast", () => {
  const places = [numbers(1000, 64), numbers(1000), integers([], [0])];
  expect(stepWork(step("GatherV2"), places)).toBe(0);
});
