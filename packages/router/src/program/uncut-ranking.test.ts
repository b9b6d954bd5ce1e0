// What a router ranks itself, against a sort of all items, with a cut.

import { WinnowError, compareCandidates, stringTensor, tensor } from "@winnow/core";
import type { DenseRanking, DenseStep, SignatureProgram, Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { namesWithScores, rankingsOutside, withRankings } from "./uncut-ranking.ts";
import type { RankingAsked } from "./uncut-ranking.ts";

const ITEMS = 40;
const K = 5;
/** Every id has two rows, beside those of the last one. */
const idOf = (row: number): string => `item ${row >> 1}`;

function stepOf(rankings: readonly DenseRanking[]): DenseStep {
  return {
    kind: "dense",
    model: 0,
    inputs: [],
    outputs: [
      { name: "other", value: 7, dtype: "float32" },
      { name: "best", value: 0, dtype: "float32" },
      { name: "rows", value: 1, dtype: "int32" },
    ],
    rankings,
  };
}

const asRanked = (): DenseRanking => {
  return { node: "top_k", scores: "scores", items: ITEMS, k: K, best: "best", rows: "rows" };
};

/** Answers what a gather by `rows - 1 + 1` finds. */
const signature: SignatureProgram = {
  name: "serving_default",
  methodName: "tensorflow/serving/predict",
  inputs: [],
  outputs: [
    { name: "rows", graphTensor: "r:0", value: 1, dtype: "int32", shape: undefined },
    { name: "ids", graphTensor: "i:0", value: 5, dtype: "string", shape: undefined },
  ],
  constants: [
    { value: 2, tensor: tensor("int32", [], Int32Array.of(1)) },
    {
      value: 3,
      tensor: stringTensor(Array.from({ length: ITEMS + 1 }, (_, row) => idOf(row - 1))),
    },
    { value: 8, tensor: tensor("int32", [], Int32Array.of(0)) },
  ],
  steps: [
    { kind: "host", op: "AddV2", node: "add", attributes: {}, inputs: [1, 2], outputs: [4] },
    {
      kind: "host",
      op: "GatherV2",
      node: "ids",
      attributes: { batch_dims: 0 },
      inputs: [3, 4, 8],
      outputs: [5],
    },
  ],
};

interface Found {
  readonly best: readonly (readonly number[])[];
  readonly rows: readonly (readonly number[])[];
}

async function ranked(
  scores: readonly (readonly number[])[],
  wishes: Partial<RankingAsked>,
): Promise<Found> {
  const ranking = asRanked();
  const step = stepOf([ranking]);
  const data = Float32Array.from(scores.flat());
  const given = new Map<string, Tensor>([
    ["scores", tensor("float32", [scores.length, scores[0]!.length], data)],
  ]);
  const outputs = await withRankings({ step, rankings: [ranking] }, given, {
    signature,
    vocabularies: [],
    k: undefined,
    conditions: { exclude: [], include: [] },
    signal: new AbortController().signal,
    ...wishes,
  });
  const [best, rows] = [listsOf(outputs.get("best")!), listsOf(outputs.get("rows")!)];
  return { best, rows };
}

function listsOf({ shape, data, rowLengths }: Tensor): number[][] {
  const [queries = 0, columns = 0] = shape;
  return Array.from({ length: queries }, (_, query) => {
    const first = query * columns;
    return Array.from(data as Float32Array).slice(first, first + (rowLengths?.[query] ?? columns));
  });
}

const few = [NaN, -Infinity, Infinity, 0, -0, 1, -1, 1.5].map((score) => fc.constant(score));
const score = fc.oneof(...few, fc.float({ noNaN: false }));
const idList = fc.array(fc.integer({ min: 0, max: ITEMS }).map(idOf), { maxLength: 30 });

test("is what a sort gives of the admitted rows, ties, NaN and short lists included", async () => {
  const queries = 3;
  const listsFor: fc.Arbitrary<readonly (readonly string[])[]> = fc.oneof(
    fc.constant([]),
    idList.map((list) => [list]),
    fc.array(idList, { minLength: queries, maxLength: queries }),
  );
  const scoresFor = fc.array(fc.array(score, { minLength: ITEMS, maxLength: ITEMS }), {
    minLength: queries,
    maxLength: queries,
  });
  const depth = fc.option(fc.integer({ min: 1, max: ITEMS + 3 }), { nil: undefined });
  const asked = fc.record({ scores: scoresFor, exclude: listsFor, include: listsFor, k: depth });
  await fc.assert(
    fc.asyncProperty(asked, async ({ scores, exclude, include, k }) => {
      const conditions = {
        exclude: exclude.map((ids) => stringTensor(ids)),
        include: include.map((ids) => stringTensor(ids)),
      };

      const found = await ranked(scores, { conditions, k });

      const expected = scores.map((ofQuery, query) => {
        const without = exclude[exclude.length > 1 ? query : 0] ?? [];
        const only = include[include.length > 1 ? query : 0];
        const admitted = ofQuery
          .map((each, row) => ({ score: each, row }))
          .filter(({ row }) => !without.includes(idOf(row)) && only?.includes(idOf(row)) !== false);
        return admitted.toSorted(compareCandidates).slice(0, k ?? K);
      });
      expect(found.rows).toEqual(expected.map((list) => list.map(({ row }) => row)));
      expect(found.best).toEqual(expected.map((list) => list.map((each) => each.score)));
    }),
  );
});

describe("a ranking", () => {
  const rising = [Array.from({ length: ITEMS }, (_, row) => row)];

  test("is done by the dense part, unless a request has a k or lists", () => {
    const ranking = asRanked();
    const step = stepOf([ranking]);
    const none = { exclude: [], include: [] };

    expect(rankingsOutside(step, { k: undefined, conditions: none })).toEqual([]);
    expect(namesWithScores(step, [])).toEqual(["other", "best", "rows"]);
    expect(rankingsOutside(step, { k: 3, conditions: none })).toEqual([ranking]);
    expect(namesWithScores(step, [ranking])).toEqual(["other", "scores"]);
    const listed = { ...none, exclude: [stringTensor([])] };
    expect(rankingsOutside(step, { k: undefined, conditions: listed })).toEqual([ranking]);
  });

  test("refuses lists that fit no query, ids of another type, and scores of other items", async () => {
    const lists = (...ids: readonly Tensor[]) => ({ conditions: { exclude: ids, include: [] } });
    const numbers = tensor("int64", [1], BigInt64Array.of(7n));

    await expect(ranked(rising, lists(stringTensor([]), stringTensor([])))).rejects.toThrow(
      "Cannot exclude ids: 2 lists for 1 instances",
    );
    await expect(ranked(rising, lists(numbers))).rejects.toThrow(
      'Cannot exclude int64 ids: the ids of table "top_k" are string',
    );
    await expect(ranked([[1, 2]], { k: 1 }).catch(codeOf)).resolves.toBe("INTERNAL");
  });

  test("of many scores ends when its request does", async () => {
    const signal = AbortSignal.abort(new WinnowError("CANCELLED", "the client left"));
    const many = Array.from({ length: 8000 }, () => rising[0]!);

    await expect(ranked(many, { k: 1, signal }).catch(codeOf)).resolves.toBe("CANCELLED");
  });
});

function codeOf(error: unknown): string {
  return error instanceof WinnowError ? error.code : String(error);
}
