// The layout of answers, byte for byte.

import { StringColumn, WinnowError, stringTensor, tensor, type Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { errorBody } from "../http-answer.ts";
import { writePrediction } from "./predict-response.ts";

const LIMITS = { answerBytesMax: 4e6 };
const written = async (
  outputs: Readonly<Record<string, Tensor>>,
  format: "row" | "column" = "row",
): Promise<string> => {
  const body = await writePrediction({ outputs: new Map(Object.entries(outputs)) }, format, LIMITS);
  return body.toString("utf8");
};

const SCORES = tensor("float32", [2, 2], Float32Array.of(9e6, 0.5, -0, Infinity));
const IDS = stringTensor(["a", 'q"\\/', "\u001f\n", "日\u007f"], [2, 2]);

describe("writePrediction()", () => {
  test("writes rows of one output side by side", async () => {
    expect(
      await written({ x: tensor("float32", [2, 1], Float32Array.of(-2.25, 61_728.8945)) }),
    ).toBe('{\n    "predictions": [[-2.25], [61728.8945]\n    ]\n}');
    expect(await written({ x: tensor("float32", [2], Float32Array.of(1, 2)) })).toBe(
      '{\n    "predictions": [1.0, 2.0\n    ]\n}',
    );
  });

  test("writes rows of several outputs as objects, in the given order", async () => {
    expect(await written({ z: SCORES, a: IDS })).toBe(
      '{\n    "predictions": [\n        {\n            "z": [9e+06, 0.5],\n' +
        '            "a": ["a", "q\\"\\\\/"]\n        },\n        {\n' +
        '            "z": [-0.0, Infinity],\n            "a": ["\\u001F\\n", "日\u007f"]\n' +
        "        }\n    ]\n}",
    );
  });

  test("writes columns one value a line", async () => {
    expect(await written({ z: SCORES }, "column")).toBe(
      '{\n    "outputs": [\n        [\n            9e+06,\n            0.5\n        ],\n' +
        "        [\n            -0.0,\n            Infinity\n        ]\n    ]\n}",
    );
    expect(
      await written({ a: tensor("int32", [], Int32Array.of(7)), b: SCORES }, "column"),
    ).toContain(
      '"outputs": {\n        "a": 7,\n        "b": [\n            [\n                9e+06,',
    );
  });

  test("writes nested values of a row on one line", async () => {
    const cube = tensor("int64", [1, 2, 2], BigInt64Array.of(1n, -2n, 3n, 2n ** 62n));

    expect(await written({ x: cube })).toBe(
      '{\n    "predictions": [[[1, -2], [3, 4611686018427387904]]\n    ]\n}',
    );
  });

  test("writes the vectors of items behind the outputs, of lists of different lengths too", async () => {
    const scores = { ...SCORES, rowLengths: Uint32Array.of(2, 1) };
    const values = Float32Array.of(1, -0, 0.1, NaN, 2 ** -149, 3, 0, 0);
    const vectors = { ...tensor("float32", [2, 2, 2], values), rowLengths: scores.rowLengths };

    const body = await writePrediction(
      { outputs: new Map([["x", scores]]), vectors },
      "row",
      LIMITS,
    );
    const refused = writePrediction(
      { outputs: new Map([["x", SCORES]]), vectors },
      "column",
      LIMITS,
    );

    expect(body.toString()).toContain('"vectors": [[1.0, -0.0], [0.1, NaN]]\n');
    expect(body.toString()).toContain('"vectors": [[1.4013e-45, 3.0]]\n');
    await expect(refused).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("lets others work while it writes, however few rows it has, and writes the same", async () => {
    const values = Float32Array.from({ length: 120_000 }, (_, index) => index);
    const texts = Array.from(values, (value) => `${value}.0`);
    const line = (from: number, to: number): string => `[${texts.slice(from, to).join(", ")}]`;
    const lines = (indent: number): string =>
      texts.map((text) => `\n${" ".repeat(indent)}${text}`).join(",");
    let turns = 0;
    let isOver = false;
    const count = (): void => void (isOver || (turns++, setImmediate(count)));
    const turnsOf = async (
      shape: number[],
      format: "row" | "column",
    ): Promise<[number, string]> => {
      turns = 0;
      const text = await written({ x: tensor("float32", shape, values) }, format);
      return [turns, text];
    };
    setImmediate(count);

    const row = await turnsOf([1, 120_000], "row");
    const halves = await turnsOf([1, 2, 60_000], "row");
    const column = await turnsOf([120_000], "column");
    const nested = await turnsOf([1, 120_000], "column");
    isOver = true;

    expect(row[1]).toBe(`{\n    "predictions": [${line(0, 120_000)}\n    ]\n}`);
    expect(halves[1]).toBe(
      `{\n    "predictions": [[${line(0, 60_000)}, ${line(60_000, 120_000)}]\n    ]\n}`,
    );
    expect(column[1]).toBe(`{\n    "outputs": [${lines(8)}\n    ]\n}`);
    expect(nested[1]).toBe(`{\n    "outputs": [\n        [${lines(12)}\n        ]\n    ]\n}`);
    expect(Math.min(row[0], halves[0], column[0], nested[0])).toBeGreaterThan(2);
  });

  test("writes empty batches and empty rows", async () => {
    const none = tensor("float32", [0, 5], new Float32Array(0));
    const empty = tensor("float32", [2, 0], new Float32Array(0));

    expect(await written({ x: none })).toBe('{\n    "predictions": []\n}');
    expect(await written({ x: none }, "column")).toBe('{\n    "outputs": []\n}');
    expect(await written({ x: empty })).toBe('{\n    "predictions": [[], []\n    ]\n}');
  });

  test("writes lists of different lengths in rows, and refuses them in columns", async () => {
    const rowLengths = Uint32Array.of(1, 0, 2);
    const floats = Float32Array.of(3, 0, 0, 0, 2, 1);
    const scores = { ...tensor("float32", [3, 2], floats), rowLengths };
    const ids = { ...stringTensor(["a", "", "", "", "b", "c"], [3, 2]), rowLengths };

    const rows = JSON.parse(await written({ scores, ids })) as unknown;

    expect(rows).toEqual({
      predictions: [
        { scores: [3], ids: ["a"] },
        { scores: [], ids: [] },
        { scores: [2, 1], ids: ["b", "c"] },
      ],
    });
    await expect(written({ scores, ids }, "column")).rejects.toThrow(
      "The request admits 0 items for instance 1 and 2 for instance 2; the column format needs as " +
        'many for each: use "instances"',
    );
  });

  test("writes strings of outputs named …_bytes as base64 objects", async () => {
    const bytes = tensor(
      "string",
      [1, 2],
      StringColumn.fromBytes([Uint8Array.of(0, 255), Uint8Array.of()]),
    );

    expect(await written({ x_bytes: bytes })).toBe(
      '{\n    "predictions": [[{\n                "b64": "AP8="\n            }, {\n' +
        '                "b64": ""\n            }]\n    ]\n}',
    );
  });

  test("writes bool, float64 and unsigned values", async () => {
    expect(
      await written({
        a: tensor("bool", [1], Uint8Array.of(1)),
        b: tensor("float64", [1], Float64Array.of(0.1 + 0.2)),
        c: tensor("uint64", [1], BigUint64Array.of(2n ** 64n - 1n)),
        d: tensor("uint8", [1], Uint8Array.of(255)),
      }),
    ).toContain(
      '"a": true,\n            "b": 0.30000000000000004,\n            "c": 18446744073709551615,\n            "d": 255',
    );
  });

  test("refuses rows that do not match", async () => {
    const scalar = tensor("float32", [], Float32Array.of(1));

    await expect(written({ x: scalar })).rejects.toThrow(
      new WinnowError("INVALID_ARGUMENT", "Tensor name: x has no shape information "),
    );
    await expect(
      written({ x: SCORES, y: tensor("float32", [1], Float32Array.of(1)) }),
    ).rejects.toThrow(
      new WinnowError(
        "INVALID_ARGUMENT",
        "Tensor name: y has inconsistent batch size: 1 expecting: 2",
      ),
    );
    await expect(written({})).rejects.toThrow(
      new WinnowError("INVALID_ARGUMENT", "Cannot convert empty tensor map to JSON"),
    );
  });

  test.each(["row", "column"] as const)(
    "lets other work run within a long %s answer",
    async (format) => {
      const scores = tensor("float32", [5000, 100], new Float32Array(500_000).fill(0.123));
      let turns = 0;
      let isWritten = false;
      const turn = (): void => {
        turns++;
        if (!isWritten) setImmediate(turn);
      };
      setImmediate(turn);

      const outputs = new Map([["x", scores]]);
      const body = await writePrediction({ outputs }, format, { answerBytesMax: 1e8 });
      isWritten = true;

      expect(turns).toBeGreaterThan(5);
      expect(JSON.parse(body.toString())).toHaveProperty(
        format === "row" ? "predictions" : "outputs",
      );
    },
  );

  test("refuses an answer longer than allowed", async () => {
    const long = tensor("float32", [100_000], new Float32Array(100_000).fill(0.123));

    await expect(
      writePrediction({ outputs: new Map([["x", long]]) }, "row", { answerBytesMax: 1000 }),
    ).rejects.toThrow("Cannot write an answer of more than 1000 bytes");
  });

  test("writes what JSON.parse reads back, whatever the values", async () => {
    const strings = fc.array(fc.string({ unit: "binary" }), { minLength: 1, maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(strings, fc.constantFrom("row", "column"), async (texts, format) => {
        const scores = Float32Array.from(texts, (_, index) => index / 7);
        const shape = [texts.length];

        const text = await written(
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
