// The layout of answers, byte for byte.

import { StringColumn, WinnowError, stringTensor, tensor, type Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { errorBody } from "./http-answer.ts";
import { writePrediction } from "./predict-response.ts";

const LIMITS = { answerBytesMax: 1e6 };
const written = (
  outputs: Readonly<Record<string, Tensor>>,
  format: "row" | "column" = "row",
): string => writePrediction(new Map(Object.entries(outputs)), format, LIMITS).toString("utf8");

const SCORES = tensor("float32", [2, 2], Float32Array.of(9e6, 0.5, -0, Infinity));
const IDS = stringTensor(["a", 'q"\\/', "\u001f\n", "日\u007f"], [2, 2]);

describe("writePrediction()", () => {
  test("writes rows of one output side by side", () => {
    expect(written({ x: tensor("float32", [2, 1], Float32Array.of(-2.25, 61_728.8945)) })).toBe(
      '{\n    "predictions": [[-2.25], [61728.8945]\n    ]\n}',
    );
    expect(written({ x: tensor("float32", [2], Float32Array.of(1, 2)) })).toBe(
      '{\n    "predictions": [1.0, 2.0\n    ]\n}',
    );
  });

  test("writes rows of several outputs as objects, in the given order", () => {
    expect(written({ z: SCORES, a: IDS })).toBe(
      '{\n    "predictions": [\n        {\n            "z": [9e+06, 0.5],\n' +
        '            "a": ["a", "q\\"\\\\/"]\n        },\n        {\n' +
        '            "z": [-0.0, Infinity],\n            "a": ["\\u001F\\n", "日\u007f"]\n' +
        "        }\n    ]\n}",
    );
  });

  test("writes columns one value a line", () => {
    expect(written({ z: SCORES }, "column")).toBe(
      '{\n    "outputs": [\n        [\n            9e+06,\n            0.5\n        ],\n' +
        "        [\n            -0.0,\n            Infinity\n        ]\n    ]\n}",
    );
    expect(written({ a: tensor("int32", [], Int32Array.of(7)), b: SCORES }, "column")).toContain(
      '"outputs": {\n        "a": 7,\n        "b": [\n            [\n                9e+06,',
    );
  });

  test("writes nested values of a row on one line", () => {
    const cube = tensor("int64", [1, 2, 2], BigInt64Array.of(1n, -2n, 3n, 2n ** 62n));

    expect(written({ x: cube })).toBe(
      '{\n    "predictions": [[[1, -2], [3, 4611686018427387904]]\n    ]\n}',
    );
  });

  test("writes empty batches and empty rows", () => {
    const none = tensor("float32", [0, 5], new Float32Array(0));
    const empty = tensor("float32", [2, 0], new Float32Array(0));

    expect(written({ x: none })).toBe('{\n    "predictions": []\n}');
    expect(written({ x: none }, "column")).toBe('{\n    "outputs": []\n}');
    expect(written({ x: empty })).toBe('{\n    "predictions": [[], []\n    ]\n}');
  });

  test("writes strings of outputs named …_bytes as base64 objects", () => {
    const bytes = tensor(
      "string",
      [1, 2],
      StringColumn.fromBytes([Uint8Array.of(0, 255), Uint8Array.of()]),
    );

    expect(written({ x_bytes: bytes })).toBe(
      '{\n    "predictions": [[{\n                "b64": "AP8="\n            }, {\n' +
        '                "b64": ""\n            }]\n    ]\n}',
    );
  });

  test("writes bool, float64 and unsigned values", () => {
    expect(
      written({
        a: tensor("bool", [1], Uint8Array.of(1)),
        b: tensor("float64", [1], Float64Array.of(0.1 + 0.2)),
        c: tensor("uint64", [1], BigUint64Array.of(2n ** 64n - 1n)),
        d: tensor("uint8", [1], Uint8Array.of(255)),
      }),
    ).toContain(
      '"a": true,\n            "b": 0.30000000000000004,\n            "c": 18446744073709551615,\n            "d": 255',
    );
  });

  test("refuses rows that do not match", () => {
    const scalar = tensor("float32", [], Float32Array.of(1));

    expect(() => written({ x: scalar })).toThrow(
      new WinnowError("INVALID_ARGUMENT", "Tensor name: x has no shape information "),
    );
    expect(() => written({ x: SCORES, y: tensor("float32", [1], Float32Array.of(1)) })).toThrow(
      new WinnowError(
        "INVALID_ARGUMENT",
        "Tensor name: y has inconsistent batch size: 1 expecting: 2",
      ),
    );
    expect(() => written({})).toThrow(
      new WinnowError("INVALID_ARGUMENT", "Cannot convert empty tensor map to JSON"),
    );
  });

  test("refuses an answer longer than allowed", () => {
    const long = tensor("float32", [100_000], new Float32Array(100_000).fill(0.123));

    expect(() => writePrediction(new Map([["x", long]]), "row", { answerBytesMax: 1000 })).toThrow(
      "Cannot write an answer of more than 1000 bytes",
    );
  });

  test("writes what JSON.parse reads back, whatever the values", () => {
    const strings = fc.array(fc.string({ unit: "binary" }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(strings, fc.constantFrom("row", "column"), (texts, format) => {
        const scores = Float32Array.from(texts, (_, index) => index / 7);
        const shape = [texts.length];

        const text = written(
          { ids: stringTensor(texts), scores: tensor("float32", shape, scores) },
          format,
        );

        const parsed = JSON.parse(text) as {
          predictions?: { ids: string; scores: number }[];
          outputs?: { ids: string[]; scores: number[] };
        };
        const ids = parsed.outputs?.ids ?? parsed.predictions?.map((row) => row.ids);
        const numbers = parsed.outputs?.scores ?? parsed.predictions?.map((row) => row.scores);
        expect(ids).toEqual(texts);
        expect(numbers?.map(Math.fround)).toEqual([...scores]);
      }),
    );
  });
});

describe("errorBody()", () => {
  test("escapes the text", () => {
    expect(errorBody('a "b"\n').toString()).toBe('{\n    "error": "a \\"b\\"\\n"\n}');
  });
});
