// Vectors of items: the bits that the worker sent, beside the attributes that the request wants.

import { stringTensor, tensor } from "@winnow/core";
import type { StringColumn, Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { RequestContext } from "../request-context.ts";
import type { Prediction, PredictRequest } from "../predictor.ts";
import { askingVectors, withVectors } from "./item-vectors.ts";

function requestOf(attributes?: readonly string[]): PredictRequest {
  const context = new RequestContext(new ManualClock(), { timeoutMs: 1000 });
  return { context, attributes, vectors: true } as unknown as PredictRequest;
}

const bitsOf = ({ data }: Tensor): Buffer => {
  const { buffer, byteOffset, byteLength } = data as Float32Array;
  return Buffer.from(buffer, byteOffset, byteLength);
};
const objectOf = (values: Float32Array, more = ""): string => {
  const base64 = bitsOf(tensor("float32", [values.length], values)).toString("base64");
  return `{${more}"$vector":"${base64}"}`;
};

async function answered(texts: Tensor, attributes?: readonly string[]): Promise<Prediction> {
  const request = requestOf(attributes);
  const answer = { attributes: texts, outputs: new Map() } as unknown as Prediction;
  return await withVectors(answer, request).finally(() => request.context.finish());
}

describe("vectors of items", () => {
  test("are asked for behind the attributes, once", () => {
    expect(askingVectors(requestOf()).attributes).toEqual(["$vector"]);
    expect(askingVectors(requestOf(["$vector", "year"])).attributes).toEqual(["year", "$vector"]);
  });

  test("have every bit of the rows, of lists of different lengths too", async () => {
    const bits = fc.uint32Array({ minLength: 12, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(bits, fc.string(), async (words, title) => {
        const rows = [0, 3, 6].map((at) => new Float32Array(words.slice(at, at + 3).buffer));
        const more = `"title":${JSON.stringify(title)},`;
        const texts = [...rows.map((row) => objectOf(row, more)), ""];
        const rowLengths = Uint32Array.of(2, 1);

        const { vectors, attributes } = await answered(
          { ...stringTensor(texts, [2, 2]), rowLengths },
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
    const texts = stringTensor([objectOf(Float32Array.of(1, -0))], [1, 1]);

    expect((await answered(texts)).attributes).toBeUndefined();
    expect((await answered(texts, ["$vector"])).attributes).toEqual(texts);
    expect((await answered(stringTensor([], [1, 0]))).vectors).toMatchObject({ shape: [1, 0, 0] });
  });

  test("of different lengths are no tensor, and an item without one is a worker's fault", async () => {
    const unequal = [objectOf(new Float32Array(2)), objectOf(new Float32Array(3))];

    await expect(answered(stringTensor(unequal, [1, 2]))).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("vectors of 2 and of 3 values are no one tensor") as string,
    });
    await expect(answered(stringTensor(['{"year":1990}'], [1, 1]))).rejects.toMatchObject({
      code: "INTERNAL",
    });
  });
});
