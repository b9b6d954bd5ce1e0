// Ranks are drawn as often as their popularity says.

import { describe, expect, test } from "vitest";
import { seededRandom } from "../questions/seeded-random.ts";
import { zipfRanks } from "./zipf.ts";

const DRAWS = 200_000;

/** How often each of `count` ranks is drawn. */
function drawn(count: number, exponent: number): Float64Array {
  const random = seededRandom("zipf", count, exponent);
  const rankOf = zipfRanks(count, exponent);
  const found = new Float64Array(count);
  for (let draw = 0; draw < DRAWS; draw += 1) found[rankOf(random)]! += 1;
  return found;
}

describe("ranks", () => {
  test.each([
    [50, 0],
    [50, 0.5],
    [50, 1],
    [50, 1.3],
    [7, 3],
    [1, 1],
    [2, 1],
  ])("of %i keys are drawn by their popularity with exponent %d", (count, exponent) => {
    const found = drawn(count, exponent);

    const fractions = Array.from(found, (_, rank) => (rank + 1) ** -exponent);
    const sum = fractions.reduce((total, fraction) => total + fraction, 0);
    for (const [rank, fraction] of fractions.entries()) {
      const expected = (DRAWS * fraction) / sum;
      // Six standard deviations of a count.
      expect(Math.abs(found[rank]! - expected)).toBeLessThan(6 * Math.sqrt(expected) + 1);
    }
  });

  test("of ten million keys stay within them, and the first is drawn most", () => {
    const random = seededRandom("many");
    const rankOf = zipfRanks(10_000_000, 1);
    const ranks = Array.from({ length: 20_000 }, () => rankOf(random));

    expect(ranks.every((rank) => Number.isInteger(rank) && rank >= 0 && rank < 10_000_000)).toBe(
      true,
    );
    // 1 ÷ (ln 10⁷ + 0.577) of the draws.
    expect(ranks.filter((rank) => rank === 0).length / 20_000).toBeCloseTo(0.06, 1);
    expect(Math.max(...ranks)).toBeGreaterThan(1_000_000);
  });
});
