// How many searches masks make, by which they are bounded.

import { describe, expect, test } from "vitest";
import { areSearched, searchesOf } from "./row-classes.ts";

const penalty = { penalty: 1 };
const other = { penalty: 1, isElse: true };
const replacing = {};

describe("the searches of masks", () => {
  test.each([
    ["none", [], 1],
    ["a score in the place of others", [replacing], 2],
    ["a penalty", [penalty], 2],
    ["penalties one behind the other", [penalty, penalty, penalty], 8],
    ["penalties of which each is for other rows", [penalty, other, other], 4],
    ["two such lists", [penalty, other, penalty, other, other], 12],
    ["scores in the place of others around penalties", [replacing, penalty, other, replacing], 4],
  ])("of %s are as many as the classes of rows", (_, masks, searches) => {
    expect(searchesOf(masks)).toBe(searches);
  });

  test("are few", () => {
    const many = (count: number, mask: object): object[] =>
      Array.from({ length: count }, () => mask);

    expect(areSearched([...many(5, penalty), replacing])).toBe(true);
    expect(areSearched(many(6, penalty))).toBe(false);
    expect(areSearched([penalty, ...many(7, other)])).toBe(true);
    expect(areSearched([penalty, ...many(8, other)])).toBe(false);
  });
});
