// The order of candidates and the merge, against sorting everything (invariant I2).

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type TopKBlock, compareCandidates, mergeTopK } from "./top-k.ts";

interface Candidate {
  readonly score: number;
  readonly row: number;
}

/** The obvious implementation to compare with: sort everything, cut. */
function bruteForce(candidates: readonly Candidate[], k: number): Candidate[] {
  return candidates.toSorted(compareCandidates).slice(0, k);
}

function blockOf(queries: readonly (readonly Candidate[])[], k: number): TopKBlock {
  const block = {
    queries: queries.length,
    k,
    counts: new Uint32Array(queries.length),
    scores: new Float32Array(queries.length * k),
    rows: new Uint32Array(queries.length * k),
  };
  for (const [query, candidates] of queries.entries()) {
    const best = bruteForce(candidates, k);
    block.counts[query] = best.length;
    for (const [rank, candidate] of best.entries()) {
      block.scores[query * k + rank] = candidate.score;
      block.rows[query * k + rank] = candidate.row;
    }
  }
  return block;
}

/** Few distinct scores, so that most of them tie; NaN and the infinities among them. */
const score = fc.oneof(
  fc.constantFrom(0, 1, -1, 2.5, NaN, Infinity, -Infinity),
  fc.float({ noNaN: true, noDefaultInfinity: true }).map((value) => Math.fround(value) + 0),
);

describe("compareCandidates()", () => {
  test("ranks NaN below every number and the lower row first among equals", () => {
    const candidates = [
      { score: NaN, row: 0 },
      { score: -Infinity, row: 5 },
      { score: NaN, row: 3 },
      { score: 1, row: 9 },
      { score: 1, row: 2 },
    ];

    const rows = candidates.toSorted(compareCandidates).map(({ row }) => row);

    expect(rows).toEqual([2, 9, 5, 0, 3]);
  });
});

describe("mergeTopK()", () => {
  test("I2: equals brute force on the uncut table for any cut, ties and NaN included", () => {
    const table = fc.array(score, { maxLength: 60 });
    const cut = fc.record({
      scoresOfQueries: fc.array(table, { minLength: 1, maxLength: 3 }),
      parts: fc.integer({ min: 1, max: 5 }),
      k: fc.integer({ min: 1, max: 20 }),
      partStream: fc.infiniteStream(fc.nat({ max: 4 })),
    });
    const property = fc.property(cut, ({ scoresOfQueries, parts, k, partStream }) => {
      const rows = Math.max(...scoresOfQueries.map((scores) => scores.length));
      const partOfRow = Array.from({ length: rows }, () => partStream.next().value! % parts);
      const candidates = scoresOfQueries.map((scores) =>
        scores.map((value, row) => ({ score: value, row })),
      );
      const blocks = Array.from({ length: parts }, (_, part) =>
        blockOf(
          candidates.map((all) => all.filter(({ row }) => partOfRow[row] === part)),
          k,
        ),
      );

      const merged = mergeTopK(blocks, k);

      for (const [query, all] of candidates.entries()) {
        const expected = bruteForce(all, k);
        const from = query * k;
        const to = from + expected.length;
        expect(merged.counts[query]).toBe(expected.length);
        expect(Array.from(merged.rows.subarray(from, to))).toEqual(expected.map(({ row }) => row));
        expect(Array.from(merged.scores.subarray(from, to))).toEqual(
          expected.map((one) => one.score),
        );
      }
    });

    fc.assert(property, { numRuns: 300 });
  });

  test("tells which part gave each candidate and where it lay there", () => {
    const left = blockOf(
      [
        [
          { score: 3, row: 0 },
          { score: 1, row: 1 },
        ],
      ],
      2,
    );
    const right = blockOf([[{ score: 2, row: 7 }]], 2);

    const merged = mergeTopK([left, right], 3);

    expect([...merged.blocks]).toEqual([0, 1, 0]);
    expect([...merged.positions]).toEqual([0, 0, 1]);
  });

  test("a single block is not copied", () => {
    const block = blockOf([[{ score: 2, row: 4 }], [{ score: 1, row: 0 }]], 2);

    const merged = mergeTopK([block], 2);

    expect([merged.scores, merged.rows]).toEqual([block.scores, block.rows]);
    expect(merged.scores).toBe(block.scores);
    expect([...merged.blocks]).toEqual([0, 0, 0, 0]);
    expect([...merged.positions]).toEqual([0, 1, 2, 3]);
  });

  test("takes only what a smaller k asks for, and all there is for a larger one", () => {
    const block = blockOf(
      [
        [
          { score: 3, row: 0 },
          { score: 1, row: 1 },
        ],
      ],
      2,
    );

    expect([...mergeTopK([block], 1).rows]).toEqual([0]);
    expect(mergeTopK([block], 5).counts[0]).toBe(2);
    expect(mergeTopK([], 5).queries).toBe(0);
  });
});
