// What a router takes for an answer to a search, and what it does not.

import { StringColumn, VECTOR_ATTRIBUTE, rowRangeOf, tensor, vectorCells } from "@winnow/core";
import type { CandidateTable } from "@winnow/core";
import type { TopKAsk, WorkerAnswer } from "@winnow/cluster";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { topKFault } from "./top-k-fault.ts";

const table: CandidateTable = {
  kind: "candidate",
  name: "movies",
  rows: 41,
  dim: 2,
  partitions: 4,
  idDtype: "int64",
  sources: [],
};
const ask: TopKAsk = {
  kind: "topK",
  k: 3,
  queries: 1,
  vectors: new Float32Array(2),
  excluded: [],
  rowsOnly: true,
};

function answerOf(rows: readonly number[], scores: readonly number[]): WorkerAnswer {
  const block = {
    queries: 1,
    k: rows.length,
    counts: Uint32Array.of(rows.length),
    scores: Float32Array.from(scores),
    rows: Uint32Array.from(rows),
  };
  return { kind: "topK", block, ids: undefined };
}

const faultOf = (answer: WorkerAnswer, partitions: readonly number[]): string | undefined =>
  topKFault(answer, ask, { table, partitions });

describe("topKFault()", () => {
  test.each([
    ["scores that fall", [12, 11, 14], [3, 2, 1]],
    ["equal scores of ascending rows", [11, 12, 14], [2, 2, 2]],
    ["NaN behind every number, by row", [14, 11, 12], [-Infinity, NaN, NaN]],
    ["infinities, by row", [11, 12, 14], [Infinity, Infinity, -Infinity]],
  ])("finds nothing in %s", (_, rows, scores) => {
    expect(faultOf(answerOf(rows, scores), [1])).toBeUndefined();
  });

  test.each([
    ["a row of another partition", [12, 9, 14], [3, 2, 1]],
    ["the first row of the next partition", [12, 20, 14], [3, 2, 1]],
    ["a row beyond the table", [12, 4_000_000_000, 14], [3, 2, 1]],
  ])("sees %s", (_, rows, scores) => {
    const fault = `row ${rows[1]}, which is in none of the partitions asked`;
    expect(faultOf(answerOf(rows, scores), [1])).toBe(fault);
  });

  test.each([
    ["a row twice with one score", [12, 12, 14], [3, 3, 1]],
    ["scores that rise", [12, 11, 14], [2, 3, 1]],
    ["equal scores of descending rows", [14, 12, 11], [2, 2, 2]],
    ["NaN before a number", [11, 12, 14], [NaN, 3, 1]],
  ])("sees %s", (_, rows, scores) => {
    expect(faultOf(answerOf(rows, scores), [1])).toBe(`row ${rows[1]} out of order`);
  });

  const vectorAsk = {
    ...ask,
    attributes: [VECTOR_ATTRIBUTE],
    vectorBytes: true,
    ownVectors: true,
  } as const;
  const biased: CandidateTable = { ...table, dim: 3, added: 1 };
  const vectorFault = (attributes: StringColumn, vectorBytes?: true): string | undefined => {
    const answer = { ...answerOf([11, 12, 14], [3, 2, 1]), attributes, vectorBytes };
    return topKFault(answer, vectorAsk, { table: biased, partitions: [1] });
  };
  const asTexts = (...vectors: readonly (readonly number[])[]): StringColumn =>
    StringColumn.fromText(
      vectors.map((values) => {
        const bytes = Buffer.from(Float32Array.from(values).buffer);
        return JSON.stringify({ [VECTOR_ATTRIBUTE]: bytes.toString("base64") });
      }),
    );

  test("finds nothing in vectors of the table's length, without what was added to its rows", () => {
    expect(vectorFault(vectorCells(Float32Array.of(1, 2, 3, 4, 5, 6), 3), true)).toBeUndefined();
    expect(vectorFault(asTexts([1, 2], [3, 4], [5, 6]))).toBeUndefined();
  });

  const mixed = [vectorCells(new Float32Array(4), 2), vectorCells(new Float32Array(1), 1)];

  test.each<[string, string | undefined, string]>([
    [
      "longer ones",
      vectorFault(vectorCells(new Float32Array(9), 3), true),
      "a vector of 3 values instead of 2",
    ],
    [
      "ones without values",
      vectorFault(vectorCells(new Float32Array(), 3), true),
      "a vector of 0 values instead of 2",
    ],
    [
      "one that is shorter",
      vectorFault(StringColumn.joined(mixed), true),
      "a vector of 1 values instead of 2",
    ],
    [
      "shorter ones as texts",
      vectorFault(asTexts([1], [2], [3])),
      "a vector of 1 values instead of 2",
    ],
    [
      "an item without one",
      vectorFault(StringColumn.fromText(["{}", "{}", "{}"])),
      "A worker described an item without the vector wanted",
    ],
  ])("sees among the vectors of items %s", (_, fault, text) => {
    expect(fault).toBe(text);
  });

  test("knows for every table which partition a row is in", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 32 - 1 }), fc.nat(), fc.nat(), (rows, p, at) => {
        const own = Math.min(rows, 1 + (p % 1024));
        const added = p % 3;
        const cut = {
          ...table,
          rows: rows + 5 * added,
          partitions: own + added,
          ...(added > 0 && { original: { rows, partitions: own } }),
        };
        const { partitions } = cut;
        const partition = at % partitions;
        const { firstRow, endRow } = rowRangeOf(partition, cut);
        for (const row of [firstRow, endRow - 1]) {
          const one = { ...ask, k: 1 };
          const answer = answerOf([row], [1]);
          const others = partitions > 1 ? [(partition + 1) % partitions] : [];
          expect(topKFault(answer, one, { table: cut, partitions: [partition] })).toBeUndefined();
          expect(topKFault(answer, one, { table: cut, partitions: others })).toContain("row");
        }
      }),
    );
  });
});

test("ids are still counted", () => {
  const answer = { ...answerOf([11, 12, 14], [3, 2, 1]), ids: undefined };
  const wanted = { ...ask, rowsOnly: false };

  expect(topKFault(answer, wanted, { table, partitions: [1] })).toContain("ids for 3 candidates");
  const ids = tensor("int64", [3], new BigInt64Array(3));
  expect(topKFault({ ...answer, ids } as WorkerAnswer, wanted, { table, partitions: [1] })).toBe(
    undefined,
  );
});
