// Evaluates a filter: the rows that it admits as a bitmap, with bit r & 7 of byte r >> 3 for row r. The
// values of a column are sorted, so each test admits one range of codes or a few single codes.

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
  readonly rows: number;
  /** The number of the first of these rows in the table. */
  readonly firstRow: number;
}

/** The rows that a bound filter admits. @throws WinnowError INVALID_ARGUMENT for an attribute without a column */
export function admittedRows(filter: Filter, of: FilteredRows): Uint8Array {
  const { rows } = of;
  const bits = bitsOf(filter, of);
  if (rows % 8 > 0) bits[bits.length - 1]! &= (1 << (rows % 8)) - 1;
  return bits;
}

function bitsOf(filter: Filter, within: FilteredRows): Uint8Array {
  const { rows } = within;
  switch (filter.kind) {
    case "test":
      return filter.attribute === ROW_COLUMN
        ? numberedRows(filter, within)
        : testedRows(filter, within);
    case "not": {
      const bits = bitsOf(filter.of, within);
      for (let at = 0; at < bits.length; at += 1) bits[at] = ~bits[at]!;
      return bits;
    }
    case "and": {
      const bits = new Uint8Array(Math.ceil(rows / 8)).fill(255);
      for (const each of filter.of) {
        const more = bitsOf(each, within);
        for (let at = 0; at < bits.length; at += 1) bits[at]! &= more[at]!;
      }
      return bits;
    }
    case "or": {
      const bits = new Uint8Array(Math.ceil(rows / 8));
      for (const each of filter.of) {
        const more = bitsOf(each, within);
        for (let at = 0; at < bits.length; at += 1) bits[at]! |= more[at]!;
      }
      return bits;
    }
  }
}

/** The rows before a given row number: the only test of rows themselves. */
function numberedRows({ is, values }: FilterTest, { rows, firstRow }: FilteredRows): Uint8Array {
  const end = Number(values[0]);
  if (is !== "lt" || !Number.isSafeInteger(end)) {
    throw new WinnowError("INVALID_ARGUMENT", "Rows are only asked for before a number");
  }
  const bits = new Uint8Array(Math.ceil(rows / 8));
  const count = Math.min(Math.max(0, end - firstRow), rows);
  bits.fill(255, 0, count >> 3);
  if (count % 8 > 0) bits[count >> 3] = (1 << (count % 8)) - 1;
  return bits;
}

function testedRows(test: FilterTest, { columns, rows }: FilteredRows): Uint8Array {
  const column = columns.get(test.attribute);
  if (column === undefined || rowsOfColumn(column) !== rows) {
    const text = `Items here have no attribute "${excerpt(test.attribute)}"`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const truth = truthOfCodes(test, column.values);
  return column.offsets === undefined
    ? scalarRows(column.codes, truth)
    : listRows({ codes: column.codes, offsets: column.offsets }, truth, test.is === "exists");
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
    const from = firstAtLeast(values, value);
    const to = firstAbove(values, value, from);
    if (is === "in") truth.fill(1, from, to);
    if (is === "gt") truth.fill(1, to, values.length);
    if (is === "gte") truth.fill(1, from, values.length);
    if (is === "lt") truth.fill(1, 0, from);
    if (is === "lte") truth.fill(1, 0, to);
  }
  return truth;
}

/** The first code whose value is not less than `wanted`. */
function firstAtLeast(values: AttributeValues, wanted: Exclude<FilterValue, null>): number {
  const compare = comparison(values, wanted);
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compare(middle) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The first code whose value is greater: values are distinct, so at most one is equal. */
function firstAbove(
  values: AttributeValues,
  wanted: Exclude<FilterValue, null>,
  from: number,
): number {
  return from < values.length && comparison(values, wanted)(from) === 0 ? from + 1 : from;
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

function scalarRows(codes: AttributeColumn["codes"], truth: Uint8Array): Uint8Array {
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
  { codes, offsets }: { readonly codes: AttributeColumn["codes"]; readonly offsets: Uint32Array },
  truth: Uint8Array,
  ofNone: boolean,
): Uint8Array {
  const rows = offsets.length - 1;
  const bits = new Uint8Array(Math.ceil(rows / 8));
  for (let row = 0; row < rows; row += 1) {
    const end = offsets[row + 1]!;
    let holds = ofNone && end === offsets[row] ? 1 : 0;
    for (let at = offsets[row]!; at < end && holds === 0; at += 1) holds = truth[codes[at]!]!;
    bits[row >> 3]! |= holds << (row & 7);
  }
  return bits;
}
