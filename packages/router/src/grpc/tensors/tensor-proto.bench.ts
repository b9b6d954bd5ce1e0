// What does a TensorProto cost, read and written here, beside proto-loader's own decoder and encoder?
// 100,000 float32 values; 1,000 strings of 8 bytes; 10,000 int64. One process, no clients.

import { ProtobufWriter, StringColumn, type Tensor } from "@winnow/core";
import { bench, describe } from "vitest";
import { messageType, shapeOf } from "../fixtures/grpc-client.ts";
import { TensorBudget } from "./tensor-budget.ts";
import { readTensorProto } from "./tensor-proto-reader.ts";
import { planTensorProto, writeTensorProto } from "./tensor-proto-writer.ts";

const proto = messageType("tensorflow.TensorProto");
const floats = Float32Array.from({ length: 100_000 }, (_, index) => Math.sin(index));
const texts = Array.from({ length: 1000 }, (_, index) => `user${1000 + index}`);
const longs = BigInt64Array.from({ length: 10_000 }, (_, index) => BigInt(index) ** 4n);

const CASES: readonly { title: string; tensor: Tensor; message: object }[] = [
  {
    title: "100,000 floats",
    tensor: { dtype: "float32", shape: [floats.length], data: floats },
    message: { dtype: 1, tensor_shape: shapeOf(floats.length), float_val: [...floats] },
  },
  {
    title: "1,000 strings",
    tensor: { dtype: "string", shape: [texts.length], data: StringColumn.fromText(texts) },
    message: {
      dtype: 7,
      tensor_shape: shapeOf(texts.length),
      string_val: texts.map((text) => Buffer.from(text)),
    },
  },
  {
    title: "10,000 int64",
    tensor: { dtype: "int64", shape: [longs.length], data: longs },
    message: {
      dtype: 9,
      tensor_shape: shapeOf(longs.length),
      int64_val: Array.from(longs, String),
    },
  },
];

function write(tensor: Tensor): Buffer {
  const plan = planTensorProto(tensor);
  const writer = new ProtobufWriter(plan.bytes);
  writeTensorProto(writer, plan);
  return writer.finish();
}

describe.each(CASES)("$title", ({ tensor, message }) => {
  const bytes = write(tensor);
  const expected = { name: "x", dtype: tensor.dtype };

  bench("read", () => {
    readTensorProto(bytes, expected, new TensorBudget(1 << 30));
  });
  bench("read by proto-loader", () => {
    proto.deserialize(bytes);
  });
  bench("write", () => {
    write(tensor);
  });
  bench("write by proto-loader", () => {
    proto.serialize(message);
  });
});
