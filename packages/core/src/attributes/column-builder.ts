// Builds a column from values, row by row.

import { WinnowError } from "../errors/errors.ts";
import { StringColumn } from "../tensor/string-column.ts";
import { VALUE_BYTES_MAX, codesFor } from "./attribute-column.ts";
import type {
  AttributeColumn,
  AttributeSpec,
  AttributeValue,
  AttributeValues,
} from "./attribute-column.ts";

/** Distinct values of one attribute, at most: a JavaScript Map holds at most 2²⁴ entries. */
const VALUES_MAX = 16_000_000;

const LONE_SURROGATE = /[\uD800-\uDFFF]/u;

const NUMBER_BYTES = 8;

type RowValue = AttributeValue | readonly AttributeValue[] | undefined;

/** Collects the values of an attribute. NaN counts as no value, -0 as 0. */
export class ColumnBuilder {
  readonly #codeOf = new Map<AttributeValue, number>();
  #codes = new Uint32Array(1024);
  #count = 0;
  #hasValues = false;
  /** Set once the first list was added. */
  #offsets: number[] | undefined;

  /** Adds a row: a value, the elements of a list, or `undefined` for no value. @throws WinnowError */
  add(value: RowValue): void {
    checkSize(value);
    if (isList(value)) {
      this.#begin();
      for (const each of value) this.#push(each);
    } else {
      this.#hasValues ||= value !== undefined;
      if (this.#hasValues && this.#offsets !== undefined) throw mixed();
      this.#push(value);
    }
    this.#offsets?.push(this.#count);
  }

  /** From this row on rows are lists; the rows before have no list. */
  #begin(): void {
    if (this.#hasValues) throw mixed();
    this.#offsets ??= Array.from({ length: this.#count + 1 }, (_, row) => row);
  }

  #push(value: AttributeValue | undefined): void {
    if (this.#count === this.#codes.length) {
      const grown = new Uint32Array(this.#count * 2);
      grown.set(this.#codes);
      this.#codes = grown;
    }
    this.#codes[this.#count++] = this.#code(value);
  }

  #code(value: AttributeValue | undefined): number {
    if (value === undefined || Number.isNaN(value)) return NONE;
    // Most values have been seen before, and are their own key.
    const seen = this.#codeOf.get(value);
    if (seen !== undefined) return seen;
    const key = keyOf(value);
    const known = key === value ? undefined : this.#codeOf.get(key);
    if (known !== undefined) return known;
    if (this.#codeOf.size >= VALUES_MAX) {
      const text = `An attribute has more than ${VALUES_MAX} distinct values; leave it out`;
      throw new WinnowError("RESOURCE_EXHAUSTED", text);
    }
    this.#codeOf.set(key, this.#codeOf.size);
    return this.#codeOf.size - 1;
  }

  /** The column of an attribute, whose type the values must have. */
  finish(spec: AttributeSpec): AttributeColumn {
    if (spec.isList) this.#begin();
    const { values, rankOf } = ordered([...this.#codeOf.keys()], spec);
    const codes = codesFor(values.length, this.#count);
    for (let at = 0; at < this.#count; at += 1) {
      const code = this.#codes[at]!;
      codes[at] = code === NONE ? values.length : rankOf[code]!;
    }
    return { spec, values, codes, offsets: this.#offsets && Uint32Array.from(this.#offsets) };
  }
}

const NONE = 2 ** 32 - 1;

function isList(value: RowValue): value is readonly AttributeValue[] {
  return Array.isArray(value);
}

function checkSize(value: RowValue): void {
  if (sizeMaxOf(value) <= VALUE_BYTES_MAX) return;
  const bytes = isList(value)
    ? value.reduce((sum: number, each) => sum + sizeOf(each), 0)
    : sizeOf(value);
  if (bytes <= VALUE_BYTES_MAX) return;
  const text = `A value has ${bytes} bytes; attributes have at most ${VALUE_BYTES_MAX}: leave it out`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

function sizeOf(value: AttributeValue | undefined): number {
  return typeof value === "string" ? Buffer.byteLength(JSON.stringify(value)) : NUMBER_BYTES;
}

/** Bytes of a character in JSON, at most: written as a code, `\u0007`. */
const CHARACTER_BYTES_MAX = 6;
const QUOTES_BYTES = 2;

/** An upper bound of the size, which costs less to tell than the size itself. */
function sizeMaxOf(value: RowValue): number {
  if (typeof value === "string") return CHARACTER_BYTES_MAX * value.length + QUOTES_BYTES;
  if (!isList(value)) return NUMBER_BYTES;
  let bytes = 0;
  for (const each of value) bytes += sizeMaxOf(each);
  return bytes;
}

function mixed(): WinnowError {
  return new WinnowError(
    "INVALID_ARGUMENT",
    "An attribute has lists for some items and values for others",
  );
}

/** A key that is equal for equal values: small integers become numbers, whichever type they came in. */
function keyOf(value: AttributeValue): AttributeValue {
  if (typeof value === "string") {
    // Half of a surrogate pair has no bytes of its own.
    return LONE_SURROGATE.test(value) ? Buffer.from(value).toString() : value;
  }
  if (typeof value === "bigint" && isSafe(value)) return Number(value);
  return value === 0 ? 0 : value;
}

function isSafe(value: bigint): boolean {
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER);
}

/** The distinct values in order, and the position of each. */
function ordered(
  distinct: readonly AttributeValue[],
  { type }: AttributeSpec,
): { readonly values: AttributeValues; readonly rankOf: Uint32Array } {
  const rankOf = new Uint32Array(distinct.length);
  const positions = Uint32Array.from(distinct.keys());
  if (type === "string") {
    const texts = distinct as readonly string[];
    positions.sort(byBytes(texts));
    for (let rank = 0; rank < positions.length; rank += 1) rankOf[positions[rank]!] = rank;
    const values = StringColumn.fromText(Array.from(positions, (position) => texts[position]!));
    return { values, rankOf };
  }
  const numbers = distinct.map((value) => (typeof value === "boolean" ? Number(value) : value));
  positions.sort((a, b) => (numbers[a]! < numbers[b]! ? -1 : 1));
  for (let rank = 0; rank < positions.length; rank += 1) rankOf[positions[rank]!] = rank;
  const sorted = Array.from(positions, (position) => numbers[position]!) as (number | bigint)[];
  const values = sorted.some((value) => typeof value === "bigint")
    ? BigInt64Array.from(sorted, (value) => BigInt(value))
    : Float64Array.from(sorted, Number);
  return { values, rankOf };
}

/** Units of UTF-16 whose order is not that of the bytes: halves of surrogate pairs, and those behind them. */
const BEHIND_SURROGATES = /[\uD800-\uFFFF]/;

/** Orders positions of distinct texts by the bytes of these. */
function byBytes(texts: readonly string[]): (a: number, b: number) => number {
  if (!texts.some((text) => BEHIND_SURROGATES.test(text))) {
    return (a, b) => (texts[a]! < texts[b]! ? -1 : 1);
  }
  const bytes = StringColumn.fromText(texts);
  return (a, b) => Buffer.compare(bytes.at(a), bytes.at(b));
}
