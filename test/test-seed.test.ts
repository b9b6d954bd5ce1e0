// Property tests are repeatable: where nobody names a seed it is always the same, and one that is drawn is told.

import fc from "fast-check";
import { expect, test } from "vitest";
import { testSeedOf } from "./test-seed.ts";

test("property tests draw from the seed of the run", () => {
  expect(fc.readConfigureGlobal().seed).toBe(Number(process.env["TEST_SEED"]));
});

test("the seed is fixed unless TEST_SEED names another, or has one drawn", () => {
  expect([testSeedOf(undefined), testSeedOf(""), testSeedOf("17")]).toEqual([1, 1, 17]);
  expect(testSeedOf("random")).not.toBe(testSeedOf("random"));
  expect(() => testSeedOf("seven")).toThrow('or "random", not "seven"');
});

test("a property that fails tells the seed that repeats it", () => {
  const failing = (): void => fc.assert(fc.property(fc.nat(), (value) => value < 10));

  expect(failing).toThrow(`seed: ${process.env["TEST_SEED"]}`);
});
