// Which inputs a signature refuses, and what it says of those that clients of TensorFlow Serving send.

import { describe, expect, test } from "vitest";

import { WinnowError } from "../errors/errors.ts";
import { type Tensor, tensor } from "../tensor/tensor.ts";
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

test("a signature whose operations work on one value at a time takes any one shape, but no other type", () => {
  const x = { name: "x", graphTensor: "x:0", value: 0, shape: [-1, 1], dtype: "float32" } as const;
  const y = { ...x, name: "y", value: 1 };
  const parts = { name: "s", methodName: "", outputs: [], constants: [], steps: [] };
  const signature = { ...parts, inputs: [x, y] };
  const row = tensor("float32", [3], Float32Array.of(1, 2, 5));
  const column = tensor("float32", [3, 1], row.data);
  const check = (isElementwise: boolean, one: Tensor, other: Tensor) => (): void => {
    const inputs = new Map([
      ["x", one],
      ["y", other],
    ]);
    checkInputs({ ...signature, isElementwise }, inputs);
  };

  expect(check(false, row, row)).toThrow("must have shape [?,1], not [3]");
  expect(check(true, row, row)).not.toThrow();
  // Of three rows and three columns nine values would come.
  expect(check(true, column, row)).toThrow('Input "y" must have shape [?,1], not [3]');
  expect(check(true, row, tensor("int32", [3], Int32Array.of(1, 2, 5)))).toThrow(
    'Input "y" must be float32, not int32',
  );
});
