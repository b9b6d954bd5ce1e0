// The names under which sums are asked, and what is no such name.

import { describe, expect, test } from "vitest";
import type { BoundFunction } from "./score-functions.ts";
import {
  functionsInSums,
  isSumsAttribute,
  readSums,
  sumsAttribute,
  sumsText,
} from "./sums-attribute.ts";

const functions: readonly BoundFunction[] = [
  { op: "Tanh" },
  { op: "Add", numbers: Float32Array.of(1.5, -Infinity, NaN) },
  { op: "Mul", numbers: Float32Array.of(0.1) },
];

describe("a name of sums", () => {
  test("tells some queries' functions, of which the numbers keep their bits", () => {
    const name = sumsAttribute(functions, { firstRow: 1, endRow: 3 }, true);

    expect(functionsInSums(name, 2)).toEqual([
      { op: "Tanh" },
      { op: "Add", numbers: Float32Array.of(-Infinity, NaN) },
      { op: "Mul", numbers: Float32Array.of(0.1) },
    ]);
    expect(isSumsAttribute(name)).toBe(true);
  });

  test("is the plain one, which workers of any release know, where all rows count as they are", () => {
    const queries = { firstRow: 0, endRow: 1 };

    expect(sumsAttribute([], queries, true)).toBe("$sums");
    expect(sumsAttribute([], queries, false)).toBe("$sums:[]");
    expect(functionsInSums("$sums", 1)).toBeUndefined();
    expect(isSumsAttribute("$vector")).toBe(false);
  });

  test.each([
    "$sums:",
    "$sums:{}",
    '$sums:["Add"]',
    '$sums:[["Addd"]]',
    '$sums:[["Softmax"]]',
    '$sums:[["Add",1]]',
    '$sums:[["Add","AAAA"]]',
    '$sums:[["Add","AAAAAAAAAAAAAAAAAAAAAA=="]]',
    `$sums:${JSON.stringify(Array.from({ length: 129 }, () => ["Tanh"]))}`,
  ])("%s is none", (name) => {
    expect(() => functionsInSums(name, 2)).toThrow("names no sums of powers");
  });
});

test("an answer tells a sum, and the best value where functions were asked for", () => {
  expect(readSums(sumsText('[3,"17"]', undefined))).toEqual({ sum: '[3,"17"]', best: undefined });
  expect(readSums(sumsText("[]", -Infinity))).toEqual({ sum: "[]", best: -Infinity });
  expect(readSums(sumsText("null", -1.5e-8))).toEqual({ sum: "null", best: -1.5e-8 });
  expect(() => readSums('{"$vector":"AA"}')).toThrow("answered no sum");
});
