// `InferTensorContents` against protobufjs, which reads and writes the .proto file independently.

import { ProtobufWriter, stringTensor } from "@winnow/core";
import type { Dtype, Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { messageType } from "../fixtures/grpc-client.ts";
import { KINDS, asMessageValues, bytesOf } from "../tensors/number-kinds.cases.ts";
import { TensorBudget } from "../tensors/tensor-budget.ts";
import { atOnce } from "../../turns/turns.ts";
import { contentsBytes, readingContents, writeContents } from "./tensor-contents.ts";

const proto = messageType("inference.InferTensorContents");
const FIELDS: Readonly<Record<Dtype, string>> = {
  bool: "bool_contents",
  int8: "int_contents",
  int16: "int_contents",
  int32: "int_contents",
  int64: "int64_contents",
  uint8: "uint_contents",
  uint16: "uint_contents",
  uint32: "uint_contents",
  uint64: "uint64_contents",
  float32: "fp32_contents",
  float64: "fp64_contents",
  string: "bytes_contents",
};

const budget = (bytesMax = 1 << 20): TensorBudget => new TensorBudget(bytesMax);

function read(contents: Uint8Array, dtype: Dtype, count: number): Tensor {
  return atOnce(readingContents(contents, { name: "x", dtype, shape: [count] }, budget()));
}

function write(tensor: Tensor): Buffer {
  const writer = new ProtobufWriter(0);
  writeContents(writer, tensor);
  return writer.finish();
}

describe.each(KINDS)("$dtype", (kind) => {
  test("is read as protobufjs writes it, and written as protobufjs reads it", () => {
    fc.assert(
      fc.property(fc.array(kind.value, { maxLength: 40 }), (values) => {
        const message = { [FIELDS[kind.dtype]]: asMessageValues(kind, values) };
        const data = kind.array(values);

        const tensor = read(proto.serialize(message), kind.dtype, values.length);
        const written = write(tensor);

        expect(bytesOf(tensor.data)).toEqual(bytesOf(data));
        expect(tensor.data.constructor).toBe(data.constructor);
        expect(written).toHaveLength(contentsBytes(tensor));
        expect(bytesOf(read(written, kind.dtype, values.length).data)).toEqual(bytesOf(data));
        expect(proto.deserialize(written)).toMatchObject(message);
      }),
    );
  });
});

test("strings are any bytes, also none", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 20 }), (values) => {
      const strings = values.map((value) => Buffer.from(value));
      const bytes = proto.serialize({ bytes_contents: strings });

      const tensor = read(bytes, "string", strings.length);

      expect(write(tensor)).toEqual(bytes);
      expect(contentsBytes(tensor)).toBe(bytes.length);
    }),
  );
});

test("values may come one by one, which is how protobuf 2 wrote them", () => {
  const bytes = new ProtobufWriter()
    .int(3, -1)
    .bytes(3, Buffer.from([2, 3]))
    .int(3, 4)
    .finish();

  expect([...(read(bytes, "int64", 4).data as BigInt64Array)]).toEqual([-1n, 2n, 3n, 4n]);
});

test.each<readonly [string, readonly [Buffer, Dtype, number], string]>([
  [
    "a value that its datatype does not hold",
    [new ProtobufWriter().int(2, 128).finish(), "int8", 1],
    'Input "x" has the value 128, which is no INT8',
  ],
  [
    "a value above those of its datatype",
    [new ProtobufWriter().int(4, 65_536).finish(), "uint16", 1],
    "65536, which is no UINT16",
  ],
  [
    "a float that is cut off",
    [new ProtobufWriter().bytes(6, Buffer.alloc(5)).finish(), "float32", 1],
    "cut off",
  ],
  ["a number without an end", [Buffer.from([0x1a, 2, 0x80, 0x80]), "int64", 0], "without an end"],
  [
    "floats as varints",
    [new ProtobufWriter().int(6, 1).finish(), "float32", 1],
    "unexpected layout",
  ],
  [
    "strings as varints",
    [new ProtobufWriter().int(8, 1).finish(), "string", 1],
    "unexpected layout",
  ],
  [
    "other values",
    [new ProtobufWriter().int(1, 1).finish(), "int32", 0],
    "values in bool_contents",
  ],
])("refuses %s", (_, contents, text) => {
  expect(() => read(...contents)).toThrow(text);
});

test.each<Dtype>(["bool", "int8", "int64", "float64", "string"])(
  "%s values are refused beyond the budget, whatever the message's size",
  (dtype) => {
    const values = dtype === "string" ? stringTensor(["a", "b", "c"]).data.toText() : [1, 0, 1];
    const sent = dtype === "string" ? values.map((each) => Buffer.from(String(each))) : values;
    const bytes = proto.serialize({ [FIELDS[dtype]]: sent });

    const reading = readingContents(bytes, { name: "x", dtype, shape: [3] }, budget(8));
    expect(() => atOnce(reading)).toThrow("at most 8 are allowed");
  },
);

describe("many values take several turns of the event loop", () => {
  const COUNT = 270_000;

  test.each(KINDS)("$dtype", ({ dtype, array }) => {
    const data = array(Array.from({ length: COUNT }, (_, at) => at % (dtype === "bool" ? 2 : 100)));
    const contents = write({ dtype, shape: [COUNT], data } as Tensor);
    const outline = { name: "x", dtype, shape: [COUNT] };
    const steps = readingContents(contents, outline, budget(2 ** 26));

    let pauses = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) pauses += 1;

    expect(pauses).toBeGreaterThan(0);
    expect(Buffer.compare(bytesOf(step.value.data), bytesOf(data))).toBe(0);
  });

  test("strings", () => {
    const texts = Array.from({ length: 100_000 }, (_, at) => `item ${at}`);
    const contents = write(stringTensor(texts));
    const outline = { name: "x", dtype: "string", shape: [texts.length] } as const;
    const steps = readingContents(contents, outline, budget(2 ** 26));

    let pauses = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) pauses += 1;

    expect(pauses).toBeGreaterThan(0);
    expect((step.value as Tensor & { dtype: "string" }).data.toText()).toEqual(texts);
  });
});
