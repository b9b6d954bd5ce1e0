// The split of keys over arms: as large as the weights say, the same everywhere, and moving no more keys than needed.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { armOf } from "./arm-choice.ts";
import type { WeightedArm } from "./arm-choice.ts";

const KEYS = 4000;
const keys = Array.from({ length: KEYS }, (_, at) => Buffer.from(`user-${at}`));

function armsOfAll(arms: readonly WeightedArm[], salt = "home-feed"): string[] {
  return keys.map((key) => arms[armOf(arms, salt, key)]!.name);
}

function countsOf(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

const weights = fc.uniqueArray(
  fc.record({
    name: fc.stringMatching(/^[a-z][a-z0-9-]{0,9}$/),
    weight: fc.integer({ min: 5, max: 100 }),
  }),
  { minLength: 2, maxLength: 5, selector: ({ name }) => name },
);

describe("the split of keys", () => {
  test("is the documented one, key by key", () => {
    const arms = [
      { name: "control", weight: 90 },
      { name: "new", weight: 10 },
    ];

    const chosen = ["42", "0", "", "34", "Zoë"].map(
      (key) => arms[armOf(arms, "home-feed", Buffer.from(key))]!.name,
    );

    // By the Python of docs/experiments.md.
    expect(chosen).toEqual(["control", "new", "control", "new", "control"]);
    expect(armsOfAll(arms).filter((name) => name === "new")).toHaveLength(414);
  });

  test("follows the weights within six standard deviations, whatever names and salt", () => {
    fc.assert(
      fc.property(weights, fc.string({ maxLength: 9 }), (arms, salt) => {
        const counts = countsOf(armsOfAll(arms, salt));
        const sum = arms.reduce((total, { weight }) => total + weight, 0);
        for (const { name, weight } of arms) {
          const share = weight / sum;
          const bound = 6 * Math.sqrt(KEYS * share * (1 - share)) + 1;
          expect(Math.abs((counts.get(name) ?? 0) - KEYS * share)).toBeLessThan(bound);
        }
      }),
      { numRuns: 15 },
    );
  });

  test("does not depend on the order of arms, nor on the scale of weights", () => {
    fc.assert(
      fc.property(weights, (arms) => {
        const doubled = arms.map(({ name, weight }) => ({ name, weight: weight * 2 }));
        expect(armsOfAll(arms.toReversed())).toEqual(armsOfAll(arms));
        expect(armsOfAll(doubled)).toEqual(armsOfAll(arms));
      }),
      { numRuns: 5 },
    );
  });

  test("moves keys into an arm whose weight grows, and none between others", () => {
    fc.assert(
      fc.property(weights, fc.integer({ min: 1, max: 100 }), (arms, more) => {
        const [first, ...others] = arms;
        const grown = [{ ...first!, weight: first!.weight + more }, ...others];

        const before = armsOfAll(arms);
        const after = armsOfAll(grown);

        const moved = after.filter((name, at) => name !== before[at]);
        expect(new Set(moved)).toEqual(new Set(moved.length === 0 ? [] : [first!.name]));
      }),
      { numRuns: 10 },
    );
  });

  test("moves the keys of an arm that is taken away or has weight 0, and no others", () => {
    fc.assert(
      fc.property(weights, (arms) => {
        const [first, ...others] = arms;
        const before = armsOfAll(arms);
        const without = armsOfAll(others);
        const paused = armsOfAll([{ ...first!, weight: 0 }, ...others]);

        expect(paused).toEqual(without);
        const stayed = before.filter((name, at) => name === without[at]);
        expect(stayed).toEqual(before.filter((name) => name !== first!.name));
      }),
      { numRuns: 10 },
    );
  });

  test("takes weights that are nearly nothing: all others go before, and of equals the first name", () => {
    const tiny = { name: "b", weight: 1e-320 };

    const alone = new Set(armsOfAll([tiny, { name: "a", weight: 1e-320 }]));
    const beside = new Set(armsOfAll([tiny, { name: "z", weight: 1 }]));

    expect([alone, beside]).toEqual([new Set(["a"]), new Set(["z"])]);
  });

  test("of two experiments is independent: their salts differ", () => {
    const arms = [
      { name: "a", weight: 1 },
      { name: "b", weight: 1 },
    ];
    const [one, other] = [armsOfAll(arms, "feed"), armsOfAll(arms, "search")];

    const both = one.filter((name, at) => name === "a" && other[at] === "a").length;

    expect(Math.abs(both - KEYS / 4)).toBeLessThan(6 * Math.sqrt((KEYS * 3) / 16));
  });
});
