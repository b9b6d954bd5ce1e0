// Floats of two bytes as float32. Every value of both formats is a float32, so nothing is rounded and
// scores are exact; infinities stay infinite, so that later checks can refuse them.
//
//   half      sign 1 │ exponent 5  │ fraction 10   IEEE 754 binary16
//   bfloat16  sign 1 │ exponent 8  │ fraction 7    the upper half of a float32

import type { NarrowFloat } from "./data-type.ts";

const FRACTION_BITS = 10;
/** The least subnormal of half: 2⁻²⁴. */
const SUBNORMAL = 2 ** -24;

let halves: Int32Array | undefined;

/** Writes values as float32 words, in order; `words` is as long as `narrow`. */
export function widenInto(words: Int32Array, narrow: Uint16Array, format: NarrowFloat): void {
  if (format === "bfloat16") {
    for (let index = 0; index < narrow.length; index += 1) words[index] = narrow[index]! << 16;
    return;
  }
  halves ??= widenedHalves();
  for (let index = 0; index < narrow.length; index += 1) words[index] = halves[narrow[index]!]!;
}

/** Values as float32. */
export function widened(narrow: Uint16Array, format: NarrowFloat): Float32Array<ArrayBuffer> {
  const words = new Int32Array(narrow.length);
  widenInto(words, narrow, format);
  return new Float32Array(words.buffer);
}

/** The float32 word of every half: 256 KiB, made when the first half is read. */
function widenedHalves(): Int32Array {
  const words = new Int32Array(2 ** 16);
  const value = new Float32Array(1);
  const word = new Int32Array(value.buffer);
  for (let half = 0; half < words.length; half += 1) {
    const sign = (half & 0x8000) << 16;
    const exponent = (half >> FRACTION_BITS) & 0x1f;
    const fraction = half & 0x3ff;
    if (exponent === 0) {
      value[0] = fraction * SUBNORMAL;
      words[half] = word[0]! | sign;
    } else {
      // Exponents count from -15 in half and from -127 in float32; all ones mean no number in both.
      const wide = exponent === 0x1f ? 0xff : exponent - 15 + 127;
      words[half] = sign | (wide << 23) | (fraction << (23 - FRACTION_BITS));
    }
  }
  return words;
}
