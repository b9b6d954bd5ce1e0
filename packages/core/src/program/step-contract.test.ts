// Which inputs a signature refuses, and what it says of those that clients of TensorFlow Serving send.

import { describe, expect, test } from "vitest";

import { WinnowError } from "../errors/errors.ts";
import { tensor } from "../tensor/tensor.ts";
import { checkInputShape, checkInputs } from "./step-contract.ts";

const LIST = "each value stands in a list of its own, [[1],[2]] instead of [1,2]";
const NO_LIST = "each value stands in no list of its own, [1,2] instead of [[1],[2]]";

describe("a shape that is not the signature's", () => {
  test.each([
    { declared: [-1, 1], shape: [3], text: `must have shape [?,1], not [3]: ${LIST}` },
    { declared: [-1], shape: [3, 1], text: `must have shape [?], not [3,1]: ${NO_LIST}` },
    { declared: [-1, 2], shape: [3], text: "must have shape [?,2], not [3]" },
    { declared: [-1], shape: [3, 2], text: "must have shape [?], not [3,2]" },
    { declared: [-1], shape: [], text: "must have shape [?], not []" },
  ])("$declared and $shape: $text", ({ declared, shape, text }) => {
    const input = { name: "x", graphTensor: "x:0", value: 0, shape: declared };

    const check = (): void => checkInputShape({ ...input, dtype: "float32" }, shape);

    expect(check).toThrow(new WinnowError("INVALID_ARGUMENT", `Input "x" ${text}`));
  });
});

test("a signature whose operations work on one value at a time takes any shape, but no other type", () => {
  const input = {
    name: "x",
    graphTensor: "x:0",
    value: 0,
    shape: [-1, 1],
    dtype: "float32",
  } as const;
  const signature = {
    name: "s",
    methodName: "",
    inputs: [input],
    outputs: [],
    constants: [],
    steps: [],
  };
  const sent = new Map([["x", tensor("float32", [3], Float32Array.of(1, 2, 5))]]);
  const ofIntegers = new Map([["x", tensor("int32", [3], Int32Array.of(1, 2, 5))]]);

  expect(() => checkInputs(signature, sent)).toThrow("must have shape [?,1], not [3]");
  expect(() => checkInputs({ ...signature, isElementwise: true }, sent)).not.toThrow();
  expect(() => checkInputs({ ...signature, isElementwise: true }, ofIntegers)).toThrow(
    'Input "x" must be float32, not int32',
  );
});
