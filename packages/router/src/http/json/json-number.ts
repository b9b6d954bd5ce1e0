// Numbers of a JSON text, read as RapidJSON 1.1.0 reads them (include/rapidjson/reader.h, ParseNumber, with
// NaN and Infinity allowed and without full precision), because a request must mean the same bits here and in
// TensorFlow Serving.
//
// Digits become a significand and a power of ten; the value is significand × or ÷ 10^p in float64. Up to 15
// digits and |p| ≤ 22 this is the correctly rounded value. Beyond that, the last digit may differ from it, as
// RapidJSON's does, because neither uses big integers.

import { JsonSyntaxError } from "./json-syntax-error.ts";

/** How a number was written. Integers fit 64 bits, signed if negative and unsigned otherwise. */
export type NumberKind = "integer" | "double";

const ZERO = 0x30;
const NINE = 0x39;
const MINUS = 0x2d;
const PLUS = 0x2b;
const DOT = 0x2e;
const SMALL_E = 0x65;
const LARGE_E = 0x45;
const LARGE_I = 0x49;
const LARGE_N = 0x4e;
const SMALL_I = 0x69;

const EXACT_DIGITS_MAX = 15;
const SIGNIFICANT_DIGITS_MAX = 17;
const UINT64_MAX = 2n ** 64n - 1n;
const INT64_MIN_MAGNITUDE = 2n ** 63n;
const DOUBLE_MAX_TENTH = Number("1.7976931348623157e307");
const EXPONENT_CAP = 214_748_364;

const POWERS_OF_TEN: Float64Array = Float64Array.from({ length: 309 }, (_, power) =>
  Number(`1e${power}`),
);

/** Reads numbers one by one; the result of the last `scan` is in its fields. */
export class NumberScanner {
  /** Position after the number. */
  end = 0;
  value = 0;
  kind: NumberKind = "integer";

  #bytes: Uint8Array = new Uint8Array(0);
  #limit = 0;
  /** Digits counted as significant in RapidJSON's way, which does not count the first one. */
  #significant = 0;
  #fractionExponent = 0;

  /**
   * Reads the number that begins at `at` and ends before `limit`.
   * @throws JsonSyntaxError when there is none.
   */
  // oxlint-disable-next-line complexity -- one loop over the bytes of the most frequent token
  scan(bytes: Uint8Array, at: number, limit: number): void {
    const minus = bytes[at] === MINUS && at < limit;
    const from = minus ? at + 1 : at;
    let position = from;
    let significand = 0;
    let byte = position < limit ? bytes[position]! : 0;
    while (byte >= ZERO && byte <= NINE) {
      significand = significand * 10 + (byte - ZERO);
      byte = ++position < limit ? bytes[position]! : 0;
      // A leading zero ends the integer part.
      if (significand === 0) break;
    }
    const digits = position - from;
    if (digits > 0 && digits <= EXACT_DIGITS_MAX) {
      this.#bytes = bytes;
      this.#limit = limit;
      if (byte !== DOT && byte !== SMALL_E && byte !== LARGE_E) {
        this.end = position;
        this.value = minus ? 0 - significand : significand;
        this.kind = "integer";
        return;
      }
      if (byte === DOT && this.#scanShort(position, significand, digits)) {
        if (minus) this.value = -this.value;
        return;
      }
    }
    this.#bytes = bytes;
    this.#limit = limit;
    this.value = significand;
    if (digits === 0) return this.#scanWord(from, minus);
    this.#scanLong(at, minus, position);
  }

  /** A fraction with up to 15 digits in all and no exponent; false if it is anything else. */
  #scanShort(dot: number, integer: number, integerDigits: number): boolean {
    const bytes = this.#bytes;
    const limit = Math.min(this.#limit, dot + 1 + EXACT_DIGITS_MAX - integerDigits);
    let significand = integer;
    let position = dot + 1;
    let byte = 0;
    while (position < limit) {
      byte = bytes[position]!;
      if (byte < ZERO || byte > NINE) break;
      significand = significand * 10 + (byte - ZERO);
      position++;
    }
    const isOver = position < limit && byte !== SMALL_E && byte !== LARGE_E;
    if (!isOver || position === dot + 1) return false;
    this.end = position;
    this.value = significand / POWERS_OF_TEN[position - dot - 1]!;
    this.kind = "double";
    return true;
  }

  #at(position: number): number {
    return position < this.#limit ? this.#bytes[position]! : 0;
  }

  #isDigit(position: number): boolean {
    const byte = this.#at(position);
    return byte >= ZERO && byte <= NINE;
  }

  #skips(position: number, text: string): number {
    let at = position;
    for (let index = 0; index < text.length; index++) {
      if (this.#at(at) !== text.charCodeAt(index)) return at;
      at++;
    }
    return at;
  }

  /**
   * Reads NaN, Inf and Infinity, and also `NInf`, which RapidJSON accepts. As there, a fraction or an
   * exponent behind the word makes the value zero.
   */
  #scanWord(from: number, minus: boolean): void {
    this.kind = "double";
    this.value = this.#word(from, minus ? -1 : 1);
    const wordEnd = this.end;
    this.#significant = 0;
    this.#fractionExponent = 0;
    const significand = this.#fraction(0, false);
    const exponent = this.#exponent(minus ? from - 1 : from);
    if (this.end === wordEnd) return;
    const value = scale(significand, exponent + this.#fractionExponent);
    this.value = minus ? -value : value;
  }

  #word(from: number, sign: number): number {
    const first = this.#at(from);
    if (first !== LARGE_N && first !== LARGE_I) throw new JsonSyntaxError("Invalid value.", from);
    const behind = this.#skips(from, "NaN");
    this.end = behind;
    if (behind === from + 3) return NaN;
    let at = this.#skips(behind, "Inf");
    if (at !== behind + 3) throw new JsonSyntaxError("Invalid value.", at);
    if (this.#at(at) === SMALL_I) {
      const tail = this.#skips(at, "inity");
      if (tail !== at + 5) throw new JsonSyntaxError("Invalid value.", tail);
      at = tail;
    }
    this.end = at;
    return sign * Infinity;
  }

  /** A number with a fraction, an exponent or more than 15 digits. */
  #scanLong(start: number, minus: boolean, integerEnd: number): void {
    const from = minus ? start + 1 : start;
    this.#significant = integerEnd - from - 1;
    this.#fractionExponent = 0;
    this.end = integerEnd;
    const isBig = this.#exceeds64Bits(from, integerEnd, minus);
    const integer = isBig
      ? this.#tooLong(start, from, integerEnd)
      : this.#integer(from, integerEnd);
    const significand = this.#fraction(integer, isBig);
    const exponent = this.#exponent(start);
    if (!isBig && this.end === integerEnd) {
      this.kind = "integer";
      this.value = minus ? 0 - integer : integer;
      return;
    }
    const value = scale(significand, exponent + this.#fractionExponent);
    this.kind = "double";
    this.value = minus ? -value : value;
  }

  #exceeds64Bits(from: number, to: number, minus: boolean): boolean {
    if (to - from <= 18) return false;
    if (to - from > 20) return true;
    return BigInt(this.#text(from, to)) > (minus ? INT64_MIN_MAGNITUDE : UINT64_MAX);
  }

  /** The digits as float64, rounded once; `scan` has already added up to 15 of them. */
  #integer(from: number, to: number): number {
    return to - from <= EXACT_DIGITS_MAX ? this.value : Number(this.#text(from, to));
  }

  #text(from: number, to: number): string {
    let text = "";
    for (let at = from; at < to; at++) text += String.fromCharCode(this.#bytes[at]!);
    return text;
  }

  /** An integer beyond 64 bits: the longest prefix that fits, then digit by digit in float64. */
  #tooLong(start: number, from: number, to: number): number {
    const limit = start === from ? UINT64_MAX : INT64_MIN_MAGNITUDE;
    let prefixEnd = from + 18;
    let prefix = BigInt(this.#text(from, prefixEnd));
    for (; prefixEnd < to; prefixEnd++) {
      const longer = prefix * 10n + BigInt(this.#bytes[prefixEnd]! - ZERO);
      if (longer > limit) break;
      prefix = longer;
    }
    this.#significant = prefixEnd - from - 1;
    let value = Number(prefix);
    for (let at = prefixEnd; at < to; at++) {
      if (value >= DOUBLE_MAX_TENTH) {
        throw new JsonSyntaxError("Number too big to be stored in double.", start);
      }
      value = value * 10 + (this.#bytes[at]! - ZERO);
    }
    return value;
  }

  /** Reads a fraction at `end`: exactly as long as it fits 53 bits, then to 17 significant digits. */
  #fraction(integer: number, isBig: boolean): number {
    if (this.#at(this.end) !== DOT) return integer;
    let value = integer;
    let at = this.end + 1;
    if (!this.#isDigit(at)) throw new JsonSyntaxError("Miss fraction part in number.", at);
    const exactMax = isBig ? -1 : Number.MAX_SAFE_INTEGER;
    while (value <= exactMax && this.#isDigit(at)) {
      value = appendDigit(value, this.#at(at++) - ZERO);
      this.#fractionExponent--;
      if (value !== 0) this.#significant++;
    }
    for (; this.#isDigit(at); at++) {
      if (this.#significant >= SIGNIFICANT_DIGITS_MAX) continue;
      value = value * 10 + (this.#at(at) - ZERO);
      this.#fractionExponent--;
      if (value > 0) this.#significant++;
    }
    this.end = at;
    return value;
  }

  /** Takes an exponent at `end`; 0 if there is none. */
  #exponent(start: number): number {
    const letter = this.#at(this.end);
    if (letter !== SMALL_E && letter !== LARGE_E) return 0;
    const sign = this.#at(this.end + 1);
    let at = this.end + (sign === PLUS || sign === MINUS ? 2 : 1);
    if (!this.#isDigit(at)) throw new JsonSyntaxError("Miss exponent in number.", at);
    const largest = sign === MINUS ? Infinity : 308 - this.#fractionExponent;
    let exponent = this.#at(at++) - ZERO;
    for (; this.#isDigit(at); at++) {
      if (exponent >= EXPONENT_CAP) continue;
      exponent = exponent * 10 + (this.#at(at) - ZERO);
      if (exponent > largest) {
        throw new JsonSyntaxError("Number too big to be stored in double.", start);
      }
    }
    this.end = at;
    return sign === MINUS ? -exponent : exponent;
  }
}

/** significand × 10 + digit, rounded once even beyond 2^53. */
function appendDigit(significand: number, digit: number): number {
  if (significand < 900_719_925_474_099) return significand * 10 + digit;
  const high = Math.floor(significand / 65_536);
  const low = significand - high * 65_536;
  return high * 10 * 65_536 + (low * 10 + digit);
}

/** RapidJSON's StrtodNormalPrecision. */
function scale(significand: number, power: number): number {
  if (power >= 0) return significand * POWERS_OF_TEN[power]!;
  if (power >= -308) return significand / POWERS_OF_TEN[-power]!;
  const rest = power + 308;
  return rest < -308 ? 0 : significand / 1e308 / POWERS_OF_TEN[-rest]!;
}
