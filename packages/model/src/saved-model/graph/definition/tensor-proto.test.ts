// Constants of graphs in all the ways TensorFlow writes them.

import { describe, expect, test } from "vitest";
import type { Tensor } from "@winnow/core";
import { ProtobufWriter } from "@winnow/core";
import { readTensorProto } from "./tensor-proto.ts";

const FLOAT = 1;
const INT32 = 3;
const STRING = 7;
const INT64 = 9;

interface Written {
  readonly type: number;
  readonly shape: readonly number[];
  readonly fields: (message: ProtobufWriter) => void;
}

function read({ type, shape, fields }: Written): Tensor {
  const message = new ProtobufWriter().int(1, type).message(2, (sizes) => {
    for (const size of shape) sizes.message(2, (dimension) => dimension.int(1, size));
  });
  fields(message);
  return readTensorProto(message.finish(), "Const");
}

const text = (tensor: Tensor): string[] => (tensor.dtype === "string" ? tensor.data.toText() : []);

describe("readTensorProto()", () => {
  test("reads raw little-endian content", () => {
    const content = new Uint8Array(Float32Array.of(1.5, -2, Infinity).buffer);

    const tensor = read({ type: FLOAT, shape: [3], fields: (m) => m.bytes(4, content) });

    expect(tensor).toEqual({
      dtype: "float32",
      shape: [3],
      data: Float32Array.of(1.5, -2, Infinity),
    });
  });

  test("repeats the last value where fewer are given than the shape holds", () => {
    const integers = read({ type: INT64, shape: [2, 2], fields: (m) => m.int(10, 7).int(10, -1) });
    const strings = read({ type: STRING, shape: [3], fields: (m) => m.text(8, "a").text(8, "bé") });

    expect(integers.data).toEqual(BigInt64Array.of(7n, -1n, -1n, -1n));
    expect(text(strings)).toEqual(["a", "bé", "bé"]);
  });

  test("fills with zeros and empty strings where no value is given", () => {
    const numbers = read({ type: INT32, shape: [2], fields: () => undefined });
    const strings = read({ type: STRING, shape: [2], fields: () => undefined });

    expect(numbers.data).toEqual(Int32Array.of(0, 0));
    expect(text(strings)).toEqual(["", ""]);
  });

  test("reads strings that a graph optimiser packed into content", () => {
    const content = Uint8Array.of(1, 0, 2, ...Buffer.from("abc"));

    const tensor = read({ type: STRING, shape: [3], fields: (m) => m.bytes(4, content) });

    expect(text(tensor)).toEqual(["a", "", "bc"]);
  });

  test.each<readonly [string, Written]>([
    [
      "more values than the shape holds",
      { type: INT32, shape: [1], fields: (m) => m.int(7, 1).int(7, 2) },
    ],
    [
      "content of another size",
      { type: FLOAT, shape: [2], fields: (m) => m.bytes(4, new Uint8Array(7)) },
    ],
    [
      "packed strings that run over",
      { type: STRING, shape: [1], fields: (m) => m.bytes(4, Uint8Array.of(9, 65)) },
    ],
    ["a negative size", { type: FLOAT, shape: [-1], fields: () => undefined }],
    ["a size beyond all memory", { type: FLOAT, shape: [2 ** 40], fields: () => undefined }],
  ])("refuses %s as DATA_LOSS", (_, written) => {
    expect(() => read(written)).toThrow(expect.objectContaining({ code: "DATA_LOSS" }));
  });

  test("refuses element types nothing is computed with", () => {
    const complex = { type: 8, shape: [], fields: () => undefined };

    expect(() => read(complex)).toThrow(expect.objectContaining({ code: "UNIMPLEMENTED" }));
  });
});
