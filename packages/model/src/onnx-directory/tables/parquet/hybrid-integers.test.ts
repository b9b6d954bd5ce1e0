// The hybrid of runs and packed groups, against an encoder that mixes both.

import fc from "fast-check";
import { expect, test } from "vitest";
import { hybridIntegers } from "./hybrid-integers.ts";

interface Stretch {
  readonly isRun: boolean;
  readonly values: readonly number[];
}

/** Stretches as bytes: a run of its first value, or groups of eight. */
function encoded(stretches: readonly Stretch[], bits: number): Uint8Array {
  const bytes: number[] = [];
  for (const { isRun, values } of stretches) {
    let header = isRun ? values.length * 2 : Math.ceil(values.length / 8) * 2 + 1;
    for (; header > 127; header = Math.floor(header / 128)) bytes.push((header % 128) + 128);
    bytes.push(header);
    const padded = isRun
      ? values.slice(0, 1)
      : [...values, ...Array<number>(7).fill(0)].slice(0, Math.ceil(values.length / 8) * 8);
    const width = isRun ? Math.ceil(bits / 8) * 8 : bits;
    let packed = 0n;
    for (const [at, value] of padded.entries()) packed |= BigInt(value) << BigInt(at * width);
    for (let at = 0; at < (padded.length * width) / 8; at += 1)
      bytes.push(Number((packed >> BigInt(8 * at)) & 255n));
  }
  return Uint8Array.from(bytes);
}

const cases = fc.integer({ min: 1, max: 32 }).chain((bits) =>
  fc.record({
    bits: fc.constant(bits),
    stretches: fc.array(
      fc.record({
        isRun: fc.boolean(),
        values: fc.array(fc.nat({ max: 2 ** bits - 1 }), { minLength: 1, maxLength: 200 }),
      }),
      { minLength: 1, maxLength: 5 },
    ),
  }),
);

test("what an encoder wrote is decoded, and cut bytes are refused", () => {
  fc.assert(
    fc.property(cases, fc.nat(), ({ bits, stretches: given }, cut) => {
      // Groups are whole, but for the last one.
      const stretches = given.map(({ isRun, values }, at) => {
        const whole = values.slice(0, Math.max(8, values.length - (values.length % 8)));
        const fill = Array.from({ length: Math.max(0, 8 - whole.length) }, () => 0);
        return isRun || at === given.length - 1
          ? { isRun, values }
          : { isRun, values: [...whole, ...fill] };
      });
      const values = stretches.flatMap((stretch) =>
        stretch.isRun ? stretch.values.map(() => stretch.values[0]!) : stretch.values,
      );
      const bytes = encoded(stretches, bits);
      const layout = { bits, count: values.length };
      const last = stretches.at(-1)!;
      const needed = last.isRun
        ? bytes.length
        : bytes.length - Math.floor((((8 - (last.values.length % 8)) % 8) * bits) / 8);

      expect(Array.from(hybridIntegers(bytes, layout)!)).toEqual(values);
      expect(hybridIntegers(bytes.subarray(0, cut % needed), layout)).toBeUndefined();
    }),
  );
});

test("claims of more than there is are refused, and no bits need no bytes", () => {
  expect(hybridIntegers(Uint8Array.of(0, 0), { bits: 1, count: 8 })).toBeUndefined();
  expect(hybridIntegers(Uint8Array.of(1), { bits: 1, count: 8 })).toBeUndefined();
  expect(
    hybridIntegers(Uint8Array.of(255, 255, 255, 255, 255, 255), { bits: 1, count: 8 }),
  ).toBeUndefined();
  expect(hybridIntegers(new Uint8Array(), { bits: 0, count: 3 })).toEqual(new Uint32Array(3));
});
