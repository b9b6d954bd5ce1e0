// Strings of a JSON text: where they end, and what their escapes stand for. Other bytes are passed on whether
// or not they are UTF-8. `\ud83c\udfac` becomes one UTF-8 sequence of four bytes; a low surrogate alone
// becomes three bytes, as RapidJSON writes it.

import { JsonSyntaxError } from "./json-syntax-error.ts";

/** The bytes that an escape stands for, and where it ends. */
export interface Escape {
  readonly bytes: readonly number[];
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SMALL_U = 0x75;
const SIMPLE_ESCAPES: ReadonlyMap<number, readonly number[]> = new Map(
  Object.entries({
    '"': '"',
    "\\": "\\",
    "/": "/",
    b: "\b",
    f: "\f",
    n: "\n",
    r: "\r",
    t: "\t",
  }).map(([escape, character]) => [escape.charCodeAt(0), [character.charCodeAt(0)]]),
);
const INVALID_SURROGATE = "The surrogate pair in string is invalid.";

/** Marks the bytes at which the plain text of a string ends: quote, backslash, control characters. */
const STOPS: Uint8Array = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte < 0x20 || byte === QUOTE || byte === BACKSLASH ? 1 : 0,
);

/**
 * Position of the closing quote or of the next backslash.
 * @throws JsonSyntaxError at a raw control character or when `limit` comes first.
 */
export function stringEnd(bytes: Uint8Array, from: number, limit: number): number {
  let at = from;
  while (at < limit && STOPS[bytes[at]!] === 0) at++;
  const byte = at < limit ? bytes[at]! : 0;
  if (byte === 0) throw new JsonSyntaxError("Missing a closing quotation mark in string.", at);
  if (byte < 0x20) throw new JsonSyntaxError("Invalid escape character in string.", at);
  return at;
}

/** Reads the escape whose backslash is at `at`. @throws JsonSyntaxError naming that position. */
export function readEscape(bytes: Uint8Array, at: number, limit: number): Escape {
  const letter = at + 1 < limit ? bytes[at + 1]! : 0;
  const simple = SIMPLE_ESCAPES.get(letter);
  if (simple !== undefined) return { bytes: simple, end: at + 2 };
  if (letter !== SMALL_U) throw new JsonSyntaxError("Invalid escape character in string.", at);
  const source = bytes.subarray(0, limit);
  const unit = hexUnit(source, at + 2, at);
  if (unit < 0xd800 || unit > 0xdbff) return { bytes: utf8(unit), end: at + 6 };
  if (source[at + 6] !== BACKSLASH || source[at + 7] !== SMALL_U) {
    throw new JsonSyntaxError(INVALID_SURROGATE, at);
  }
  const low = hexUnit(source, at + 8, at);
  if (low < 0xdc00 || low > 0xdfff) throw new JsonSyntaxError(INVALID_SURROGATE, at);
  return { bytes: utf8((unit - 0xd800) * 0x400 + (low - 0xdc00) + 0x10000), end: at + 12 };
}

function hexUnit(bytes: Uint8Array, from: number, escapeAt: number): number {
  let unit = 0;
  for (let at = from; at < from + 4; at++) {
    const digit = hexDigit(bytes[at]);
    if (digit < 0) {
      throw new JsonSyntaxError("Incorrect hex digit after \\u escape in string.", escapeAt);
    }
    unit = unit * 16 + digit;
  }
  return unit;
}

function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x61 + 10 : -1;
}

function utf8(codePoint: number): number[] {
  const tail = (shift: number): number => 0x80 | ((codePoint >> shift) & 0x3f);
  if (codePoint <= 0x7f) return [codePoint];
  if (codePoint <= 0x7ff) return [0xc0 | (codePoint >> 6), tail(0)];
  if (codePoint <= 0xffff) return [0xe0 | (codePoint >> 12), tail(6), tail(0)];
  return [0xf0 | (codePoint >> 18), tail(12), tail(6), tail(0)];
}
