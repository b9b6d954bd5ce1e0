// Vectors of items: the bits that the worker sent, beside the attributes that the request wants.

import { StringColumn, cellOf, stringTensor, tensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { RequestContext } from "../request-context.ts";
import type { Prediction, PredictRequest } from "../predictor.ts";
import { askingVectors, cellsOfTexts, withVectors } from "./item-vectors.ts";

function requestOf(attributes?: readonly string[]): PredictRequest {
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  return { context, attributes, vectors: true } as unknown as PredictRequest;
}

const bitsOf = ({ data }: Tensor): Buffer => {
  const { buffer, byteOffset, byteLength } = data as Float32Array;
  return Buffer.from(buffer, byteOffset, byteLength);
};
const bytesOf = (values: Float32Array): Buffer =>
  bitsOf(tensor("float32", [values.length], values));
const base64Of = (values: Float32Array): string => bytesOf(values).toString("base64");
const itemCell = (values: Float32Array, object = "{}"): Uint8Array =>
  cellOf(Buffer.from(object), bytesOf(values));
const cellTensor = (cells: readonly Uint8Array[], shape: readonly number[]): Tensor =>
  tensor("string", shape, StringColumn.fromBytes(cells));
const NONE = new Uint8Array();

async function answered(cells: Tensor, attributes?: readonly string[]): Promise<Prediction> {
  const request = requestOf(attributes);
  const answer = { attributes: cells, outputs: new Map() } as unknown as Prediction;
  return await withVectors(answer, request).finally(() => request.context.finish());
}

describe("vectors of items", () => {
  test("are asked for behind the attributes, once", () => {
    expect(askingVectors(requestOf())).toMatchObject({
      attributes: ["$vector"],
      vectorBytes: true,
    });
    expect(askingVectors(requestOf(["$vector", "year"])).attributes).toEqual(["year", "$vector"]);
  });

  test("have every bit of the rows, of lists of different lengths too", async () => {
    const bits = fc.uint32Array({ minLength: 12, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(bits, fc.string(), async (words, title) => {
        const rows = [0, 3, 6].map((at) => new Float32Array(words.slice(at, at + 3).buffer));
        const object = JSON.stringify({ title });
        const cells = [...rows.map((row) => itemCell(row, object)), NONE];
        const rowLengths = Uint32Array.of(2, 1);

        const { vectors, attributes } = await answered(
          { ...cellTensor(cells, [2, 2]), rowLengths },
          ["title"],
        );

        expect(vectors).toMatchObject({ dtype: "float32", shape: [2, 2, 3], rowLengths });
        const expected = Buffer.concat([
          ...rows.map((row) => bitsOf(tensor("float32", [3], row))),
          Buffer.alloc(12),
        ]);
        expect(bitsOf(vectors!)).toEqual(expected);
        const described = (attributes!.data as StringColumn).toText();
        expect(described.map((text) => text && (JSON.parse(text) as unknown))).toEqual([
          { title },
          { title },
          { title },
          "",
        ]);
      }),
    );
  });

  test("come without attributes where none are wanted, and as texts, too, where these are", async () => {
    const values = Float32Array.of(1, -0);
    const text = `"$vector":"${base64Of(values)}"`;

    const textsOf = async (object: string, wanted: readonly string[]) => {
      const { attributes } = await answered(cellTensor([itemCell(values, object)], [1, 1]), wanted);
      return (attributes!.data as StringColumn).toText();
    };
    expect((await answered(cellTensor([itemCell(values)], [1, 1]))).attributes).toBeUndefined();
    expect(await textsOf("{}", ["$vector"])).toEqual([`{${text}}`]);
    expect(await textsOf('{"a":"ü"}', ["a", "$vector"])).toEqual([`{"a":"ü",${text}}`]);
    expect((await answered(stringTensor([], [1, 0]))).vectors).toMatchObject({ shape: [1, 0, 0] });
  });

  test("of different lengths are no tensor, and an item without one is a worker's fault", async () => {
    const unequal = [itemCell(new Float32Array(2)), itemCell(new Float32Array(3))];

    await expect(answered(cellTensor(unequal, [1, 2]))).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("vectors of 2 and of 3 values are no one tensor") as string,
    });
    for (const text of ['{"year":1990}', "{}", "?"]) {
      await expect(answered(stringTensor([text], [1, 1]))).rejects.toMatchObject({
        code: "INTERNAL",
      });
    }
  });

  test("that a worker of an older release wrote as texts are the same bytes behind the same objects", () => {
    const bits = fc.uint32Array({ minLength: 0, maxLength: 9 });
    const object = fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer()));
    fc.assert(
      fc.property(bits, object, (words, given) => {
        const values = new Float32Array(words.slice().buffer);
        const text = JSON.stringify({ ...given, $vector: base64Of(values) });

        const cells = cellsOfTexts(StringColumn.fromText([text, ""]));

        const expected = itemCell(values, JSON.stringify(given));
        expect([Buffer.from(cells.at(0)), cells.at(1).length]).toEqual([Buffer.from(expected), 0]);
      }),
    );
    expect(() => cellsOfTexts(StringColumn.fromText(['{"year":1990}']))).toThrow(
      "without the vector",
    );
  });
});
