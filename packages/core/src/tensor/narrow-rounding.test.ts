// Rounding to half and bfloat16 decides which items share a score, so each number must become the nearest one that the
// type has, and one in the middle the even one. Compared with all numbers of a type, which are listed here by their bits.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { roundedToBfloat16, roundedToHalf } from "./narrow-rounding.ts";

/** A half by its bits. */
function half(bits: number): number {
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) return fraction === 0 ? Infinity : NaN;
  return exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25);
}

function bfloat16(bits: number): number {
  const word = new DataView(new ArrayBuffer(4));
  word.setUint16(0, bits);
  return word.getFloat32(0);
}

const TYPES = [
  { name: "half", round: roundedToHalf, of: half, infinity: 0x7c00, last: 65_504, beyond: 65_520 },
  {
    name: "bfloat16",
    round: roundedToBfloat16,
    of: bfloat16,
    infinity: 0x7f80,
    last: bfloat16(0x7f7f),
    beyond: (bfloat16(0x7f7f) + 2 ** 128) / 2,
  },
];

describe.each(TYPES)("rounding to $name", ({ round, of, infinity, last, beyond }) => {
  test("keeps every number of the type, and its sign", () => {
    const wrong: number[] = [];
    for (let bits = 0; bits <= infinity; bits += 1) {
      const number = of(bits);
      if (round(number) !== number || round(-number) !== -number) wrong.push(number);
    }
    expect(wrong).toEqual([]);
  });

  test("gives the middle of two neighbours to the even one, and what is beside it to the nearer one", () => {
    const wrong: number[] = [];
    for (let bits = 0; bits < infinity - 1; bits += 1) {
      const [low, high] = [of(bits), of(bits + 1)];
      const middle = (low + high) / 2;
      // Between the least numbers of bfloat16 float32 has none.
      if (Math.fround(middle) !== middle) continue;
      const isRight =
        round(nextFloat(middle, -1)) === low &&
        round(middle) === (bits % 2 === 0 ? low : high) &&
        round(-middle) === -round(middle) &&
        round(nextFloat(middle, 1)) === high;
      if (!isRight) wrong.push(middle);
    }
    expect(wrong).toEqual([]);
  });

  test("goes to infinity beyond the middle of the last number and the next power of two", () => {
    expect(round(Math.fround(beyond))).toBe(Infinity);
    expect(round(nextFloat(Math.fround(beyond), -1))).toBe(last);
    expect(round(-Infinity)).toBe(-Infinity);
    expect(round(NaN)).toBeNaN();
  });

  test("never puts a lower number before a higher one", () => {
    const float = fc.float({ noNaN: true });
    fc.assert(
      fc.property(float, float, (a, b) => {
        expect(round(Math.min(a, b))).toBeLessThanOrEqual(round(Math.max(a, b)));
      }),
    );
  });
});

/** The float32 number before or after a finite one above 0. */
function nextFloat(number: number, step: 1 | -1): number {
  const word = new DataView(new ArrayBuffer(4));
  word.setFloat32(0, number);
  word.setUint32(0, word.getUint32(0) + step);
  return word.getFloat32(0);
}
