// Every dtype has its name and its array.

import { expect, test } from "vitest";

import { dtypeArrays, isBigInts, isDtype } from "./dtype.ts";

test.each([
  ["float32", 32, [0.5, -1]],
  ["float64", 64, [0.1, -1]],
  ["int8", 8, [127, -128]],
  ["uint8", 8, [255, 0]],
  ["int16", 16, [32_767, -32_768]],
  ["uint16", 16, [65_535, 0]],
  ["int32", 32, [2 ** 31 - 1, -(2 ** 31)]],
  ["uint32", 32, [2 ** 32 - 1, 0]],
  ["bool", 8, [1, 0]],
] as const)("%s takes %d bits and keeps its extremes", (dtype, bits, extremes) => {
  const data = new dtypeArrays[dtype](2);
  data.set(extremes);

  expect(8 * dtypeArrays[dtype].BYTES_PER_ELEMENT).toBe(bits);
  expect([...data]).toEqual(extremes);
  expect(isBigInts(data)).toBe(false);
});

test.each([
  ["int64", [2n ** 63n - 1n, -(2n ** 63n)]],
  ["uint64", [2n ** 64n - 1n, 0n]],
] as const)("%s keeps its extremes, as bigints", (dtype, extremes) => {
  const data = new dtypeArrays[dtype](new ArrayBuffer(16));
  data.set(extremes);

  expect([...data]).toEqual(extremes);
  expect(isBigInts(data)).toBe(true);
});

test("names that are no dtype are none, whatever objects inherit", () => {
  expect(["float32", "string", "bool"].every(isDtype)).toBe(true);
  expect(["half", "", "Float32", "toString", "__proto__"].some(isDtype)).toBe(false);
});
