// Sums of powers: close to the plain sum, and the same bits however their terms are grouped.

import fc from "fast-check";
import { expect, test } from "vitest";
import { PowerSum } from "./softmax-sums.ts";

function sumOf(scores: readonly number[]): PowerSum {
  const sum = new PowerSum();
  for (const score of scores) sum.add(score);
  return sum;
}

const scores = fc.array(fc.float({ noNaN: true, noDefaultInfinity: true, min: -90, max: 90 }), {
  minLength: 1,
  maxLength: 60,
});

test("a sum is that of the powers, to twelve digits", () => {
  fc.assert(
    fc.property(scores, (each) => {
      const best = Math.max(...each);
      const plain = each.reduce((sum, score) => sum + Math.exp(score - best), 0);

      expect(Math.abs(sumOf(each).relativeTo(best) / plain - 1)).toBeLessThan(1e-12);
    }),
  );
});

test("however the terms are ordered, grouped and sent, the sum has the same bits", () => {
  fc.assert(
    fc.property(
      fc.array(fc.float({ noNaN: true, noDefaultInfinity: true }), { minLength: 1, maxLength: 60 }),
      fc.array(fc.nat({ max: 4 }), { minLength: 60, maxLength: 60 }),
      (each, groups) => {
        const whole = sumOf(each);
        const merged = new PowerSum();
        for (const group of [4, 3, 2, 1, 0]) {
          const some = each.filter((_, at) => groups[at] === group).toReversed();
          if (some.length > 0) merged.addText(sumOf(some).toText());
        }

        const best = Math.max(...each);
        expect(merged.relativeTo(best)).toBe(whole.relativeTo(best));
        expect(merged.toText()).toBe(whole.toText());
      },
    ),
    { numRuns: 500 },
  );
});

test("many terms are carried over without a loss", () => {
  const sum = new PowerSum();
  for (let at = 0; at < 2 ** 20 + 3; at += 1) sum.add(5.5);

  expect(sum.relativeTo(5.5)).toBeCloseTo(2 ** 20 + 3, 6);
});

test("a score without a finite power leaves no sum; -∞ adds nothing", () => {
  expect(sumOf([1, NaN]).relativeTo(1)).toBeNaN();
  expect(sumOf([1, Infinity]).toText()).toBe("null");
  expect(sumOf([2, -Infinity]).relativeTo(2)).toBeCloseTo(1, 12);
  const merged = new PowerSum();
  merged.addText("null");
  expect(merged.relativeTo(0)).toBeNaN();
});

test.each(["", "{}", "[1]", '[1,"x"]', '[1.5,"2"]', "[1,2]", `[${'1,"2",'.repeat(8)}1,"2"]`])(
  "%j is no sum",
  (text) => {
    expect(() => new PowerSum().addText(text)).toThrow("is no sum of powers");
  },
);
