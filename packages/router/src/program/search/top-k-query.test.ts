// A search over healthy workers: exact, bounded, without the excluded.

import { cellOf, stringTensor, tensor } from "@winnow/core";
import type { StringColumn } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { idOf } from "../../doubles/fake-cluster.ts";
import { plain, plainLists, QueryBench, twice } from "../../fixtures/query-bench.ts";

describe("a search", () => {
  test("I2: equals brute force on the unpartitioned table, ties included", async () => {
    const bench = new QueryBench({ held: twice });
    const vectors = bench.vectors(5);

    const answer = await bench.settle(bench.search({ vectors, k: 7 }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 7));
    expect(bench.pending).toBe(0);
  });

  test("asks each partition of exactly one replica", async () => {
    const bench = new QueryBench({ held: twice });

    await bench.settle(bench.search({ vectors: bench.vectors(1), k: 3 }));

    const asked = bench.workers.flatMap((worker) =>
      worker.asked.flatMap((question) => [...question.partitions]),
    );
    expect(asked.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
  });

  test("never gives excluded ids, and still k items while enough remain", async () => {
    const bench = new QueryBench({ held: twice });
    const vectors = bench.vectors(2);
    const best = bench.expected(vectors, 4);
    const exclude = [stringTensor(best.ids.slice(0, 4)), stringTensor(best.ids.slice(4))];

    const answer = await bench.settle(bench.search({ vectors, k: 6, exclude }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 6, exclude));
    expect(plain(answer).rows).toHaveLength(12);
  });

  test("takes an empty list of ids for one of the table's own kind: nothing tells of which it is", async () => {
    const bench = new QueryBench({ held: twice });
    const vectors = bench.vectors(1);
    const exclude = [tensor("int64", [0], new BigInt64Array())];

    const answer = await bench.settle(bench.search({ vectors, k: 6, exclude }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 6));
  });

  test("S1: the exclusions of one query shorten no other query's list", async () => {
    const bench = new QueryBench({ held: twice, rows: 8 });
    const vectors = bench.vectors(3);
    const all = Array.from({ length: 8 }, (_, row) => idOf(row));
    const exclude = [stringTensor(all.slice(1)), stringTensor([]), stringTensor(all)];

    const answer = await bench.settle(bench.search({ vectors, k: 6, exclude }));

    expect(answer.scores?.shape).toEqual([3, 6]);
    expect([...answer.counts!]).toEqual([1, 6, 0]);
    expect(plainLists(answer)).toEqual(bench.expectedLists(vectors, 6, exclude));
  });

  test("S1: each query has the list that it has alone, whatever is excluded from each", async () => {
    const subset = fc.uniqueArray(fc.integer({ min: 0, max: 9 }), { maxLength: 10 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(subset, { minLength: 1, maxLength: 7 }),
        fc.integer({ min: 0, max: 10 }),
        fc.integer({ min: 1, max: 3 }),
        async (excludedRows, k, sliceQueriesMax) => {
          const settings = { sliceQueriesMax };
          const bench = new QueryBench({ held: twice, rows: 10, settings });
          const vectors = bench.vectors(excludedRows.length);
          const exclude = excludedRows.map((rows) => stringTensor(rows.map(idOf)));

          const answer = await bench.settle(bench.search({ vectors, k, exclude }));

          expect(plainLists(answer)).toEqual(bench.expectedLists(vectors, k, exclude));
        },
      ),
      { numRuns: 100 },
    );
  });

  test("gives vectors as bytes, those of workers too that write them as texts, as older releases do", async () => {
    const bench = new QueryBench({
      held: [
        [0, 1],
        [2, 3],
      ],
    });
    const vectors = bench.vectors(2);
    const asked = { vectors, k: 40, attributes: ["$vector"], vectorBytes: true } as const;
    bench.workers[1]!.behave = () => "older";

    const { rows, attributes } = await bench.settle(bench.search(asked));

    const { candidateRows } = bench.data;
    const expected = Array.from(rows!.data as Int32Array, (row) => {
      const values = candidateRows.slice(row * 3, (row + 1) * 3);
      return Buffer.from(cellOf(Buffer.from("{}"), Buffer.from(values.buffer)));
    });
    const cells = attributes!.data as StringColumn;
    expect(expected.map((_, at) => Buffer.from(cells.at(at)))).toEqual(expected);
    expect(bench.workers.every(({ asked: questions }) => questions.length > 0)).toBe(true);
  });

  test.each([
    ["candidates", { sliceCandidatesMax: 12 }],
    ["queries", { sliceQueriesMax: 2 }],
  ])("cuts many queries into slices of bounded %s, same answer", async (_, bound) => {
    const bench = new QueryBench({ held: twice, settings: { ...bound, slicesAtOnce: 2 } });
    const vectors = bench.vectors(9);

    const answer = await bench.settle(bench.search({ vectors, k: 5 }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 5));
    const sizes = bench.workers.flatMap((worker) =>
      worker.asked.map(({ ask }) => (ask.kind === "topK" ? ask.queries : 0)),
    );
    expect(Math.max(...sizes)).toBe(2);
  });

  test("cuts queries that take a worker long into shorter slices beside a single one, same answer", async () => {
    const bench = new QueryBench({ held: [[0, 1, 2, 3]] });
    const [worker] = bench.workers;
    worker!.computeUs = 30_000;
    const vectors = bench.vectors(150);

    await bench.settle(bench.search({ vectors, k: 2 }));
    await bench.settle(bench.search({ vectors, k: 2 }));
    await bench.settle(bench.search({ vectors: bench.vectors(1), k: 2 }));
    const answer = await bench.settle(bench.search({ vectors, k: 2 }));

    expect(plain(answer)).toEqual(bench.expected(vectors, 2));
    const sizes = worker!.asked.map(({ ask }) => (ask.kind === "topK" ? ask.queries : 0));
    expect(sizes).toEqual([150, 150, 1, 64, 64, 22]);
  });

  test("refuses more queries than a request may have instances, which a graph made of a few of them", async () => {
    const bench = new QueryBench({ held: twice, settings: { instancesMax: 4 } });

    await expect(bench.search({ vectors: bench.vectors(5), k: 2 })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: "The model makes 5 queries of this request; at most 4 are searched",
    });
    expect(bench.workers.flatMap(({ asked }) => asked)).toEqual([]);
    expect(bench.pending).toBe(0);
  });

  test("refuses exclusions that fit neither all nor each of the queries", async () => {
    const bench = new QueryBench({ held: twice });
    const exclude = [stringTensor(["a"]), stringTensor(["b"])];

    const answer = bench.search({ vectors: bench.vectors(3), k: 2, exclude });

    await expect(answer).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});
