// The canonical score against its definition, written a second time with arrays of lanes.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalScore, widenQueries } from "./canonical-score.ts";

/** The definition, lane by lane. */
function definedScore(query: readonly number[], row: readonly number[]): number {
  const lanes = Array.from({ length: 8 }, () => 0);
  for (const [j, factor] of query.entries()) lanes[j % 8]! += factor * row[j]!;
  const [l0, l1, l2, l3, l4, l5, l6, l7] = lanes as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const even = l0 + l4 + (l2 + l6);
  const odd = l1 + l5 + (l3 + l7);
  const score = Math.fround(even + odd);
  return score === 0 ? 0 : score;
}

function scoreOf(query: readonly number[], row: readonly number[]): number {
  const [wide] = widenQueries(Float32Array.from(query), query.length);
  return canonicalScore(wide!, Float32Array.from(row), 0);
}

const anyFloat = fc.float({ noDefaultInfinity: false, noNaN: false });

describe("canonicalScore()", () => {
  test("equals its definition bit for bit for every dimension from 1 to 40", () => {
    const vectors = fc.integer({ min: 1, max: 40 }).chain((dim) => {
      const vector = fc.array(anyFloat, { minLength: dim, maxLength: dim });
      return fc.tuple(vector, vector);
    });

    fc.assert(
      fc.property(vectors, ([query, row]) => {
        expect(Object.is(scoreOf(query, row), definedScore(query, row))).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });

  test("adds in eight lanes: an order that a sequential sum would round otherwise", () => {
    const query = [2 ** 60, 1, -(2 ** 60), 1, 0, 0, 0, 0];
    const row = [1, 1, 1, 1, 1, 1, 1, 1];

    expect(scoreOf(query, row)).toBe(2);
  });

  test("is never -0", () => {
    expect(Object.is(scoreOf([-0], [1]), 0)).toBe(true);
    expect(Object.is(scoreOf([1e-30, 0], [-1e-30, 0]), 0)).toBe(true);
  });

  test("keeps subnormal scores and rounds below half of the smallest to zero", () => {
    expect(scoreOf([2 ** -100], [2 ** -49])).toBe(2 ** -149);
    expect(scoreOf([2 ** -100], [2 ** -51])).toBe(0);
  });

  test("overflows to an infinity, not to NaN", () => {
    const big = 3e38;

    expect(scoreOf([big, big], [big, -big])).toBe(0);
    expect(scoreOf([big], [big])).toBe(Infinity);
    expect(scoreOf([big], [-big])).toBe(-Infinity);
  });

  test("is NaN where a query that is not finite meets what arithmetic leaves undefined", () => {
    expect(scoreOf([NaN, 1], [0, 1])).toBeNaN();
    expect(scoreOf([Infinity], [0])).toBeNaN();
    expect(scoreOf([Infinity, Infinity], [1, -1])).toBeNaN();
    expect(scoreOf([Infinity], [2])).toBe(Infinity);
  });

  test("reads the row at its place", () => {
    const [query] = widenQueries(Float32Array.from([1, 10]), 2);

    expect(canonicalScore(query!, Float32Array.from([9, 9, 3, 4, 9]), 2)).toBe(43);
  });
});
