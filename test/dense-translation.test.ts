// Operations that run on either side, in a dense part (ONNX Runtime) and on the host (TypeScript):
// given the same values they must answer alike. The host side is held to TensorFlow's own answers in
// `core`, so this holds the translations to them too.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Tensor } from "@winnow/core";
import { expectAgreement, onDense, type Question } from "./models/operation-twin.ts";

const floats = (shape: readonly number[], seed: number): Tensor => {
  const count = shape.reduce((product, size) => product * size, 1);
  const data = Float32Array.from({ length: count }, (_, at) => Math.sin(at * 12.9898 + seed) * 3);
  return { dtype: "float32", shape, data };
};
const positive = (shape: readonly number[], seed: number): Tensor => {
  const { data } = floats(shape, seed);
  return { dtype: "float32", shape, data: (data as Float32Array).map((x) => Math.abs(x) + 0.25) };
};
const integers = (values: readonly number[], shape = [values.length]): Tensor => {
  return { dtype: "int32", shape, data: Int32Array.from(values) };
};
const scalar = (value: number): Tensor => integers([value], []);
const flags = (shape: readonly number[]): Tensor => {
  const { data } = floats(shape, 5);
  return {
    dtype: "bool",
    shape,
    data: Uint8Array.from(data as Float32Array, (x) => Number(x > 0)),
  };
};

const UNARY = "Abs,Neg,Square,Exp,Tanh,Sigmoid,Relu,Floor,Ceil,Round,Sign,OnesLike,ZerosLike";
const UNARY_POSITIVE = "Sqrt,Rsqrt,Log,Log1p,Reciprocal";
const BINARY = "Add,AddV2,Sub,Mul,RealDiv,Maximum,Minimum,SquaredDifference,DivNoNan,FloorMod";
const COMPARISONS = "Equal,NotEqual,Less,LessEqual,Greater,GreaterEqual";
const REDUCTIONS = "Sum,Mean,Max,Min,Prod";

describe("operations answer alike in a dense part and on the host", () => {
  test.each(UNARY.split(","))("%s", async (op) => {
    await expectAgreement({ op, inputs: [floats([3, 4], 1)] });
  });

  test("Sigmoid, with all digits of small probabilities", async () => {
    const data = Float32Array.of(
      -80,
      -30,
      -18,
      -17,
      -10,
      -5,
      -0,
      5,
      30,
      90,
      Infinity,
      -Infinity,
      NaN,
    );

    await expectAgreement({
      op: "Sigmoid",
      inputs: [{ dtype: "float32", shape: [data.length], data }],
      isRelative: true,
    });
  });

  test.each([
    ["Log1p", Math.log1p, [-1, -0.9, -1e-20, -0, 1e-30, 1e-9, 3e-8, 1e-4, 0.3, 0.5, 7, 1e30]],
    ["Expm1", Math.expm1, [-90, -3, -1e-20, -0, 1e-30, 1e-9, 3e-8, 1e-4, 0.3, 0.5, 7, 80]],
    ["Softplus", (x: number) => Math.log1p(Math.exp(x)), [-80, -30, -17, -3, -0, 1e-4, 9, 80]],
  ] as const)("%s has all digits of small values", async (op, compute, values) => {
    const data = Float32Array.of(...values, NaN, Infinity, -Infinity);

    const inputs = [{ dtype: "float32", shape: [data.length], data }] as const;
    const [answer] = await onDense({ op, inputs });

    const far = Array.from(answer!.data as Float32Array).flatMap((value, at) => {
      const right = Math.fround(compute(data[at]!));
      const isEqual = value === right || (Number.isNaN(value) && Number.isNaN(right));
      return isEqual || Math.abs(value / right - 1) < 1e-5 ? [] : [{ x: data[at], value, right }];
    });
    expect(far).toEqual([]);
  });

  test.each(UNARY_POSITIVE.split(","))("%s", async (op) => {
    await expectAgreement({ op, inputs: [positive([3, 4], 1)] });
  });

  test.each(BINARY.split(","))("%s, with broadcasting", async (op) => {
    await expectAgreement({ op, inputs: [floats([2, 3, 4], 1), positive([3, 1], 2)] });
  });

  test.each(COMPARISONS.split(","))("%s", async (op) => {
    const inputs = [floats([6], 1), floats([6], 1.5)];

    await expectAgreement({ op, inputs, outputs: ["bool"] });
  });

  test.each(REDUCTIONS.split(","))("%s over axes, kept or not, or none", async (op) => {
    const inputs = [floats([2, 3, 4], 3), integers([-1, 0])];
    for (const keep_dims of [true, false]) {
      await expectAgreement({ op, inputs, constants: [1], settings: { keep_dims } });
    }
    await expectAgreement({ op, inputs: [inputs[0]!, integers([])], constants: [1] });
  });

  test.each<readonly [string, Question]>([
    ["Any", { op: "Any", inputs: [flags([3, 4]), integers([1])], constants: [1] }],
    ["All", { op: "All", inputs: [flags([3, 4]), integers([0])], constants: [1] }],
    ["LogicalNot", { op: "LogicalNot", inputs: [flags([5])] }],
    ["LogicalAnd", { op: "LogicalAnd", inputs: [flags([5]), flags([5])] }],
    [
      "ArgMax",
      { op: "ArgMax", inputs: [floats([3, 4], 1), scalar(1)], constants: [1], outputs: ["int64"] },
    ],
    [
      "SelectV2",
      {
        op: "SelectV2",
        inputs: [flags([3, 1]), floats([3, 4], 1), floats([4], 2)],
        outputs: ["float32"],
      },
    ],
    [
      "Select by rows",
      {
        op: "Select",
        inputs: [flags([3]), floats([3, 4], 1), floats([3, 4], 2)],
        outputs: ["float32"],
      },
    ],
    [
      "ConcatV2",
      {
        op: "ConcatV2",
        inputs: [floats([2, 3], 1), floats([2, 1], 2), scalar(-1)],
        constants: [2],
      },
    ],
    ["Pack", { op: "Pack", inputs: [floats([2, 3], 1), floats([2, 3], 2)], settings: { axis: 1 } }],
    [
      "Unpack",
      {
        op: "Unpack",
        inputs: [floats([2, 3], 1)],
        settings: { axis: 1, num: 3 },
        outputs: ["float32", "float32", "float32"],
      },
    ],
    [
      "Split",
      {
        op: "Split",
        inputs: [scalar(1), floats([2, 4], 1)],
        constants: [0],
        settings: { num_split: 2 },
        outputs: ["float32", "float32"],
      },
    ],
    ["Reshape", { op: "Reshape", inputs: [floats([2, 6], 1), integers([3, -1])] }],
    ["ExpandDims", { op: "ExpandDims", inputs: [floats([2, 3], 1), scalar(-1)], constants: [1] }],
    ["Squeeze", { op: "Squeeze", inputs: [floats([2, 1, 3], 1)], settings: { squeeze_dims: [1] } }],
    [
      "Transpose",
      { op: "Transpose", inputs: [floats([2, 3, 4], 1), integers([2, 0, 1])], constants: [1] },
    ],
    ["Tile", { op: "Tile", inputs: [floats([2, 3], 1), integers([2, 1])] }],
    ["BroadcastTo", { op: "BroadcastTo", inputs: [floats([3, 1], 1), integers([2, 3, 4])] }],
    ["Shape", { op: "Shape", inputs: [floats([2, 3], 1)], outputs: ["int32"] }],
    ["Size", { op: "Size", inputs: [floats([2, 3], 1)], outputs: ["int32"] }],
    [
      "GatherV2",
      {
        op: "GatherV2",
        inputs: [floats([4, 3], 1), integers([3, 0, 3]), scalar(0)],
        constants: [2],
      },
    ],
    [
      "GatherV2 by rows",
      {
        op: "GatherV2",
        inputs: [floats([2, 4], 1), integers([3, 0, 1, 1], [2, 2]), scalar(1)],
        constants: [2],
        settings: { batch_dims: 1 },
      },
    ],
    [
      "OneHot",
      {
        op: "OneHot",
        inputs: [integers([0, 3, -1, 9]), scalar(4), floats([], 1), floats([], 2)],
        constants: [1],
        settings: { axis: -1 },
        outputs: ["float32"],
      },
    ],
    [
      "Cumsum",
      {
        op: "Cumsum",
        inputs: [floats([3, 4], 1), scalar(1)],
        constants: [1],
        settings: { exclusive: true, reverse: true },
      },
    ],
    [
      "TopKV2 with ties",
      {
        op: "TopKV2",
        inputs: [
          { dtype: "float32", shape: [1, 5], data: Float32Array.of(1, 2, 2, 0, 2) },
          scalar(4),
        ],
        constants: [1],
        outputs: ["float32", "int32"],
      },
    ],
    [
      "Slice",
      {
        op: "Slice",
        inputs: [floats([4, 5], 1), integers([1, 2]), integers([2, -1])],
        constants: [1, 2],
      },
    ],
  ])("%s", async (_, question) => {
    await expectAgreement(question);
  });

  test("StridedSlice with any mix of ranges, new axes, ellipsis and single elements", async () => {
    const value = floats([3, 4, 5], 1);
    const bits = fc.integer({ min: 0, max: 7 });
    const triple = (least: number, most: number): fc.Arbitrary<[number, number, number]> => {
      const one = fc.integer({ min: least, max: most });
      return fc.tuple(one, one, one);
    };
    const slices = fc.record({
      begin: triple(-3, 2),
      end: triple(-3, 3),
      strides: fc.tuple(
        ...([1, 1, 1].map(() => fc.constantFrom(1, 2, -1)) as [
          fc.Arbitrary<number>,
          fc.Arbitrary<number>,
          fc.Arbitrary<number>,
        ]),
      ),
      begin_mask: bits,
      end_mask: bits,
      shrink: bits,
      ellipsis: fc.constantFrom(0, 0, 1, 2, 4),
      added: bits,
    });

    await fc.assert(
      fc.asyncProperty(slices, async (slice) => {
        const { ellipsis, begin_mask, end_mask } = slice;
        const new_axis_mask = slice.added & ~ellipsis;
        const shrink_axis_mask = slice.shrink & ~ellipsis & ~new_axis_mask;
        // A single element is taken forwards; TensorFlow refuses anything else.
        const strides = slice.strides.map((stride, at) =>
          (shrink_axis_mask >> at) & 1 ? 1 : stride,
        );
        await expectAgreement({
          op: "StridedSlice",
          inputs: [value, integers(slice.begin), integers(slice.end), integers(strides)],
          constants: [1, 2, 3],
          settings: {
            begin_mask,
            end_mask,
            shrink_axis_mask,
            new_axis_mask,
            ellipsis_mask: ellipsis,
          },
        });
      }),
      { numRuns: 150 },
    );
  });
});
