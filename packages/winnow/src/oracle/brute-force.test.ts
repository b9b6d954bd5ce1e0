// The brute force against the product's own definition of a score, and against sorting everything.

import { canonicalScore, widenQueries } from "@winnow/accelerator";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { bestRows, definedScore, rowPiece, scoresOf } from "./brute-force.ts";

const float = fc.float({ noNaN: true, noDefaultInfinity: true });

function product(vector: Float32Array, rows: Float32Array, dim: number): Float32Array {
  const [query] = widenQueries(vector, dim);
  return Float32Array.from({ length: rows.length / dim }, (_, row) =>
    canonicalScore(query!, rows, row * dim),
  );
}

describe("scores", () => {
  test("I2: are the canonical ones, bit for bit, of any finite values", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 37 }).chain((dim) =>
          fc.record({
            vector: fc.array(float, { minLength: dim, maxLength: dim }),
            rows: fc.array(fc.array(float, { minLength: dim, maxLength: dim }), { maxLength: 9 }),
          }),
        ),
        ({ vector, rows }) => {
          const dim = vector.length;
          const values = Float32Array.from(rows.flat());
          const query = Float32Array.from(vector);
          const half = dim * Math.floor(rows.length / 2);
          const pieces = [values.subarray(0, half), values.subarray(half)];
          const table = {
            rows: rows.length,
            dim,
            pieces: pieces.map((each) => rowPiece(each, dim)),
          };

          const [scores] = scoresOf(query, table);

          expect(Buffer.from(scores!.buffer)).toEqual(
            Buffer.from(product(query, values, dim).buffer),
          );
        },
      ),
    );
  });

  test("follow the definition where a sum stands between two float32, and the order of additions decides", () => {
    // 1 + 2⁻²⁴ is half way between 1 and the next float32; what is added in which order tips it.
    const dim = 17;
    const query = new Float32Array(dim).fill(1);
    const values = new Float32Array(dim);
    values.set([1, 0, 2 ** -24, 0, 0, 0, 0, 0, 2 ** -60, 0, -(2 ** -61), 0, 0, 0, 0, 0, 2 ** -70]);

    const [scores] = scoresOf(query, { rows: 1, dim, pieces: [rowPiece(values, dim)] });

    expect(scores![0]).toBe(product(query, values, dim)[0]);
    expect(scores![0]).toBe(definedScore(query, values));
  });

  test("of a query that is not finite are NaN or infinite, as defined", () => {
    const dim = 3;
    const values = Float32Array.of(1, 2, 3, 0, 0, 0);
    const query = Float32Array.of(Infinity, 1, -Infinity);

    const [scores] = scoresOf(query, { rows: 2, dim, pieces: [rowPiece(values, dim)] });

    expect([...scores!]).toEqual([...product(query, values, dim)]);
  });
});

describe("the best rows", () => {
  const score = fc.oneof(fc.constantFrom(NaN, 0, 1, -1, Infinity, -Infinity), float);

  test("I2: are those of sorting all, equal scores by row, NaN last, excluded rows left out", () => {
    fc.assert(
      fc.property(
        fc.array(score, { maxLength: 30 }),
        fc.nat(35),
        fc.uniqueArray(fc.nat(35)),
        (list, k, excluded) => {
          const scores = Float32Array.from(list);
          const left = new Set(excluded);
          const all = [...scores.keys()].filter((row) => !left.has(row));
          all.sort((a, b) => {
            const [x, y] = [scores[a]!, scores[b]!];
            if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
            return Number.isNaN(x) || x === y ? a - b : y - x > 0 ? 1 : -1;
          });

          const best = bestRows(scores, k, left);

          expect([...best.rows]).toEqual(all.slice(0, k));
          expect([...best.scores]).toEqual(all.slice(0, k).map((row) => scores[row]));
        },
      ),
    );
  });
});
