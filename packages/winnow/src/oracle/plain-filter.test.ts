// What docs/filters.md says of conditions, and of values that are not there.

import { describe, expect, test } from "vitest";
import { type PlainFilter, isAdmitted } from "./plain-filter.ts";

const item = (values: Readonly<Record<string, readonly (string | number | boolean)[]>>) => {
  return (filter: PlainFilter): boolean => isAdmitted(filter, (name) => values[name]);
};

describe("a filter", () => {
  const heat = item({ year: [1995], genres: ["crime", "drama"], tags: [] });

  test.each([
    [{ year: { $eq: 1995 } }, true],
    [{ year: { $gte: 1990, $lt: 1995 } }, false],
    [{ genres: { $eq: "drama" } }, true],
    [{ genres: { $ne: "drama" } }, false],
    [{ genres: { $in: ["noir", "crime"] } }, true],
    [{ rating: { $ne: 4 } }, true],
    [{ rating: { $lt: 4 } }, false],
    [{ rating: { $exists: false } }, true],
    [{ tags: { $exists: true } }, true],
    [{ tags: { $ne: "x" } }, true],
    [{ $or: [{ year: { $eq: 1 } }, { genres: { $eq: "crime" } }] }, true],
    [{ $and: [{ year: { $eq: 1995 } }, { rating: { $exists: true } }] }, false],
  ] satisfies readonly (readonly [PlainFilter, boolean])[])(
    "%j admits the item: %s",
    (filter, admitted) => {
      expect(heat(filter)).toBe(admitted);
    },
  );

  test("compares strings by their bytes, where UTF-16 would order them otherwise", () => {
    const name = item({ name: ["\u{1f600}"] });

    expect(name({ name: { $gte: "\uffff" } })).toBe(true);
  });
});
