// Searches of several vectors for each query against the best score of every row, over small numbers, so that many
// rows tie.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { stringTensor } from "../../tensor/tensor.ts";
import type { TopKAnswer, TopKQuestion } from "../step-contract.ts";
import { tensorOf } from "../operations/tensor-memory.ts";
import { manyVectorSearch } from "./many-vector-search.ts";

interface Asked {
  /** Vectors of each query, of two values. */
  readonly queries: readonly (readonly (readonly [number, number])[])[];
  readonly items: readonly (readonly [number, number])[];
  readonly k: number;
  /** A row that each query must not find; -1 for none. */
  readonly excluded: readonly number[];
}

interface Found {
  readonly score: number;
  readonly row: number;
}

const inOrder = (list: readonly Found[], k: number): readonly Found[] =>
  list.toSorted((a, b) => b.score - a.score || a.row - b.row).slice(0, k);

function search({ items, excluded }: Asked, { query, k, chosen }: TopKQuestion): TopKAnswer {
  const vectors = query.data as Float32Array;
  const lists = Array.from({ length: query.shape[0]! }, (_, at) => {
    const scored = items.map(([x, y], row) => {
      return { row, score: vectors[2 * at]! * x + vectors[2 * at + 1]! * y + 0 };
    });
    return inOrder(
      scored.filter(({ row }) => row !== excluded[chosen?.[at] ?? at]),
      k,
    );
  });
  const width = Math.max(0, ...lists.map(({ length }) => length));
  const padded = lists.flatMap((list) =>
    Array.from({ length: width }, (_, rank) => list[rank] ?? { row: 0, score: 0 }),
  );
  const shape = [lists.length, width];
  const [scores, rows] = [padded.map(({ score }) => score), padded.map(({ row }) => row)];
  return {
    scores: tensorOf("float32", shape, Float32Array.from(scores)),
    rows: tensorOf("int32", shape, Int32Array.from(rows)),
    ids: stringTensor(
      rows.map((row) => `item ${row}`),
      shape,
    ),
    counts: Uint32Array.from(lists, ({ length }) => length),
  };
}

async function answerOf(asked: Asked): Promise<readonly (readonly Found[])[]> {
  const { queries, k } = asked;
  const vectors = queries[0]!.length;
  const query = tensorOf(
    "float32",
    [queries.length, vectors * 2],
    Float32Array.from(queries.flat(2)),
  );
  const ask = (question: TopKQuestion): Promise<TopKAnswer> =>
    Promise.resolve().then(() => search(asked, question));
  const answer = await manyVectorSearch({ query, k }, vectors, ask);
  const width = answer.scores!.shape[1]!;
  return queries.map((_, at) =>
    Array.from({ length: answer.counts?.[at] ?? width }, (_each, rank) => {
      const place = at * width + rank;
      const row = (answer.rows!.data as Int32Array)[place]!;
      const ids = answer.ids!;
      expect(ids.dtype === "string" && ids.data.textAt(place)).toBe(`item ${row}`);
      return { score: (answer.scores!.data as Float32Array)[place]!, row };
    }),
  );
}

function expectedOf({ queries, items, k, excluded }: Asked): readonly (readonly Found[])[] {
  return queries.map((vectors, query) => {
    const scored = items.map(([x, y], row) => {
      return { row, score: Math.max(...vectors.map(([a, b]) => a * x + b * y + 0)) };
    });
    return inOrder(
      scored.filter(({ row }) => row !== excluded[query]),
      k,
    );
  });
}

const pair = fc.tuple(fc.integer({ min: -2, max: 2 }), fc.integer({ min: -2, max: 2 }));
const asked = fc
  .record({ vectors: fc.integer({ min: 1, max: 4 }), rows: fc.integer({ min: 1, max: 30 }) })
  .chain(({ vectors, rows }) =>
    fc.record({
      queries: fc.array(fc.array(pair, { minLength: vectors, maxLength: vectors }), {
        minLength: 1,
        maxLength: 4,
      }),
      items: fc.array(pair, { minLength: rows, maxLength: rows }),
      k: fc.integer({ min: 0, max: rows }),
      excluded: fc.array(fc.integer({ min: -1, max: 8 }), { minLength: 4, maxLength: 4 }),
    }),
  );

describe("a search by several vectors", () => {
  test("answers what the best score of every row answers, equal scores by their rows", async () => {
    await fc.assert(
      fc.asyncProperty(asked, async (each) => {
        expect(await answerOf(each)).toEqual(expectedOf(each));
      }),
      { numRuns: 500 },
    );
  });

  test("asks for each vector under the filter and the lists of its query", async () => {
    const questions: TopKQuestion[] = [];
    const admits = [3, 5].map((row) => {
      return { kind: "test", attribute: "row", is: "in", values: [row] } as const;
    });
    const query = tensorOf("float32", [2, 6], new Float32Array(12));
    const empty = { queries: [], items: [], k: 0, excluded: [] };
    await manyVectorSearch({ query, k: 0, admits, chosen: [4, 9] }, 3, (question) => {
      questions.push(question);
      return Promise.resolve(search(empty, question));
    });

    expect(questions).toHaveLength(1);
    expect(questions[0]!.query.shape).toEqual([6, 2]);
    expect(questions[0]!.chosen).toEqual([4, 4, 4, 9, 9, 9]);
    const [three, five] = admits;
    expect(questions[0]!.admits).toEqual([three, three, three, five, five, five]);
  });
});
