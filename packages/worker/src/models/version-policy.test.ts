// TensorFlow Serving's rules for the versions that are wanted, and Winnow's one addition.

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { isServingLeft, wantedVersions } from "./version-policy.ts";

const none: ReadonlySet<number> = new Set();

describe("wantedVersions()", () => {
  test("latest 1 wants the newest, compared as numbers", () => {
    const choice = { available: [9, 10, 2], failed: none, serving: undefined, servedElsewhere: [] };

    expect(wantedVersions({ kind: "latest", count: 1 }, choice)).toEqual([10]);
    expect(wantedVersions({ kind: "latest", count: 2 }, choice)).toEqual([10, 9]);
  });

  test("the serving version is wanted and comes first, whatever the policy says", () => {
    const choice = { available: [6, 7], failed: none, serving: 6, servedElsewhere: [] };

    expect(wantedVersions({ kind: "latest", count: 1 }, choice)).toEqual([6, 7]);
    expect(wantedVersions({ kind: "specific", versions: [7] }, choice)).toEqual([6, 7]);
  });

  test("what others have moved on to is kept until this worker has followed them", () => {
    const choice = { available: [6, 7, 8], failed: none, serving: 6, servedElsewhere: [7, 6, 5] };

    expect(wantedVersions({ kind: "latest", count: 1 }, choice)).toEqual([6, 8, 7]);
    expect(wantedVersions({ kind: "latest", count: 1 }, { ...choice, serving: 7 })).toEqual([7, 8]);
  });

  test("a version that failed leaves room for the newest that can be loaded", () => {
    const choice = {
      available: [5, 6, 7],
      failed: new Set([7]),
      serving: undefined,
      servedElsewhere: [],
    };

    expect(wantedVersions({ kind: "latest", count: 1 }, choice)).toEqual([7, 6]);
  });

  test("a serving version whose directory is gone is not wanted", () => {
    const choice = { available: [7], failed: none, serving: 6, servedElsewhere: [] };

    expect(wantedVersions({ kind: "all" }, choice)).toEqual([7]);
  });

  test("whatever is known, the wanted exist and hold the newest loadable one", () => {
    const versions = fc.uniqueArray(fc.integer({ min: 0, max: 30 }), { maxLength: 12 });
    fc.assert(
      fc.property(versions, versions, fc.nat(4), (available, failed, count) => {
        const choice = {
          available,
          failed: new Set(failed),
          serving: available[0],
          servedElsewhere: [],
        };

        const wanted = wantedVersions({ kind: "latest", count }, choice);

        expect(new Set(wanted).size).toBe(wanted.length);
        expect(wanted.every((version) => available.includes(version))).toBe(true);
        const loadable = available.filter((version) => !failed.includes(version));
        const newest = loadable.toSorted((a, b) => b - a).slice(0, 1);
        expect(wanted).toEqual(expect.arrayContaining(newest));
        expect(wanted.slice(0, 1)).toEqual(available.slice(0, 1));
      }),
    );
  });
});

describe("going back", () => {
  const choice = { available: [5, 6, 7], failed: none, serving: 7, servedElsewhere: [] };

  test.each([
    ["a specific policy names older versions alone", [5, 6], { ...choice, expected: true }],
    ["it names the serving version too", [5, 7], { ...choice, expected: false }],
    ["it names nothing that is there", [3], { ...choice, expected: false }],
    ["what it names cannot be loaded", [6], { ...choice, failed: new Set([6]), expected: false }],
    [
      "it names a newer one, which takes over anyway",
      [5, 7],
      { ...choice, serving: 6, expected: false },
    ],
    [
      "the newer one cannot be loaded",
      [5, 7],
      { ...choice, serving: 6, failed: new Set([7]), expected: true },
    ],
    ["nothing serves", [5], { ...choice, serving: undefined, expected: false }],
  ])("when %s: %j", (_when, versions, { expected, ...known }) => {
    expect(isServingLeft({ kind: "specific", versions }, known)).toBe(expected);
  });

  test("no other policy goes back", () => {
    expect(isServingLeft({ kind: "all" }, choice)).toBe(false);
    expect(isServingLeft({ kind: "latest", count: 1 }, { ...choice, serving: 6 })).toBe(false);
  });
});
