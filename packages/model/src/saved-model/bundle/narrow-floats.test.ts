// Every half and every bfloat16, against the value that its format defines.

import { expect, test } from "vitest";
import { widened } from "./narrow-floats.ts";

const ALL = Uint16Array.from({ length: 2 ** 16 }, (_, bits) => bits);

/** The value of a float of these field widths (IEEE 754, clause 3.4). */
function valueOf(bits: number, exponentBits: number, fractionBits: number): number {
  const sign = bits >>> (exponentBits + fractionBits) === 1 ? -1 : 1;
  const exponent = (bits >>> fractionBits) & (2 ** exponentBits - 1);
  const fraction = (bits & (2 ** fractionBits - 1)) / 2 ** fractionBits;
  const bias = 2 ** (exponentBits - 1) - 1;
  if (exponent === 2 ** exponentBits - 1) return fraction === 0 ? sign * Infinity : Number.NaN;
  return (
    sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias))
  );
}

test.each([
  ["half", 5, 10],
  ["bfloat16", 8, 7],
] as const)("every %s is the float32 that it is", (format, exponentBits, fractionBits) => {
  const values = widened(ALL, format);

  const wrong = [...ALL].filter(
    (bits) => !Object.is(values[bits], valueOf(bits, exponentBits, fractionBits)),
  );
  expect(wrong).toEqual([]);
});
