// Rows that a graph gathers by constants: which follow each other, and which are picked from a matrix.

import { expect, test } from "vitest";
import { constantValue } from "../graph-value.ts";
import { firstOfRun, pickedRows } from "./row-slice.ts";

const int32 = (...values: readonly number[]) =>
  ({ dtype: "int32", shape: [values.length], data: Int32Array.from(values) }) as const;
const int64 = (...values: readonly number[]) =>
  ({ dtype: "int64", shape: [values.length], data: BigInt64Array.from(values, BigInt) }) as const;
const MATRIX = {
  dtype: "float32",
  shape: [3, 2],
  data: Float32Array.of(0, 1, 10, 11, 20, 21),
} as const;

test("numbers that follow each other begin somewhere from 0 on", () => {
  expect(firstOfRun(constantValue(int32(1, 2, 3)))).toBe(1);
  expect(firstOfRun(constantValue(int64(0, 1)))).toBe(0);
  expect(firstOfRun(constantValue(int32(1, 3)))).toBeUndefined();
  expect(firstOfRun(constantValue(int32(2, 1)))).toBeUndefined();
  expect(firstOfRun(constantValue(int32(-1, 0)))).toBeUndefined();
  expect(firstOfRun(constantValue(int32()))).toBeUndefined();
  expect(firstOfRun({ dtype: "int32", shape: [2] })).toBeUndefined();
});

test("rows are picked in any order, also twice", () => {
  const picked = {
    dtype: "float32",
    shape: [4, 2],
    data: Float32Array.of(20, 21, 0, 1, 20, 21, 10, 11),
  };

  expect(pickedRows(MATRIX, int32(2, 0, 2, 1))).toEqual(picked);
  expect(pickedRows(MATRIX, int64(2, 0, 2, 1))).toEqual(picked);
});

test("no rows are picked that a matrix lacks: TensorFlow refuses each request", () => {
  expect(pickedRows(MATRIX, int32(0, 3))).toBeUndefined();
  expect(pickedRows(MATRIX, int32(-1, 0))).toBeUndefined();
  expect(pickedRows(MATRIX, int32())).toBeUndefined();
  expect(pickedRows(MATRIX, { ...int32(0, 1), shape: [1, 2] })).toBeUndefined();
  expect(pickedRows({ ...MATRIX, shape: [3, 1, 2] }, int32(0))).toBeUndefined();
});
