// The error of a dense part whose request has inputs of unequal lengths: told by their lengths where sizes are what it
// failed on, and left as it is everywhere else.

import { describe, expect, test } from "vitest";
import { WinnowError } from "../errors/errors.ts";
import { stringTensor } from "../tensor/tensor.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { tensorOf } from "./operations/tensor-memory.ts";
import type { SignatureTensor } from "./program.ts";
import { errorOfLengths } from "./unequal-inputs.ts";

/** ONNX Runtime's own words. */
const CONCATENATED = new WinnowError(
  "INVALID_ARGUMENT",
  "Non-zero status code returned while running Concat node. Name:'n2' Status Message: concatbase.h:133 PrepareForComputeImpl Non concat axis dimensions must match: Axis 0 has mismatched dimensions of 3 and 2",
);
const ADDED = new WinnowError(
  "INVALID_ARGUMENT",
  "Non-zero status code returned while running Add node. Name:'' Status Message: element_wise_ops.h:583 Append axis == 1 || axis == largest was false. Attempting to broadcast an axis by a dimension other than 1. 2 by 3",
);

function input(name: string, shape: readonly number[] | undefined = [-1]): SignatureTensor {
  return { name, graphTensor: `${name}:0`, value: 0, dtype: "string", shape };
}

function texts(count: number): Tensor {
  return stringTensor(Array.from({ length: count }, () => "text"));
}

const PAIR = [input("user"), input("movie")];
const unequal = new Map([
  ["user", texts(2)],
  ["movie", texts(3)],
]);

describe("inputs of unequal lengths", () => {
  test.each([CONCATENATED, ADDED])("are named with their lengths: %s", (error) => {
    const told = errorOfLengths(error, { inputs: PAIR }, unequal);

    expect(told).toMatchObject({
      code: "INVALID_ARGUMENT",
      message: "Input tensors must have equal 0th-dimension size: user has 2, movie has 3",
      cause: error,
    });
  });

  test("are named up to eight of them", () => {
    const inputs = Array.from({ length: 10 }, (_, at) => input(`i${at}`, undefined));
    const given = new Map(inputs.map(({ name }, at) => [name, texts(at + 1)]));

    const told = errorOfLengths(CONCATENATED, { inputs }, given) as WinnowError;

    expect(told.message).toMatch(/i7 has 8 and 2 more$/);
  });

  test.each([
    ["another fault", new WinnowError("INVALID_ARGUMENT", "indices element out of data bounds")],
    ["overload", new WinnowError("RESOURCE_EXHAUSTED", "no room for a tensor of this shape")],
    ["a bug", new RangeError("dimension")],
  ])("are not named for %s", (_title, error) => {
    expect(errorOfLengths(error, { inputs: PAIR }, unequal)).toBe(error);
  });

  test("are not what failed where the lengths that are free are equal", () => {
    const scalar = tensorOf("string", [], texts(1).data);
    const inputs = [...PAIR, input("k", []), input("weights", [7])];
    const given = new Map([
      ["user", texts(2)],
      ["movie", texts(2)],
      ["k", scalar],
      ["weights", texts(7)],
    ]);

    expect(errorOfLengths(CONCATENATED, { inputs }, given)).toBe(CONCATENATED);
  });

  test("are those of a sparse input always", () => {
    const parts = ["values", "indices", "dense_shape"].map((part) => `args/${part}`);
    const inputs = parts.map((name) => input(name, undefined));
    const given = new Map(parts.map((name, at) => [name, texts(at + 1)]));

    expect(errorOfLengths(CONCATENATED, { inputs }, given)).toBe(CONCATENATED);
  });
});
