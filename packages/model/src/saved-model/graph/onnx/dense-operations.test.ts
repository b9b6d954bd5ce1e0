// Operations on numbers compared with recorded answers of TensorFlow's own kernels (see
// test/data/record_dense_operations.py): as an ONNX model of one operation, with shapes that the graph
// knows and with shapes that only the request knows, and on the host, where it can run there too.

import { readFileSync } from "node:fs";
import { InferenceSession, Tensor as OnnxTensor } from "onnxruntime-node";
import { WinnowError, elementCount, isHostOperation, runHostStep } from "@winnow/core";
import type { Dtype, HostStep, Tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { Attributes } from "../definition/attributes.ts";
import type { AttributeValue } from "../definition/attributes.ts";
import { programAttributesOf } from "../constant-folding.ts";
import { constantValue } from "../graph-value.ts";
import type { GraphValue, OperationNode } from "../graph-value.ts";
import { inferShape } from "../shapes/shape-inference.ts";
import { refusalOfTranslation, translate } from "./dense-translation.ts";
import { OnnxModel } from "./onnx-model.ts";

type Plain = number | string | boolean;
type PlainTensor = readonly [Dtype, readonly number[], readonly Plain[]];

interface RecordedCase {
  readonly op: string;
  readonly attributes: Readonly<Record<string, readonly [string, unknown]>>;
  readonly constants: readonly number[];
  readonly inputs: readonly PlainTensor[];
  readonly outputs?: readonly PlainTensor[];
  readonly error?: { readonly code: string; readonly message: string };
}

const file = new URL("../../../../../../test/data/dense-operations.json", import.meta.url);
const { cases } = JSON.parse(readFileSync(file, "utf8")) as { readonly cases: RecordedCase[] };

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
  bool: Uint8Array,
} as const;

function tensorOf([dtype, shape, values]: PlainTensor): Tensor {
  if (dtype === "int64") {
    return { dtype, shape, data: BigInt64Array.from(values, (value) => BigInt(value)) };
  }
  const array = ARRAYS[dtype as keyof typeof ARRAYS];
  return { dtype, shape, data: array.from(values.map(Number)) } as Tensor;
}

function attributesOf({ attributes }: RecordedCase): Attributes {
  const own = Object.entries(attributes).map(([name, [kind, value]]): [string, AttributeValue] => {
    if (kind === "bytes") return [name, { kind, value: new TextEncoder().encode(String(value)) }];
    if (kind === "list") {
      const items = (value as number[]).map((item) => ({ kind: "int" as const, value: item }));
      return [name, { kind, value: items }];
    }
    return [name, { kind, value } as AttributeValue];
  });
  return new Attributes("node/under/test", new Map(own));
}

/** A value as a graph knows it: a constant, or one of which only type, rank and maybe sizes are known. */
function valueOf(tensor: Tensor, knows: "content" | "sizes" | "rank"): GraphValue {
  if (knows === "content") return constantValue(tensor);
  const shape = knows === "sizes" ? tensor.shape : tensor.shape.map(() => -1);
  return { dtype: tensor.dtype, shape };
}

function nodeOf(recorded: RecordedCase, knows: "sizes" | "rank"): OperationNode {
  const attributes = attributesOf(recorded);
  const inputs = recorded.inputs.map((input, at) =>
    valueOf(tensorOf(input), recorded.constants.includes(at) ? "content" : knows),
  );
  const { op } = recorded;
  const dtypes = recorded.outputs?.map(([dtype]) => dtype) ?? [recorded.inputs[0]![0]];
  const { shape } = inferShape({ op, name: "node/under/test", attributes }, inputs);
  const outputs = dtypes.map((dtype, at) => ({ dtype, shape: at === 0 ? shape : undefined }));
  return { kind: "operation", op, name: "node/under/test", attributes, inputs, outputs };
}

/** What a model of this one operation answers. */
async function denseAnswer(node: OperationNode, recorded: RecordedCase): Promise<Tensor[]> {
  const model = new OnnxModel();
  const feeds: Record<string, OnnxTensor> = {};
  const names = node.inputs.map((value, at) => {
    if (value.constant !== undefined) return model.constant(value.constant);
    const name = model.input(value.dtype as Dtype, value.shape);
    const { dtype, shape, data } = tensorOf(recorded.inputs[at]!);
    feeds[name] = new OnnxTensor(dtype as "float32", data as Float32Array, shape);
    return name;
  });
  const outputs = translate(model, node, names).map((name, at) =>
    model.output(name, node.outputs[at]!.dtype as Dtype),
  );
  const options = { logSeverityLevel: 4, intraOpNumThreads: 1 } as const;
  const session = await InferenceSession.create(model.toBytes(), options);
  const results = await session.run(feeds);
  await session.release();
  return outputs.map((name) => {
    const { type, dims, data } = results[name]!;
    return { dtype: type, shape: [...dims], data } as Tensor;
  });
}

function hostAnswer(recorded: RecordedCase): Tensor[] {
  const { op, inputs } = recorded;
  const attributes = programAttributesOf(attributesOf(recorded));
  const outputs = [...(recorded.outputs ?? [""]).keys()];
  const node = "node/under/test";
  const step: HostStep = { kind: "host", op, node, attributes, inputs: [], outputs };
  return runHostStep(step, inputs.map(tensorOf), []);
}

const RELATIVE_ERROR = 1e-5;

/** The first difference from the recorded outputs, or `undefined`. */
function differenceOf(answer: readonly Tensor[], recorded: RecordedCase): string | undefined {
  if (recorded.outputs === undefined) return `answered instead of ${recorded.error?.code}`;
  for (const [at, got] of answer.entries()) {
    const wanted = tensorOf(recorded.outputs[at]!);
    const kinds = [got, wanted].map(({ dtype, shape }) => `${dtype}[${shape.join(",")}]`);
    if (kinds[0] !== kinds[1]) return `output ${at} is ${kinds[0]}, not ${kinds[1]}`;
    for (let place = 0; place < elementCount(got.shape); place += 1) {
      const [a, b] = [Number(got.data[place as never]), Number(wanted.data[place as never])];
      const tolerance = got.dtype.startsWith("float")
        ? RELATIVE_ERROR * Math.max(1, Math.abs(b))
        : 0;
      const isSame =
        a === b || (Number.isNaN(a) && Number.isNaN(b)) || Math.abs(a - b) <= tolerance;
      if (!isSame) return `output ${at}[${place}] is ${a}, not ${b}`;
    }
  }
  return undefined;
}

/** What is wrong with an answer, or with the refusal that came instead. */
async function faultOf(
  recorded: RecordedCase,
  answer: () => Tensor[] | Promise<Tensor[]>,
): Promise<string | undefined> {
  let got: Tensor[];
  try {
    got = await answer();
  } catch (error) {
    return recorded.error === undefined ? String(error) : undefined;
  }
  return differenceOf(got, recorded);
}

/** Uses of an operation that only sizes which the graph knows allow, and that the host cannot run. */
const NEED_SIZES: ReadonlySet<string> = new Set([
  "Conv2DBackpropInput",
  "MatrixDiagPartV3",
  "MatrixSetDiagV3",
]);

/** What is wrong with the answers to some cases, in a dense part and on the host, where each can have them. */
async function faultsOf(all: readonly RecordedCase[]): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const [number, recorded] of all.entries()) {
    const { op } = recorded;
    for (const knows of ["sizes", "rank"] as const) {
      const node = nodeOf(recorded, knows);
      const refusal = refusalOfTranslation(node);
      const isCovered = isHostOperation(op) || (knows === "rank" && NEED_SIZES.has(op));
      const fault =
        refusal === undefined
          ? await faultOf(recorded, () => denseAnswer(node, recorded))
          : isCovered || recorded.error !== undefined
            ? undefined
            : refusal.message;
      if (fault !== undefined) faults.push(`case ${number}, dense, ${knows} known: ${fault}`);
    }
    if (!isHostOperation(op)) continue;
    const fault = await faultOf(recorded, () => hostAnswer(recorded));
    if (fault !== undefined) faults.push(`case ${number}, host: ${fault}`);
  }
  return faults;
}

describe("an operation answers as TensorFlow's kernel", () => {
  test.each([...new Set(cases.map(({ op }) => op))])("%s", async (op) => {
    expect(await faultsOf(cases.filter((each) => each.op === op))).toEqual([]);
  });

  test("the host refuses what TensorFlow refuses with TensorFlow's code", () => {
    const refused = cases.filter(({ op, error }) => error !== undefined && isHostOperation(op));

    const codes = refused.map((recorded) => {
      try {
        hostAnswer(recorded);
        return "none";
      } catch (error) {
        return error instanceof WinnowError ? error.code : String(error);
      }
    });

    expect(refused.length).toBeGreaterThan(5);
    expect(codes).toEqual(refused.map(({ error }) => error!.code));
  });
});

// What TensorFlow fills in where an axis has no values: tensorflow/core/kernels/reduction_ops.h, `Identity` of each
// reducer, which is NaN for a mean of floats, and Eigen's least and greatest values for a maximum and a minimum.
const OF_NOTHING: Readonly<Record<string, Readonly<Partial<Record<Dtype, Plain>>>>> = {
  Sum: { float32: 0, int32: 0, int64: "0" },
  Prod: { float32: 1, int32: 1, int64: "1" },
  Mean: { float32: NaN, int32: 0, int64: "0" },
  Max: { float32: -Infinity, int32: -(2 ** 31), int64: String(-(2n ** 63n)) },
  Min: { float32: Infinity, int32: 2 ** 31 - 1, int64: String(2n ** 63n - 1n) },
  Any: { bool: 0 },
  All: { bool: 1 },
};

describe("a reduction of an axis without values", () => {
  const reductions = Object.entries(OF_NOTHING).flatMap(([op, values]) =>
    Object.entries(values).map(([dtype, value]) => ({ op, dtype: dtype as Dtype, value })),
  );

  test.each(reductions)("$op of $dtype is $value, in a dense part and on the host", async (of) => {
    const { op, dtype, value } = of;
    const faults: string[] = [];
    for (const [shape, axes, kept, reduced] of [
      [[2, 0], [1], [2, 1], [2]],
      [[0, 3], [0], [1, 3], [3]],
      [[0, 3], [-2, 1], [1, 1], []],
      [[2, 0, 3], [0], [1, 0, 3], [0, 3]],
      [[2, 3], [], [2, 3], [2, 3]],
    ] as const) {
      for (const keeps of [true, false]) {
        const given = Array.from({ length: elementCount(shape) }, () => value);
        const where = `[${shape.join(",")}] over [${axes.join(",")}]`;
        const filled = keeps ? kept : reduced;
        const recorded: RecordedCase = {
          op,
          attributes: { T: ["type", 1], keep_dims: ["bool", keeps] },
          constants: [1],
          inputs: [
            [dtype, shape, given],
            ["int32", [axes.length], axes],
          ],
          outputs: [[dtype, filled, Array.from({ length: elementCount(filled) }, () => value)]],
        };
        for (const knows of ["sizes", "rank"] as const) {
          const node = nodeOf(recorded, knows);
          const fault = await faultOf(recorded, () => denseAnswer(node, recorded));
          if (fault !== undefined) faults.push(`dense, ${where}: ${fault}`);
        }
        const fault = await faultOf(recorded, () => hostAnswer(recorded));
        if (fault !== undefined) faults.push(`host, ${where}: ${fault}`);
      }
    }

    expect(faults).toEqual([]);
  });
});
