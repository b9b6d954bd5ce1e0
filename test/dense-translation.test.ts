// Operations that run on either side, in a dense part (ONNX Runtime) and on the host (TypeScript):
// given the same values they must answer alike. The host side is held to TensorFlow's own answers in
// `core`, so this holds the translations to them too.

import { InferenceSession, Tensor as OnnxTensor } from "onnxruntime-node";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runHostStep, type Attribute, type Tensor } from "@winnow/core";
import {
  Attributes,
  type AttributeValue,
} from "../packages/model/src/saved-model/graph/attributes.ts";
import {
  constantValue,
  type GraphValue,
  type OperationNode,
} from "../packages/model/src/saved-model/graph/graph-value.ts";
import { translate } from "../packages/model/src/saved-model/graph/onnx/dense-translation.ts";
import { OnnxModel } from "../packages/model/src/saved-model/graph/onnx/onnx-model.ts";

type Settings = Readonly<Record<string, number | boolean | string | readonly number[]>>;

interface Question {
  readonly op: string;
  readonly inputs: readonly Tensor[];
  /** Positions of inputs the graph knows: axes, shapes, permutations. */
  readonly constants?: readonly number[];
  readonly settings?: Settings;
  readonly outputs?: readonly Tensor["dtype"][];
}

function attributesOf(op: string, settings: Settings): Attributes {
  const entries = Object.entries(settings).map(([name, value]): [string, AttributeValue] => {
    if (typeof value === "boolean") return [name, { kind: "bool", value }];
    if (typeof value === "string") return [name, { kind: "bytes", value: Buffer.from(value) }];
    if (typeof value !== "number") {
      const list = value.map((item) => ({ kind: "int", value: item }) as const);
      return [name, { kind: "list", value: list }];
    }
    return [name, { kind: Number.isInteger(value) ? "int" : "float", value }];
  });
  return new Attributes(op, new Map(entries));
}

async function onDense(question: Question): Promise<Tensor[]> {
  const { op, inputs, constants = [], settings = {}, outputs = [inputs[0]!.dtype] } = question;
  const model = new OnnxModel();
  const feeds: Record<string, OnnxTensor> = {};
  const values = inputs.map((input, position): GraphValue => {
    if (constants.includes(position)) return constantValue(input);
    return { dtype: input.dtype, shape: input.shape };
  });
  const names = inputs.map((input, position) => {
    if (constants.includes(position)) return model.constant(input);
    const name = model.input(input.dtype, input.shape);
    feeds[name] = new OnnxTensor(input.dtype as "float32", input.data as Float32Array, input.shape);
    return name;
  });
  const node: OperationNode = {
    kind: "operation",
    op,
    name: op,
    attributes: attributesOf(op, settings),
    inputs: values,
    outputs: outputs.map((dtype) => ({ dtype, shape: undefined })),
  };
  const results = translate(model, node, names);
  const named = outputs.map((dtype, index) => model.output(results[index]!, dtype));
  const session = await InferenceSession.create(model.toBytes(), { intraOpNumThreads: 1 });
  const answers = await session.run(feeds);
  return named.map((name, index) => {
    const { dims, data } = answers[name]!;
    return { dtype: outputs[index]!, shape: [...dims], data } as Tensor;
  });
}

function onHost(question: Question): Tensor[] {
  const { op, inputs, settings = {}, outputs = [inputs[0]!.dtype] } = question;
  const attributes = settings as Readonly<Record<string, Attribute>>;
  const numbers = { inputs: inputs.map((_, id) => id), outputs: outputs.map((_, id) => 100 + id) };
  return runHostStep({ kind: "host", op, node: op, attributes, ...numbers }, inputs, []);
}

async function expectAgreement(question: Question): Promise<void> {
  const [dense, host] = [await onDense(question), onHost(question)];
  for (const [index, expected] of host.slice(0, dense.length).entries()) {
    const got = dense[index]!;
    expect(got.dtype).toBe(expected.dtype);
    expect(got.shape).toEqual(expected.shape);
    const [a, b] = [got, expected].map(({ data }) => Array.from(data as Float32Array, Number));
    for (const [at, value] of b!.entries()) {
      const isClose = Object.is(a![at], value) || Math.abs(a![at]! - value) <= tolerance(value);
      expect(isClose, `${question.op}[${at}]: ${a![at]} for ${value}`).toBe(true);
    }
  }
}

const tolerance = (value: number): number => 1e-5 * Math.max(1, Math.abs(value));

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
