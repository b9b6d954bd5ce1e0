// Frames between the dense engine and its processes: any tensors, in any pieces.

import fc from "fast-check";
import { tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { FrameReader, fillUp, frameStart, tensorFrame, tensorHeaders } from "./dense-frames.ts";
import { tensorsOf } from "./dense-frames.ts";
import type { DenseAnswer, DenseRequest, NamedTensor } from "./dense-frames.ts";

const floats = fc
  .array(fc.float(), { maxLength: 9 })
  .map((values) => tensor("float32", [values.length], Float32Array.from(values)));
const bytes = fc
  .uint8Array({ maxLength: 20 })
  .map((values) => tensor("uint8", [1, values.length], values));
const longs = fc
  .array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), { maxLength: 5 })
  .map((values) => tensor("int64", [values.length], BigInt64Array.from(values)));
const named = fc.tuple(fc.string({ unit: "grapheme" }), fc.oneof(floats, bytes, longs));

describe("frames", () => {
  test("carry tensors bit by bit, whatever pieces they arrive in", () => {
    const messages = fc.array(fc.array(named, { maxLength: 4 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(messages, fc.array(fc.nat({ max: 40 })), (sent, cuts) => {
        const frames = sent.map((tensors) =>
          tensorFrame(
            { kind: "done", outputs: tensorHeaders(tensors) },
            tensors.map(([, each]) => each),
          ),
        );
        const stream = Buffer.concat(frames);
        const reader = new FrameReader<DenseAnswer>();
        const read: NamedTensor[][] = [];
        for (let at = 0, piece = 0; at < stream.length; piece += 1) {
          const end = at + 1 + (cuts[piece % Math.max(1, cuts.length)] ?? stream.length);
          for (const { header, body } of reader.read(stream.subarray(at, end))) {
            if (header.kind === "done") read.push(tensorsOf(header.outputs, body));
          }
          at = end;
        }

        expect(read).toEqual(sent);
      }),
    );
  });

  test("with the same header as the one before share it, and have times of their own", () => {
    const run = (model: number, value: number): Uint8Array => {
      const input = ["x", tensor("float32", [1], Float32Array.of(value))] as const;
      const inputs = tensorHeaders([input]);
      return tensorFrame({ kind: "run", model, inputs, outputs: ["y"] }, [input[1]], value / 2);
    };
    const frames = [run(1, 3), run(1, 4), run(2, 5)];

    const read = new FrameReader<DenseRequest>().read(Buffer.concat(frames));

    expect(read.map(({ ms }) => ms)).toEqual([1.5, 2, 2.5]);
    expect(read[1]!.header).toBe(read[0]!.header);
    expect(read[2]!.header).toMatchObject({ kind: "run", model: 2, outputs: ["y"] });
    const inputs = read.map(({ body }) => new Float32Array(body.buffer, body.byteOffset, 1)[0]);
    expect(inputs).toEqual([3, 4, 5]);
  });

  test("carry the bytes of a model that follow their start", () => {
    const onnx = Uint8Array.of(1, 2, 3);
    const header: DenseRequest = { kind: "load", model: 7, bytes: onnx.length };
    const reader = new FrameReader<DenseRequest>();

    const frames = [frameStart(header, onnx.length), onnx, fillUp(onnx.length)].flatMap((piece) =>
      reader.read(piece),
    );

    expect(frames.map((frame) => frame.header)).toEqual([header]);
    expect([...frames[0]!.body]).toEqual([1, 2, 3, 0, 0, 0, 0, 0]);
  });

  test("are refused where they are none, or where tensors are not in them", () => {
    const noise = Uint8Array.from({ length: 64 }, () => 255);
    const text: Tensor = { dtype: "string", shape: [1], data: ["a"] } as unknown as Tensor;

    expect(() => new FrameReader().read(noise)).toThrow(RangeError);
    expect(() => tensorsOf([["x", "float32", [9]]], new Uint8Array(8))).toThrow(RangeError);
    expect(() => tensorsOf([["x", "half" as "int8", [1]]], new Uint8Array(8))).toThrow("half");
    expect(() => tensorFrame({ kind: "ready" }, [text])).toThrow("string");
  });
});
