// The k of a search, where requests say it.

import { describe, expect, test } from "vitest";
import { WinnowError } from "../errors/errors.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type { DenseStep, HostStep, SearchDepth, SignatureProgram, Step } from "./program.ts";
import { depthOf, depthText, errorOfDepth, requestedDepth } from "./search-depth.ts";
import { tensorOf } from "./operations/tensor-memory.ts";

const scalar = (value: number): Tensor => tensorOf("int32", [], Int32Array.of(value));
const host = (op: string, inputs: readonly number[], output: number): HostStep => {
  return { kind: "host", op, node: op, attributes: {}, inputs, outputs: [output] };
};
const search = (k: SearchDepth): Step & { readonly kind: "topK" } => {
  const outputs = { scores: 90, rows: undefined, ids: undefined };
  return { kind: "topK", table: 0, node: "top_k", query: 0, k, capped: false, ...outputs };
};

/** Inputs `query` (value 0) and `k` (value 1), the constant 10 (value 2), and these steps. */
function signatureOf(...steps: readonly Step[]): SignatureProgram {
  const shape = undefined;
  return {
    name: "serving_default",
    methodName: "tensorflow/serving/predict",
    inputs: [
      { name: "query", graphTensor: "query:0", value: 0, dtype: "float32", shape },
      { name: "k", graphTensor: "k:0", value: 1, dtype: "int32", shape },
    ],
    outputs: [],
    constants: [{ value: 2, tensor: scalar(10) }],
    steps,
  };
}

const asked = (signature: SignatureProgram, value: number, k: Tensor): number | undefined =>
  requestedDepth(signature, search({ value }), new Map([["k", k]]));

describe("a dense part that computes with what a search found", () => {
  const dense = (value: number): DenseStep => {
    const outputs = [{ name: "output_0", value: 95, dtype: "float32" }] as const;
    return { kind: "dense", model: 0, inputs: [{ name: "input_0", value }], outputs };
  };
  const refusal = new WinnowError("INVALID_ARGUMENT", "Got invalid dimensions for input: input_0");
  const told = (error: Error, step: DenseStep, k?: number): unknown => {
    const steps = [search(20), host("AddV2", [90, 2], 91), step];
    return errorOfDepth(error, step, { steps, k });
  };

  test.each([90, 91])("fails on another number of items by the request's k (value %d)", (value) => {
    expect(told(refusal, dense(value), 3)).toMatchObject({
      code: "INVALID_ARGUMENT",
      message:
        "k is 3, but the graph computes with the 20 items of its search (node top_k): ask without k",
      cause: refusal,
    });
  });

  test("keeps its own error where k is the graph's, where no search is read, and where sizes are not at fault", () => {
    const overload = new WinnowError("UNAVAILABLE", "dimension");
    const other = new WinnowError("INVALID_ARGUMENT", "divided by zero");

    expect(told(refusal, dense(90), 20)).toBe(refusal);
    expect(told(refusal, dense(90))).toBe(refusal);
    expect(told(refusal, dense(1), 3)).toBe(refusal);
    expect(told(overload, dense(90), 3)).toBe(overload);
    expect(told(other, dense(90), 3)).toBe(other);
  });
});

describe("the k of a search", () => {
  test("is the program's own number, or what an input says", () => {
    expect(requestedDepth(signatureOf(), search(7), new Map())).toBe(7);
    expect(asked(signatureOf(), 1, scalar(3))).toBe(3);
    expect(asked(signatureOf(), 2, scalar(3))).toBe(10);
  });

  test("is reckoned through the operations of the graph", () => {
    const signature = signatureOf(host("Minimum", [1, 2], 3), host("AddV2", [3, 2], 4));

    expect(asked(signature, 4, scalar(4))).toBe(14);
    expect(asked(signature, 4, scalar(400))).toBe(20);
  });

  test("is not known before the run where an operation refuses the input, or where a step asks a worker", () => {
    const lookup: Step = { kind: "lookup", table: 0, node: "gather", keys: 1, output: 3 };
    const vectors = [tensorOf("int32", [2], Int32Array.of(1, 2)), scalar(5)] as const;

    expect(asked(signatureOf(), 1, vectors[0])).toBeUndefined();
    expect(asked(signatureOf(lookup), 3, scalar(1))).toBeUndefined();
    expect(asked(signatureOf(host("Minimum", [1, 8], 3)), 3, scalar(1))).toBeUndefined();
  });

  test("is not reckoned through more operations than a graph needs", () => {
    const chain = (length: number): SignatureProgram =>
      signatureOf(
        ...Array.from({ length }, (_, at) => host("Minimum", [at === 0 ? 1 : at + 9, 2], at + 10)),
      );

    expect(asked(chain(16), 25, scalar(4))).toBe(4);
    expect(asked(chain(17), 26, scalar(4))).toBeUndefined();
  });

  test("must be a scalar, in TensorFlow's words", () => {
    const column = tensorOf("int32", [2, 1], Int32Array.of(1, 2));

    expect(() => depthOf(column)).toThrow("k must be scalar, got shape [2,1]");
  });

  test("is told by the name of its input", () => {
    const signature = signatureOf(host("Minimum", [1, 2], 3));

    expect([5, { value: 1 }, { value: 3 }].map((k) => depthText(signature, k))).toEqual([
      "5",
      'input "k"',
      "by the request",
    ]);
  });
});
