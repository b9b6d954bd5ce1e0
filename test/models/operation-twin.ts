// One operation asked twice: translated to ONNX and run by ONNX Runtime, and run on the host.

import { InferenceSession, Tensor as OnnxTensor } from "onnxruntime-node";
import { expect } from "vitest";
import { runHostStep, type Attribute, type Tensor } from "@winnow/core";
import {
  Attributes,
  type AttributeValue,
} from "../../packages/model/src/saved-model/graph/definition/attributes.ts";
import {
  constantValue,
  type GraphValue,
  type OperationNode,
} from "../../packages/model/src/saved-model/graph/graph-value.ts";
import { translate } from "../../packages/model/src/saved-model/graph/onnx/dense-translation.ts";
import { OnnxModel } from "../../packages/model/src/saved-model/graph/onnx/onnx-model.ts";

type Settings = Readonly<Record<string, number | boolean | string | readonly number[]>>;

/** An operation with its inputs and settings. */
export interface Question {
  readonly op: string;
  readonly inputs: readonly Tensor[];
  /** Positions of inputs the graph knows: axes, shapes, permutations. */
  readonly constants?: readonly number[];
  readonly settings?: Settings;
  readonly outputs?: readonly Tensor["dtype"][];
  /** Whether values must agree to 1e-5 of their size also where they are small. */
  readonly isRelative?: boolean;
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

/** What ONNX Runtime answers. */
export async function onDense(question: Question): Promise<Tensor[]> {
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

/** Both sides give the same types, shapes and, to 1e-5 of 1 or of their size, values. */
export async function expectAgreement(question: Question): Promise<void> {
  const [dense, host] = [await onDense(question), onHost(question)];
  for (const [index, expected] of host.slice(0, dense.length).entries()) {
    const got = dense[index]!;
    expect(got.dtype).toBe(expected.dtype);
    expect(got.shape).toEqual(expected.shape);
    const [a, b] = [got, expected].map(({ data }) => Array.from(data as Float32Array, Number));
    for (const [at, value] of b!.entries()) {
      const isClose =
        Object.is(a![at], value) || Math.abs(a![at]! - value) <= tolerance(value, question);
      expect(isClose, `${question.op}[${at}]: ${a![at]} for ${value}`).toBe(true);
    }
  }
}

const tolerance = (value: number, { isRelative = false }: Question): number =>
  1e-5 * Math.max(isRelative ? 0 : 1, Math.abs(value));
