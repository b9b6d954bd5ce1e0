// float32 numbers to the nearest ones that two bytes hold, ties to even, as IEEE 754 rounds:
//
//   half      11 bits, from 2⁻²⁴ to 65,504; from 65,520 on, what is between it and the next power of 2, infinity
//   bfloat16   8 bits, and float32's exponents

const value = new Float32Array(1);
const word = new Uint32Array(value.buffer);
/** Below it a half has fewer bits. */
const HALF_NORMAL_MIN = 2 ** -14;
/** The first number that a half does not have. */
const HALF_END = 2 ** 16;
/** A float64 beside which the last bit is worth 2⁻²⁴, the least half: adding it rounds to multiples of that. */
const HALF_SUBNORMAL_ROUNDER = 1.5 * 2 ** (52 - 24);

/** The half that is nearest to a float32 number; NaN stays. */
export function roundedToHalf(number: number): number {
  const size = Math.abs(number);
  if (size < HALF_NORMAL_MIN) return number + HALF_SUBNORMAL_ROUNDER - HALF_SUBNORMAL_ROUNDER;
  const rounded = withoutLastBits(number, 13);
  return Math.abs(rounded) >= HALF_END ? Math.sign(number) * Infinity : rounded;
}

/** The bfloat16 that is nearest to a float32 number; NaN stays. */
export function roundedToBfloat16(number: number): number {
  return withoutLastBits(number, 16);
}

/** A float32 number without so many of its last bits, rounded. Numbers and infinities alone have words in order. */
function withoutLastBits(number: number, bits: number): number {
  if (!Number.isFinite(number)) return number;
  value[0] = number;
  const isOdd = (word[0]! >>> bits) & 1;
  const half = 2 ** (bits - 1) - 1 + isOdd;
  word[0] = ((word[0]! + half) >>> bits) << bits;
  return value[0];
}
