// Evaluates a filter: the rows that it admits as a bitmap, with bit r & 7 of byte r >> 3 for row r. The
// values of a column are sorted, so each test admits one range of codes or a few single codes. Tests of one
// column are joined as far as they can be before any row is looked at:
//
//   {"year": {"$gte": 1990, "$lt": 2000}}     one table of the codes of `year`, one pass over its rows
//
// For a list this holds for "or" alone: it is the list that holds what either test asks for, any element will do.

import { StringColumn } from "../tensor/string-column.ts";
import { rowsOfColumn } from "./attribute-column.ts";
import type { AttributeColumn, AttributeValues } from "./attribute-column.ts";
import { WinnowError, excerpt } from "../errors/errors.ts";
import { ROW_COLUMN } from "./filter.ts";
import type { Filter, FilterTest, FilterValue } from "./filter.ts";

/** Columns of the same rows, by name. */
export type AttributeColumns = ReadonlyMap<string, AttributeColumn>;

/** The rows to evaluate. */
export interface FilteredRows {
  readonly columns: AttributeColumns;
  /** Number of rows of the columns. */
  readonly rows: number;
  /** The number of the first of these rows in the table. */
  readonly firstRow: number;
  /** The only rows to evaluate: bit i stands for row `listed[i]`. Default: all rows, in their order. */
  readonly listed?: Uint32Array | undefined;
}

/** Codes that are looked at before other work may run: a millisecond or two. */
const TURN_CODES = 2 ** 20;

/** The rows that a bound filter admits. @throws WinnowError INVALID_ARGUMENT for an attribute without a column */
export function admittedRows(filter: Filter, of: FilteredRows): Uint8Array {
  const steps = admittedRowsInSteps(filter, of);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** As `admittedRows`; yields where other work may run. */
export function* admittedRowsInSteps(
  filter: Filter,
  of: FilteredRows,
): Generator<undefined, Uint8Array> {
  const evaluation = new Evaluation(of);
  const bits = yield* evaluation.bitsOf(yield* evaluation.found(filter));
  const rest = evaluation.count % 8;
  if (rest > 0) bits[bits.length - 1]! &= (1 << rest) - 1;
  return bits;
}

/** What is known of the rows for which a filter, or a part of it, holds. */
type Found =
  /** A row is admitted if its code is: `truth` has 1 for these codes, the code of no value included. */
  | { readonly kind: "codes"; readonly column: AttributeColumn; readonly truth: Uint8Array }
  /** A list is admitted if one of its codes is; `ofNone`: a list without elements is, too. */
  | {
      readonly kind: "elements";
      readonly column: ListColumn;
      readonly truth: Uint8Array;
      readonly ofNone: boolean;
    }
  /** The rows themselves. Bits behind the last row have no meaning. */
  | { readonly kind: "rows"; readonly bits: Uint8Array };

type ListColumn = AttributeColumn & { readonly offsets: Uint32Array<ArrayBuffer> };

class Evaluation {
  readonly #of: FilteredRows;
  /** Number of rows to evaluate. */
  readonly count: number;
  #codes = 0;

  constructor(of: FilteredRows) {
    this.#of = of;
    this.count = of.listed?.length ?? of.rows;
  }

  *found(filter: Filter): Generator<undefined, Found> {
    switch (filter.kind) {
      case "test":
        return filter.attribute === ROW_COLUMN
          ? this.#numbered(filter)
          : yield* this.#tested(filter);
      case "not":
        return yield* this.#inverted(yield* this.found(filter.of));
      case "and":
      case "or":
        return yield* this.#joined(filter.kind, filter.of);
    }
  }

  /** The rows of what was found. */
  *bitsOf(found: Found): Generator<undefined, Uint8Array> {
    if (found.kind === "rows") return found.bits;
    const { listed } = this.#of;
    const { column, truth } = found;
    const known = listed === undefined ? knownRows(found) : undefined;
    if (known !== undefined) return known.slice();
    const bits =
      found.kind === "codes"
        ? scalarRows(column.codes, truth, listed)
        : listRows(found.column, { truth, ofNone: found.ofNone, listed });
    if (listed === undefined) keepRows(found, bits.slice());
    yield* this.#turnAfter(listed?.length ?? column.codes.length);
    return bits;
  }

  /** Yields after so many more codes, if they are enough for a turn. */
  *#turnAfter(codes: number): Generator<undefined, void> {
    this.#codes += codes;
    if (this.#codes < TURN_CODES) return;
    this.#codes = 0;
    yield;
  }

  *#tested(test: FilterTest): Generator<undefined, Found> {
    const column = this.#of.columns.get(test.attribute);
    if (column === undefined || rowsOfColumn(column) !== this.#of.rows) {
      const text = `Items here have no attribute "${excerpt(test.attribute)}"`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    const { listed } = this.#of;
    if (test.is === "in" && listed === undefined && hasOwnValues(column)) {
      return { kind: "rows", bits: rowsOfValues(test.values, column.values) };
    }
    const truth = truthOfCodes(test, column.values);
    yield* this.#turnAfter(truth.length);
    return isList(column)
      ? { kind: "elements", column, truth, ofNone: test.is === "exists" }
      : { kind: "codes", column, truth };
  }

  /** The rows before a given row number: the only test of rows themselves. */
  #numbered({ is, values }: FilterTest): Found {
    const { firstRow, listed } = this.#of;
    const end = Number(values[0]);
    if (is !== "lt" || !Number.isSafeInteger(end)) {
      throw new WinnowError("INVALID_ARGUMENT", "Rows are only asked for before a number");
    }
    const bits = new Uint8Array(Math.ceil(this.count / 8));
    const wanted = end - firstRow;
    // Listed rows ascend, so those that are wanted come first here as well.
    const found = listed === undefined ? wanted : placeIn(listed, wanted);
    const count = Math.min(Math.max(0, found), this.count);
    bits.fill(255, 0, count >> 3);
    if (count % 8 > 0) bits[count >> 3] = (1 << (count % 8)) - 1;
    return { kind: "rows", bits };
  }

  *#inverted(found: Found): Generator<undefined, Found> {
    if (found.kind === "codes") {
      const { truth } = found;
      for (let code = 0; code < truth.length; code += 1) truth[code]! ^= 1;
      return found;
    }
    const bits = yield* this.bitsOf(found);
    const words = wordsOf(bits);
    for (let at = 0; at < words.length; at += 1) words[at] = ~words[at]!;
    for (let at = 4 * words.length; at < bits.length; at += 1) bits[at] = ~bits[at]!;
    return { kind: "rows", bits };
  }

  *#joined(kind: "and" | "or", parts: readonly Filter[]): Generator<undefined, Found> {
    const isAnd = kind === "and";
    const byColumn = new Map<AttributeColumn, Found>();
    let bits: Uint8Array | undefined;
    for (const part of parts) {
      const found = yield* this.found(part);
      const same = found.kind === "rows" ? undefined : byColumn.get(found.column);
      if (found.kind === "rows" || (isAnd && found.kind === "elements")) {
        bits = joinedBits(kind, bits, yield* this.bitsOf(found));
      } else if (same === undefined) {
        byColumn.set(found.column, found);
      } else {
        byColumn.set(found.column, joinedTruth(kind, same, found));
      }
    }
    const left = [...byColumn.values()];
    if (bits === undefined && left.length === 1) return left[0]!;
    for (const found of left) bits = joinedBits(kind, bits, yield* this.bitsOf(found));
    return { kind: "rows", bits: bits ?? this.#constant(isAnd) };
  }

  /** All rows, or none. */
  #constant(isAll: boolean): Uint8Array {
    return new Uint8Array(Math.ceil(this.count / 8)).fill(isAll ? 255 : 0);
  }
}

/** Rows that a part of a filter admits, which other filters have too: those of the classes of a masked search. */
interface KnownRows {
  readonly truth: Uint8Array;
  readonly ofNone: boolean;
  readonly bits: Uint8Array;
}

/** For each column the last few, the last one first. */
const lastRows = new WeakMap<AttributeColumn, readonly KnownRows[]>();
const KNOWN_MAX = 4;
/** Columns of fewer codes are read as quickly. */
const KNOWN_CODES_MIN = 2 ** 14;

type OfCodes = Exclude<Found, { readonly kind: "rows" }>;

function knownRows(found: OfCodes): Uint8Array | undefined {
  const known = lastRows.get(found.column)?.find(({ truth, ofNone }) => {
    return ofNone === isOfNone(found) && Buffer.compare(truth, found.truth) === 0;
  });
  return known?.bits;
}

/** Keeps the rows for filters that follow; the truth is no longer changed. */
function keepRows(found: OfCodes, bits: Uint8Array): void {
  const { column, truth } = found;
  if (column.codes.length < KNOWN_CODES_MIN) return;
  const others = lastRows.get(column)?.slice(0, KNOWN_MAX - 1) ?? [];
  lastRows.set(column, [{ truth, ofNone: isOfNone(found), bits }, ...others]);
}

function isOfNone(found: OfCodes): boolean {
  return found.kind === "elements" && found.ofNone;
}

/** Columns whose rows were compared with their codes. */
const ownValues = new WeakMap<AttributeColumn, boolean>();

/** Whether the first row has the first value, the second row the second one and so on, as numbers of rows have. */
function hasOwnValues(column: AttributeColumn): boolean {
  const { codes, values } = column;
  if (isList(column) || codes.length !== values.length) return false;
  const known = ownValues.get(column) ?? codes.every((code, row) => code === row);
  ownValues.set(column, known);
  return known;
}

/** The rows with one of some values, where each row has the value of its number. */
function rowsOfValues(wanted: FilterTest["values"], values: AttributeValues): Uint8Array {
  const bits = new Uint8Array(Math.ceil(values.length / 8));
  for (const value of wanted) {
    if (value === null) continue;
    const compare = comparison(values, value);
    const row = firstAtLeast(values.length, compare);
    if (row < values.length && compare(row) === 0) bits[row >> 3]! |= 1 << (row & 7);
  }
  return bits;
}

function isList(column: AttributeColumn): column is ListColumn {
  return column.offsets !== undefined;
}

/** Joins bitmaps in the first one, if there is one. */
function joinedBits(
  kind: "and" | "or",
  bits: Uint8Array | undefined,
  more: Uint8Array,
): Uint8Array {
  if (bits === undefined) return more;
  const [words, others] = [wordsOf(bits), wordsOf(more)];
  if (kind === "and") for (let at = 0; at < words.length; at += 1) words[at]! &= others[at]!;
  else for (let at = 0; at < words.length; at += 1) words[at]! |= others[at]!;
  for (let at = 4 * words.length; at < bits.length; at += 1) {
    bits[at] = kind === "and" ? bits[at]! & more[at]! : bits[at]! | more[at]!;
  }
  return bits;
}

/** The bytes of an array of its own as words, without up to three at the end. */
function wordsOf({ buffer, byteOffset, length }: Uint8Array): Uint32Array {
  return new Uint32Array(buffer, byteOffset, length >> 2);
}

/** Joins what was found of one column, in the table of the first. */
function joinedTruth(kind: "and" | "or", first: Found, more: Found): Found {
  if (first.kind === "rows" || more.kind === "rows") throw new RangeError("rows of no column");
  joinedBits(kind, first.truth, more.truth);
  if (first.kind === "codes" || more.kind === "codes") return first;
  return { ...first, ofNone: first.ofNone || more.ofNone };
}

/** How many of some ascending numbers are below `end`. */
function placeIn(ascending: Uint32Array, end: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ascending[middle]! < end) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Whether the test holds for each code; the last element is for the code of no value. */
function truthOfCodes({ is, values: wanted }: FilterTest, values: AttributeValues): Uint8Array {
  const truth = new Uint8Array(values.length + 1);
  if (is === "exists") return truth.fill(1, 0, values.length);
  for (const value of wanted) {
    if (value === null) {
      truth[values.length] = 1;
      continue;
    }
    const compare = comparison(values, value);
    const from = firstAtLeast(values.length, compare);
    // Values are distinct, so at most one is equal.
    const to = from < values.length && compare(from) === 0 ? from + 1 : from;
    if (is === "in") truth.fill(1, from, to);
    if (is === "gt") truth.fill(1, to, values.length);
    if (is === "gte") truth.fill(1, from, values.length);
    if (is === "lt") truth.fill(1, 0, from);
    if (is === "lte") truth.fill(1, 0, to);
  }
  return truth;
}

/** The first code whose value is not less than the one that `compare` compares with. */
function firstAtLeast(codes: number, compare: (code: number) => number): number {
  let low = 0;
  let high = codes;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compare(middle) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Compares the value of a code with another value. Mixed integers and floats are compared exactly. */
function comparison(
  values: AttributeValues,
  wanted: Exclude<FilterValue, null>,
): (code: number) => number {
  if (values instanceof StringColumn) {
    const bytes = Buffer.from(String(wanted));
    return (code) => Buffer.compare(values.at(code), bytes);
  }
  const number = typeof wanted === "bigint" ? wanted : Number(wanted);
  return (code) => {
    const value = values[code]!;
    if (value < number) return -1;
    return value > number ? 1 : 0;
  };
}

function scalarRows(
  codes: AttributeColumn["codes"],
  truth: Uint8Array,
  listed: Uint32Array | undefined,
): Uint8Array {
  if (listed !== undefined) {
    const bits = new Uint8Array(Math.ceil(listed.length / 8));
    for (let at = 0; at < listed.length; at += 1) {
      bits[at >> 3]! |= truth[codes[listed[at]!]!]! << (at & 7);
    }
    return bits;
  }
  const bits = new Uint8Array(Math.ceil(codes.length / 8));
  const whole = Math.floor(codes.length / 8);
  for (let at = 0, row = 0; at < whole; at += 1, row += 8) {
    bits[at] =
      truth[codes[row]!]! |
      (truth[codes[row + 1]!]! << 1) |
      (truth[codes[row + 2]!]! << 2) |
      (truth[codes[row + 3]!]! << 3) |
      (truth[codes[row + 4]!]! << 4) |
      (truth[codes[row + 5]!]! << 5) |
      (truth[codes[row + 6]!]! << 6) |
      (truth[codes[row + 7]!]! << 7);
  }
  for (let row = whole * 8; row < codes.length; row += 1) {
    bits[whole]! |= truth[codes[row]!]! << (row % 8);
  }
  return bits;
}

/** `ofNone`: whether the test holds for a list without elements. */
function listRows(
  { codes, offsets }: Pick<ListColumn, "codes" | "offsets">,
  {
    truth,
    ofNone,
    listed,
  }: {
    readonly truth: Uint8Array;
    readonly ofNone: boolean;
    readonly listed: Uint32Array | undefined;
  },
): Uint8Array {
  const count = listed?.length ?? offsets.length - 1;
  const bits = new Uint8Array(Math.ceil(count / 8));
  for (let index = 0; index < count; index += 1) {
    const row = listed === undefined ? index : listed[index]!;
    const end = offsets[row + 1]!;
    let holds = ofNone && end === offsets[row] ? 1 : 0;
    for (let at = offsets[row]!; at < end && holds === 0; at += 1) holds = truth[codes[at]!]!;
    bits[index >> 3]! |= holds << (index & 7);
  }
  return bits;
}
