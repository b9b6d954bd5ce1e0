// TensorProto both ways against protobufjs, which reads and writes the .proto files independently,
// and against TensorFlow's rules spelled out.

import { ProtobufWriter, StringColumn, elementCount, type Dtype, type Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { messageType, shapeOf, strings, type TensorMessage } from "../fixtures/grpc-client.ts";
import { KINDS, asMessageValues, bytesOf } from "./number-kinds.cases.ts";
import { TensorBudget } from "./tensor-budget.ts";
import { readTensorProto, readingTensorProto } from "./tensor-proto-reader.ts";
import { planTensorProto, writeTensorProto } from "./tensor-proto-writer.ts";

const proto = messageType("tensorflow.TensorProto");

function read(bytes: Uint8Array, dtype: Dtype, bytesMax = 1 << 20): Tensor {
  return readTensorProto(bytes, { name: "x", dtype }, new TensorBudget(bytesMax));
}

const readMessage = (message: object, dtype: Dtype): Tensor =>
  read(proto.serialize(message), dtype);

function write(tensor: Tensor): Buffer {
  const plan = planTensorProto(tensor);
  const writer = new ProtobufWriter(plan.bytes);
  writeTensorProto(writer, plan);
  return writer.finish();
}

function attempt<Value>(work: () => Value): Value | Error {
  try {
    return work();
  } catch (error) {
    return error as Error;
  }
}

const valuesOf = (tensor: Tensor): unknown[] =>
  tensor.dtype === "string" ? tensor.data.toText() : Array.from<unknown>(tensor.data);

const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 });

describe.each(KINDS)("$dtype", (kind) => {
  test("values in their field fill the shape; the last repeats, surplus is dropped", () => {
    fc.assert(
      fc.property(shapes, fc.array(kind.value, { maxLength: 40 }), (shape, values) => {
        const count = elementCount(shape);
        const last =
          values.at(-1) ?? (kind.dtype.endsWith("64") && kind.dtype !== "float64" ? 0n : 0);
        const filled = Array.from({ length: count }, (_, index) => values[index] ?? last);

        const tensor = readMessage(
          {
            dtype: kind.name,
            tensor_shape: shapeOf(...shape),
            [kind.field]: asMessageValues(kind, values),
          },
          kind.dtype,
        );

        expect(tensor.shape).toEqual(shape);
        expect(bytesOf(tensor.data)).toEqual(bytesOf(kind.array(filled)));
      }),
    );
  });

  test("values in tensor_content are the same values", () => {
    fc.assert(
      fc.property(fc.array(kind.value, { minLength: 1, maxLength: 20 }), (values) => {
        const content = bytesOf(kind.array(values));

        const tensor = readMessage(
          { dtype: kind.name, tensor_shape: shapeOf(values.length), tensor_content: content },
          kind.dtype,
        );

        expect(bytesOf(tensor.data)).toEqual(content);
      }),
    );
  });

  test("an answer has every value in its field and reads back", () => {
    fc.assert(
      fc.property(fc.array(kind.value, { maxLength: 20 }), (values) => {
        const tensor = {
          dtype: kind.dtype,
          shape: [1, values.length],
          data: kind.array(values),
        } as Tensor;

        const bytes = write(tensor);
        const message = proto.deserialize(bytes) as TensorMessage;

        expect(message.dtype).toBe(kind.name);
        expect(message.tensor_content).toHaveLength(0);
        expect(message[kind.field]).toEqual(asMessageValues(kind, valuesOf(tensor) as number[]));
        expect(read(bytes, kind.dtype)).toEqual(tensor);
      }),
    );
  });
});

describe("string", () => {
  test("an answer has each string in string_val", () => {
    const data = StringColumn.fromBytes([
      Buffer.from([0xff, 0]),
      Buffer.from(""),
      Buffer.from("é"),
    ]);
    const tensor: Tensor = { dtype: "string", shape: [3, 1], data };

    const message = proto.deserialize(write(tensor)) as TensorMessage;

    expect(message.string_val.map((each) => each.toString("hex"))).toEqual(["ff00", "", "c3a9"]);
    expect(message.tensor_shape.dim.map((dim) => dim.size)).toEqual(["3", "1"]);
  });

  test("the last string repeats, surplus is dropped, none at all means empty strings", () => {
    const few = readMessage(strings(["a", "bc"], [2, 2]), "string");
    const many = readMessage(strings(["a", "b", "c"], [2]), "string");
    const none = readMessage(strings([], [2]), "string");

    expect(valuesOf(few)).toEqual(["a", "bc", "bc", "bc"]);
    expect(valuesOf(many)).toEqual(["a", "b"]);
    expect(valuesOf(none)).toEqual(["", ""]);
  });

  test("tensor_content lists lengths, then bytes", () => {
    const long = "x".repeat(200);
    const content = Buffer.concat([Buffer.from([1, 0, 0xc8, 1]), Buffer.from(`a${long}`)]);

    const tensor = readMessage(
      { dtype: "DT_STRING", tensor_shape: shapeOf(3), tensor_content: content },
      "string",
    );

    expect(valuesOf(tensor)).toEqual(["a", "", long]);
  });

  test("tensor_content that does not hold its strings is refused", () => {
    const content = Buffer.from([5, 97, 98]);
    const message = { dtype: "DT_STRING", tensor_shape: shapeOf(1), tensor_content: content };

    expect(() => readMessage(message, "string")).toThrow(
      "tensor parsing error: x: its content does not hold 1 strings",
    );
  });
});

describe("what is no tensor for the input is refused", () => {
  const shape = shapeOf(2);

  test.each([
    [
      "another dtype",
      { dtype: "DT_FLOAT", tensor_shape: shape },
      'Input "x" must be int32, not float32',
    ],
    ["a dtype nobody computes with", { dtype: "DT_HALF" }, 'Input "x" must be int32, not half'],
    ["no dtype", { tensor_shape: shape }, "tensor parsing error: x: it has no dtype"],
    [
      "a negative size",
      { dtype: "DT_INT32", tensor_shape: shapeOf(-1) },
      "tensor parsing error: x: a size in its shape is -1",
    ],
    [
      "an unknown rank",
      { dtype: "DT_INT32", tensor_shape: { unknown_rank: true } },
      "tensor parsing error: x: its rank is unknown",
    ],
    [
      "vast sizes beside one of 0",
      { dtype: "DT_INT32", tensor_shape: shapeOf(1, 2 ** 30, 0) },
      "tensor parsing error: x: its shape is too large",
    ],
    [
      "more values than can be counted",
      { dtype: "DT_INT32", tensor_shape: shapeOf(2 ** 40, 2 ** 40) },
      "tensor parsing error: x: its shape is too large",
    ],
    [
      "content of another length",
      { dtype: "DT_INT32", tensor_shape: shape, tensor_content: Buffer.alloc(7) },
      "tensor parsing error: x: its content has 7 bytes where 2 values need 8",
    ],
    [
      "a shape of terabytes with one value to repeat",
      { dtype: "DT_INT32", tensor_shape: shapeOf(2 ** 40), int_val: [1] },
      "The inputs take 4398046511104 bytes; at most 1048576 are allowed",
    ],
  ])("%s", (_, message, problem) => {
    expect(() => readMessage(message, "int32")).toThrow(problem);
  });

  test("a long string to repeat counts each time", () => {
    const message = strings(["y".repeat(1000)], [5000]);

    expect(() => readMessage(message, "string")).toThrow("at most 1048576 are allowed");
  });
});

test("values may come unpacked and in pieces, with unknown fields between them", () => {
  const bytes = Buffer.from(
    "08 03 12 04 12 02 08 05 3a 02 01 02 38 ff ff ff ff ff ff ff ff ff 01 9b 06 08 07 9c 06 3a 01 04".replaceAll(
      " ",
      "",
    ),
    "hex",
  );

  const tensor = read(bytes, "int32");

  expect(valuesOf(tensor)).toEqual([1, 2, -1, 4, 4]);
});

describe("many values take several turns of the event loop", () => {
  const COUNT = 270_000;

  /** How often the reading pauses, and what it gives. */
  function paused(bytes: Uint8Array, dtype: Dtype): { pauses: number; tensor: Tensor } {
    const steps = readingTensorProto(bytes, { name: "x", dtype }, new TensorBudget(2 ** 26));
    let pauses = 0;
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) pauses += 1;
    return { pauses, tensor: step.value };
  }

  test.each(KINDS)("$dtype", (kind) => {
    const isFlag = kind.dtype === "bool";
    const data = kind.array(Array.from({ length: COUNT }, (_, at) => at % (isFlag ? 2 : 100)));
    const tensor = { dtype: kind.dtype, shape: [COUNT], data } as Tensor;
    const content = {
      dtype: kind.name,
      tensor_shape: shapeOf(COUNT),
      tensor_content: bytesOf(data),
    };

    const fromField = paused(write(tensor), kind.dtype);
    const fromContent = paused(proto.serialize(content), kind.dtype);

    expect(fromField.pauses).toBeGreaterThan(0);
    expect(fromContent.pauses).toBeGreaterThanOrEqual(data.byteLength >= 2 ** 20 ? 1 : 0);
    for (const { tensor: read } of [fromField, fromContent]) {
      expect(Buffer.compare(bytesOf(read.data), bytesOf(data))).toBe(0);
    }
  });

  test("strings", () => {
    const texts = Array.from({ length: 100_000 }, (_, at) => `item ${at}`);
    const data = StringColumn.fromText(texts);
    const lengths = Buffer.from(texts.map((text) => text.length));
    const content = Buffer.concat([lengths, data.bytes]);
    const packed = {
      dtype: "DT_STRING",
      tensor_shape: shapeOf(texts.length),
      tensor_content: content,
    };

    for (const message of [strings(texts), packed]) {
      const { pauses, tensor } = paused(proto.serialize(message), "string");

      expect(pauses).toBeGreaterThan(0);
      expect(Buffer.compare((tensor.data as StringColumn).bytes, data.bytes)).toBe(0);
      expect((tensor.data as StringColumn).toText()).toEqual(texts);
    }
  });

  test("one value that is repeated", () => {
    const message = { dtype: "DT_FLOAT", tensor_shape: shapeOf(COUNT), float_val: [7] };

    const { pauses, tensor } = paused(proto.serialize(message), "float32");

    expect(pauses).toBeGreaterThan(0);
    expect((tensor.data as Float32Array).every((value) => value === 7)).toBe(true);
  });

  test("few values do not pause", () => {
    const message = { dtype: "DT_FLOAT", tensor_shape: shapeOf(64, 32), float_val: [7, 8] };
    expect(paused(proto.serialize(message), "float32").pauses).toBe(0);
  });
});

test("no bytes whatever crash the reader, and none take more than the budget", () => {
  const valid = KINDS.map((kind) =>
    write({ dtype: kind.dtype, shape: [3], data: kind.array([1, 0, 1]) } as Tensor),
  );
  const hostile = fc.oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc
      .tuple(fc.constantFrom(...valid), fc.nat(40), fc.integer({ min: 0, max: 255 }), fc.nat(40))
      .map(([bytes, at, value, length]) => {
        const changed = Buffer.from(bytes);
        changed[at % changed.length] = value;
        return changed.subarray(0, Math.max(1, changed.length - (length % 8)));
      }),
  );

  fc.assert(
    fc.property(hostile, fc.constantFrom(...KINDS.map(({ dtype }) => dtype)), (bytes, dtype) => {
      const outcome = attempt(() => read(bytes, dtype, 4096));

      expect(outcome).toMatchObject(
        outcome instanceof Error ? { code: "INVALID_ARGUMENT" } : { dtype },
      );
      expect(outcome instanceof Error ? 0 : outcome.data.byteLength).toBeLessThanOrEqual(4096);
    }),
    { numRuns: 3000 },
  );
});
