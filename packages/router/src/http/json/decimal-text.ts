// Floating-point numbers as TensorFlow Serving prints them (util/json_tensor.cc, WriteDecimal):
// `%.6g`; if that does not read back as the same value, `%.9g` (17 digits for float64); ".0" if
// neither '.' nor 'e' is in it. 0.7f is 0.7, 9000000 is 9e+06, 2 is 2.0.
//
// A float32 is printed without making a string. Its six (nine) digits are the integer nearest to
// value × 10^p, computed in float64, which is exact to about 1e-7 of that integer's unit. So:
//   - six digits: near the middle between two integers neither reads back as the value (float32 has
//     24 bits), hence a wrong choice there is never printed;
//   - nine digits: a fraction within 1e-5 of the middle is left to the exact path, which also
//     rounds halves to even, as printf does;
//   - reading six digits back through float64 rounds twice, harmlessly: each of the 70 million
//     6-digit decimals of float32's range gives the float32 that strtof gives (checked one by one).
// Values below 1e-37 take the exact path altogether.

const ZERO = 0x30;
const DOT = 0x2e;
const MINUS = 0x2d;
const PLUS = 0x2b;
const SMALL_E = 0x65;
const SIX_DIGITS = 6;
const FLOAT32_DIGITS = 9;
const FLOAT64_DIGITS = 17;
const FAST_MIN = 1e-37;
const MIDDLE_MARGIN = 1e-5;
/** Digits that tell a value exactly in the middle from all others. */
const EXACT_DIGITS = 100;

/** Bytes of the longest text of a float64, `-1.2345678901234567e-308`, rounded up. */
export const FLOAT64_BYTES_MAX = 28;

const POWERS_OF_TEN: Float64Array = Float64Array.from({ length: 64 }, (_, power) =>
  Number(`1e${power}`),
);
const LEAST_POWER = -38;
/** 10^(index − 38). */
const MAGNITUDES: Float64Array = Float64Array.from({ length: 78 }, (_, index) =>
  Number(`1e${index + LEAST_POWER}`),
);
/** The power of ten of the least value with these eight exponent bits of a float32. */
const POWER_OF_EXPONENT: Int8Array = Int8Array.from({ length: 256 }, (_, bits) =>
  Math.floor((bits - 127) * Math.LOG10E * Math.LN2),
);
/** Three ASCII digits for each number below 1000. */
const TRIPLES: Uint8Array = Uint8Array.from({ length: 3000 }, (_, index) =>
  String(Math.floor(index / 3))
    .padStart(3, "0")
    .charCodeAt(index % 3),
);

const float32 = new Float32Array(1);
const float32Bits = new Uint32Array(float32.buffer);
/** ASCII digits of the current significand, and the power of ten of the first digit. */
const digits = new Uint8Array(FLOAT32_DIGITS);
let exponent = 0;

/** Writes a float32 at `at`, where there must be room; gives the position after it. */
export function writeFloat32(buffer: Uint8Array, at: number, value: number): number {
  const size = Math.abs(value);
  if (!(size >= FAST_MIN && size < Infinity)) return writeRare(buffer, at, value);
  let position = at;
  if (value < 0) buffer[position++] = MINUS;
  float32[0] = size;
  exponent = POWER_OF_EXPONENT[float32Bits[0]! >>> 23]!;
  if (size >= MAGNITUDES[exponent + 1 - LEAST_POWER]!) exponent++;
  let significand = Math.round(timesPower(size, SIX_DIGITS - 1 - exponent));
  if (Math.fround(timesPower(significand, exponent - (SIX_DIGITS - 1))) === size) {
    return writeSix(buffer, position, significand);
  }
  const scaled = timesPower(size, FLOAT32_DIGITS - 1 - exponent);
  significand = Math.floor(scaled);
  const fraction = scaled - significand;
  if (Math.abs(fraction - 0.5) < MIDDLE_MARGIN) return writeRare(buffer, at, value);
  return writeNine(buffer, position, fraction > 0.5 ? significand + 1 : significand);
}

/** Writes a float64 at `at`, where there must be room; gives the position after it. */
export function writeFloat64(buffer: Uint8Array, at: number, value: number): number {
  const short = printf(value, SIX_DIGITS);
  return writeAscii(
    buffer,
    at,
    wholeMarked(Number(short) === value ? short : printf(value, FLOAT64_DIGITS)),
  );
}

/** Writes the rare cases: zero, values that are not finite, the smallest values, and nine digits that end in a half. */
function writeRare(buffer: Uint8Array, at: number, value: number): number {
  const short = printf(value, SIX_DIGITS);
  const isExact = Math.fround(Number(short)) === value;
  return writeAscii(buffer, at, wholeMarked(isExact ? short : printf(value, FLOAT32_DIGITS)));
}

function wholeMarked(text: string): string {
  return /[.eNI]/.test(text) ? text : `${text}.0`;
}

function writeAscii(buffer: Uint8Array, at: number, text: string): number {
  for (let index = 0; index < text.length; index++) buffer[at + index] = text.charCodeAt(index);
  return at + text.length;
}

/** value × 10^power. */
function timesPower(value: number, power: number): number {
  return power >= 0 ? value * POWERS_OF_TEN[power]! : value / POWERS_OF_TEN[-power]!;
}

function writeSix(buffer: Uint8Array, at: number, significand: number): number {
  if (significand === 1_000_000) return writeCarried(buffer, at, SIX_DIGITS);
  const high = (significand / 1000) | 0;
  putTriple(0, high);
  putTriple(3, significand - high * 1000);
  return writeDigits(buffer, at, SIX_DIGITS);
}

function writeNine(buffer: Uint8Array, at: number, significand: number): number {
  if (significand === 1_000_000_000) return writeCarried(buffer, at, FLOAT32_DIGITS);
  const high = (significand / 1_000_000) | 0;
  const rest = significand - high * 1_000_000;
  const middle = (rest / 1000) | 0;
  putTriple(0, high);
  putTriple(3, middle);
  putTriple(6, rest - middle * 1000);
  return writeDigits(buffer, at, FLOAT32_DIGITS);
}

/** Writes digits whose rounding made 99…9.9 the next power of ten. */
function writeCarried(buffer: Uint8Array, at: number, count: number): number {
  digits.fill(ZERO);
  digits[0] = ZERO + 1;
  exponent++;
  return writeDigits(buffer, at, count);
}

function putTriple(at: number, number: number): void {
  const from = number * 3;
  digits[at] = TRIPLES[from]!;
  digits[at + 1] = TRIPLES[from + 1]!;
  digits[at + 2] = TRIPLES[from + 2]!;
}

/** Writes digits as printf's `%g` does: no trailing zeros; scientific below 1e-4 and from 10^count on. */
function writeDigits(buffer: Uint8Array, at: number, count: number): number {
  let used = count;
  while (used > 1 && digits[used - 1] === ZERO) used--;
  if (exponent < -4 || exponent >= count) return writeScientific(buffer, at, used);
  return exponent < 0 ? writeFraction(buffer, at, used) : writeFixed(buffer, at, used);
}

function writeScientific(buffer: Uint8Array, from: number, used: number): number {
  let at = from;
  buffer[at++] = digits[0]!;
  if (used > 1) buffer[at++] = DOT;
  for (let index = 1; index < used; index++) buffer[at++] = digits[index]!;
  buffer[at++] = SMALL_E;
  buffer[at++] = exponent < 0 ? MINUS : PLUS;
  const size = Math.abs(exponent);
  buffer[at++] = ZERO + ((size / 10) | 0);
  buffer[at++] = ZERO + (size % 10);
  return at;
}

function writeFraction(buffer: Uint8Array, from: number, used: number): number {
  let at = from;
  buffer[at++] = ZERO;
  buffer[at++] = DOT;
  for (let zeros = -1 - exponent; zeros > 0; zeros--) buffer[at++] = ZERO;
  for (let index = 0; index < used; index++) buffer[at++] = digits[index]!;
  return at;
}

function writeFixed(buffer: Uint8Array, from: number, used: number): number {
  let at = from;
  const whole = exponent + 1;
  for (let index = 0; index < whole; index++) buffer[at++] = digits[index]!;
  buffer[at++] = DOT;
  if (used <= whole) buffer[at++] = ZERO;
  for (let index = whole; index < used; index++) buffer[at++] = digits[index]!;
  return at;
}

/** C's `%.<count>g`, slowly and exactly: halves go to even. */
function printf(value: number, count: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value < 0 ? "-Infinity" : "Infinity";
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const [mantissa = "", powerText = ""] = roundedExponential(value, count).split("e");
  const power = Number(powerText);
  if (power < -4 || power >= count) {
    const size = String(Math.abs(power)).padStart(2, "0");
    return `${trimmed(mantissa)}e${power < 0 ? "-" : "+"}${size}`;
  }
  return trimmed(fixedFrom(mantissa, power));
}

/** `d.ddde±x` with `count` digits. JavaScript rounds halves away from zero, printf to even. */
function roundedExponential(value: number, count: number): string {
  const rounded = value.toExponential(count - 1);
  const [exact = ""] = value.toExponential(EXACT_DIGITS).split("e");
  const isHalf = /^50*$/.test(exact.slice(exact.indexOf(".") + count));
  const lastDigit = rounded.charCodeAt(rounded.indexOf("e") - 1) - ZERO;
  if (!isHalf || lastDigit % 2 === 0) return rounded;
  const [mantissa = "", power = ""] = rounded.split("e");
  return `${mantissa.slice(0, -1)}${lastDigit - 1}e${power}`;
}

function fixedFrom(mantissa: string, power: number): string {
  const sign = mantissa.startsWith("-") ? "-" : "";
  const all = mantissa.replace(/[-.]/g, "");
  if (power < 0) return `${sign}0.${"0".repeat(-1 - power)}${all}`;
  return `${sign}${all.slice(0, power + 1)}.${all.slice(power + 1)}`;
}

function trimmed(text: string): string {
  return text.includes(".") ? text.replace(/\.?0*$/, "") : text;
}
