// The compiled checks of rows against the plain ones, which define the results.

import { extendRegister, plainRowChecks } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { loadNativeAddon } from "./native-addon.ts";
import { createRowChecks, nativeRowChecks } from "./row-checks.ts";

const { addon } = loadNativeAddon();

/** Words that look random; the same for the same seed. */
function wordsOf(count: number, seed: number): Int32Array {
  let state = seed | 1;
  return Int32Array.from({ length: count }, () => {
    state = Math.imul(state, 1664525) + 1013904223;
    // Finite as float32: not all exponent bits.
    return state & ~0x0080_0000;
  });
}

describe.skipIf(addon === undefined)("compiled checks of rows", () => {
  const checks = nativeRowChecks(addon!);
  const spans = fc.record({
    start: fc.nat(70),
    length: fc.oneof(fc.nat(700), fc.nat(9000)),
    register: fc.integer(),
    seed: fc.integer(),
  });

  test("carry the checksum on as the plain ones do, from any register over any span", () => {
    fc.assert(
      fc.property(spans, ({ start, length, register, seed }) => {
        const words = wordsOf(start + length + 3, seed);
        const span = { start, end: start + length };

        const extended = checks.extendRegister(register, words, span);

        const bytes = new Uint8Array(words.buffer, start * 4, length * 4);
        expect(extended).toBe(plainRowChecks.extendRegister(register, words, span));
        expect(extended).toBe(extendRegister(register, bytes));
      }),
      { numRuns: 200 },
    );
  });

  test("find the first value within the span that is not finite, and none outside of it", () => {
    const faults = fc.array(
      fc.record({
        at: fc.nat(9100),
        value: fc.constantFrom(Number.NaN, Infinity, -Infinity),
      }),
      { maxLength: 4 },
    );
    fc.assert(
      fc.property(spans, faults, ({ start, length, seed }, placed) => {
        const words = wordsOf(start + length + 3, seed);
        const values = new Float32Array(words.buffer);
        for (const { at, value } of placed) if (at < values.length) values[at] = value;
        const span = { start, end: start + length };

        const found = checks.indexOfInfinite(words, span);

        const plain = values
          .subarray(0, span.end)
          .findIndex((value, at) => at >= start && !Number.isFinite(value));
        expect(found).toBe(plain);
        expect(plainRowChecks.indexOfInfinite(words, span)).toBe(plain);
      }),
      { numRuns: 200 },
    );
  });

  test("refuse a span outside of the array", () => {
    const words = new Int32Array(2000);

    expect(() => checks.extendRegister(0, words, { start: 0, end: 2001 })).toThrow(TypeError);
    expect(() => checks.indexOfInfinite(words, { start: 1000, end: 2001 })).toThrow(TypeError);
  });

  test("are those a reader gets where they are built", () => {
    const words = wordsOf(5000, 7);
    const span = { start: 0, end: words.length };

    expect(createRowChecks().extendRegister(-1, words, span)).toBe(
      plainRowChecks.extendRegister(-1, words, span),
    );
  });
});
