// Masked searches against scoring every row: all rows have a score, those that are masked the same one.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Filter } from "../../attributes/filter.ts";
import { stringTensor } from "../../tensor/tensor.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { CandidateTable, MaskRule, SignatureProgram } from "../program.ts";
import { runProgram } from "../program-run.ts";
import { invalid } from "../node-error.ts";
import { LongListError, boundMask, errorOfList } from "./search-mask.ts";
import type { TopKAnswer, TopKQuestion } from "../step-contract.ts";
import { tensorOf } from "../operations/tensor-memory.ts";

const ROWS = 12;
const genre = Array.from({ length: ROWS }, (_, row) => row % 3);
/** Row r has the vector [r % 5 - 2]: many scores tie. */
const valueOf = (row: number): number => (row % 5) - 2;

const items: CandidateTable = {
  kind: "candidate",
  name: "items",
  rows: ROWS,
  dim: 1,
  partitions: 1,
  sources: [],
  idDtype: "string",
  masks: [{ name: "genre", type: "integer", isList: false }],
};

const best = (
  scored: readonly { readonly row: number; readonly score: number }[],
  k: number,
): { readonly row: number; readonly score: number }[] =>
  scored.toSorted((a, b) => b.score - a.score || a.row - b.row).slice(0, k);

function admits(filter: Filter | undefined, row: number): boolean {
  if (filter === undefined) return true;
  if (filter.kind === "not") return !admits(filter.of, row);
  return filter.kind === "test" && filter.values.includes(genre[row]!);
}

/** Brute force over the rows that are admitted, less one that the request excludes. */
function search(excluded: number, { query, k, admits: filters }: TopKQuestion): TopKAnswer {
  const lists = Array.from({ length: query.shape[0]! }, (_, at) => {
    const factor = (query.data as Float32Array)[at]!;
    const filter = filters?.[filters.length > 1 ? at : 0];
    const rows = genre.flatMap((_, row) => (admits(filter, row) && row !== excluded ? [row] : []));
    return best(
      rows.map((row) => ({ row, score: factor * valueOf(row) + 0 })),
      k,
    );
  });
  const width = Math.max(0, ...lists.map(({ length }) => length));
  const padded = lists.flatMap((list) =>
    Array.from({ length: width }, (_, rank) => list[rank] ?? { row: 0, score: 0 }),
  );
  const shape = [lists.length, width];
  return {
    scores: tensorOf(
      "float32",
      shape,
      Float32Array.from(padded, ({ score }) => score),
    ),
    rows: tensorOf(
      "int32",
      shape,
      Int32Array.from(padded, ({ row }) => row),
    ),
    ids: stringTensor(
      padded.map(({ row }) => `item ${row}`),
      shape,
    ),
    counts: Uint32Array.from(lists, ({ length }) => length),
  };
}

function signatureOf(k: number, score: number): SignatureProgram {
  const shape = undefined;
  return {
    name: "serving_default",
    methodName: "tensorflow/serving/predict",
    inputs: [
      { name: "query", graphTensor: "query:0", value: 0, dtype: "float32", shape },
      { name: "wanted", graphTensor: "wanted:0", value: 1, dtype: "int32", shape },
    ],
    outputs: [
      { name: "scores", graphTensor: "s:0", value: 2, dtype: "float32", shape },
      { name: "ids", graphTensor: "i:0", value: 4, dtype: "string", shape },
    ],
    constants: [],
    steps: [
      {
        kind: "topK",
        table: 0,
        node: "top_k",
        query: 0,
        k,
        capped: false,
        masks: [
          {
            keeps: { kind: "test", column: "genre", is: "in", values: 1 },
            score,
            functionsBefore: 0,
          },
        ],
        scores: 2,
        rows: 3,
        ids: 4,
      },
    ],
  };
}

interface Asked {
  readonly factors: readonly number[];
  readonly wanted: readonly number[];
  readonly k: number;
  readonly score: number;
  readonly excluded: number;
}

async function answerOf(asked: Asked): Promise<{ scores: number[][]; ids: string[][] }> {
  const { factors, wanted, k, score, excluded } = asked;
  const refused = (): never => {
    throw new RangeError("nothing else is asked");
  };
  const inputs = new Map<string, Tensor>([
    ["query", tensorOf("float32", [factors.length, 1], Float32Array.from(factors))],
    ["wanted", tensorOf("int32", [wanted.length, 1], Int32Array.from(wanted))],
  ]);
  const outputs = await runProgram(
    signatureOf(k, score),
    { inputs },
    {
      tables: [items],
      vocabularies: [],
      lookup: refused,
      dense: refused,
      sums: refused,
      topK: (_, question) => Promise.resolve().then(() => search(excluded, question)),
    },
  );
  const scores = outputs.get("scores")!;
  const ids = outputs.get("ids")!;
  const width = scores.shape[1]!;
  const lengths = factors.map((_, at) => scores.rowLengths?.[at] ?? width);
  return {
    scores: lengths.map((length, at) =>
      Array.from((scores.data as Float32Array).subarray(at * width, at * width + length)),
    ),
    ids: lengths.map((length, at) =>
      Array.from({ length }, (_, rank) =>
        ids.dtype === "string" ? ids.data.textAt(at * width + rank) : "",
      ),
    ),
  };
}

describe("a search with a mask", () => {
  const score = fc.constantFrom(-Infinity, -1e9, -2, -1, 0, 1, 5);
  const asked = fc
    .record({
      factors: fc.array(fc.integer({ min: -2, max: 2 }), { maxLength: 4 }),
      k: fc.integer({ min: 0, max: ROWS }),
      score,
      excluded: fc.integer({ min: -1, max: ROWS - 1 }),
      one: fc.boolean(),
    })
    .chain((of) =>
      fc.record({
        of: fc.constant(of),
        wanted: fc.array(fc.integer({ min: 0, max: 4 }), {
          minLength: of.one ? 1 : of.factors.length,
          maxLength: of.one ? 1 : of.factors.length,
        }),
      }),
    )
    .map(({ of, wanted }) => Object.assign({}, of, { wanted }));

  test("answers what scoring every row answers, equal scores by their rows", async () => {
    await fc.assert(
      fc.asyncProperty(asked, async (of) => {
        const lists = of.factors.map((factor, at) => {
          const wanted = of.wanted[of.wanted.length > 1 ? at : 0];
          const scored = genre.map((own, row) => ({
            row,
            score: own === wanted ? factor * valueOf(row) + 0 : of.score,
          }));
          return best(
            scored.filter(({ row }) => row !== of.excluded),
            of.k,
          );
        });

        expect(await answerOf(of)).toEqual({
          scores: lists.map((list) => list.map((item) => item.score)),
          ids: lists.map((list) => list.map(({ row }) => `item ${row}`)),
        });
      }),
    );
  });

  test("needs values for each query, or for all", async () => {
    const of = { factors: [1, 2, 3], wanted: [0, 1], k: 2, score: -1, excluded: -1 };

    await expect(answerOf(of)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("Incompatible shapes: [3] vs. [2,1]") as string,
    });
  });
});

describe("values of a mask", () => {
  const admitted = (keeps: MaskRule, values: Tensor, queries: number): readonly Filter[] =>
    boundMask({ keeps, score: 0, functionsBefore: 0 }, () => values, queries).admits;
  const rule = (is: "in" | "lt" | "gte"): MaskRule => {
    return { kind: "test", column: "price", is, values: 0 };
  };
  const filterOf = (is: "in" | "lt" | "gte", values: Tensor): Filter =>
    admitted(rule(is), values, 1)[0]!;
  const floats = (...values: number[]): Tensor =>
    tensorOf("float32", [1, values.length], Float32Array.from(values));
  const [all, none] = [
    { kind: "and", of: [] },
    { kind: "or", of: [] },
  ];

  test("that a scatter lists admit to each query what stands beside its number", () => {
    const pairs = (...each: readonly (readonly [number, number])[]): Tensor =>
      tensorOf("int64", [each.length, 2], BigInt64Array.from(each.flat(), BigInt));
    const at: MaskRule = { kind: "test", column: "row", is: "at", values: 0, end: 9 };
    const listed = (values: Tensor): unknown => admitted(at, values, 3);
    const among = (...values: number[]): unknown => {
      return { kind: "test", attribute: "row", is: "in", values };
    };

    expect(listed(pairs([2, 8], [0, 3], [2, 0], [2, 8]))).toEqual([among(3), none, among(8, 0, 8)]);
    expect(listed(pairs())).toEqual([none, none, none]);
    for (const wrong of [
      [3, 0],
      [-1, 0],
      [0, 9],
      [0, -1],
    ] as const) {
      expect(() => listed(pairs([0, 0], wrong))).toThrow(
        `indices[1] = [${wrong.join(", ")}] does not index into shape [3,9]`,
      );
    }
    const many = Array.from({ length: 4097 }, () => [1, 1] as const);
    expect(() => listed(pairs(...many))).toThrow("A mask compares with 4097 values; at most 4096");
  });

  test("that are too many are told by the input that lists them", () => {
    const list = (length: number): Tensor => {
      return { dtype: "int32", shape: [1, length], data: new Int32Array(length) };
    };
    const inputs = new Map([
      ["liked", list(3)],
      ["seen", list(4097)],
    ]);
    const text = "A mask compares with 4097 values; at most 4096";
    const error = new LongListError(4097);

    expect(errorOfList(error, inputs)).toMatchObject({ message: `Input "seen": ${text}` });
    expect(errorOfList(error, new Map([...inputs, ["hidden", list(4097)]]))).toBe(error);
    expect(errorOfList(error, new Map([["liked", list(3)]]))).toBe(error);
    expect(errorOfList(invalid("k must be scalar"), inputs)).toMatchObject({
      message: "k must be scalar",
    });
  });

  test("that are not finite admit all or none, as comparisons with them do", () => {
    expect(filterOf("in", floats(NaN))).toEqual(none);
    expect(filterOf("in", floats(Infinity))).toEqual(none);
    expect(filterOf("lt", floats(NaN))).toEqual(none);
    expect([filterOf("lt", floats(Infinity)), filterOf("lt", floats(-Infinity))]).toEqual([
      all,
      none,
    ]);
    expect([filterOf("gte", floats(Infinity)), filterOf("gte", floats(-Infinity))]).toEqual([
      none,
      all,
    ]);
    expect(filterOf("in", floats(NaN, -0))).toMatchObject({ kind: "test", values: [0] });
    expect(filterOf("in", floats())).toEqual(none);
  });

  test("are bytes, where they are strings, and exact, where they are integers", () => {
    const text = tensorOf("int64", [1, 2], BigInt64Array.of(2n ** 60n, 7n));

    expect(filterOf("in", text)).toMatchObject({ values: [2n ** 60n, 7] });
    expect(filterOf("in", stringTensor(["日"], [1, 1]))).toMatchObject({
      values: ["\xe6\x97\xa5"],
    });
  });

  test("are at most so many", () => {
    const values = tensorOf("int32", [1, 4097], new Int32Array(4097));

    expect(() => filterOf("in", values)).toThrow("A mask compares with 4097 values; at most 4096");
  });
});
