// Attributes of items: named values that a version brings for the rows of a searched table, beside its rows.
// A column stores each distinct value once, ascending, and a number (code) for each row; the code one past
// the last value means that the row has no value. So a condition is tested once per distinct value, and a
// filter is a loop over small integers.
//
//   year    values [1954, 1995]         codes [1, 0, 2, 1]                       row 2 has none
//   genres  values [crime, drama]       codes [0, 1, 1, 2]  offsets [0, 2, 3, 3, 4]
//           rows: [crime, drama], [drama], [] and, by the code 2, a row that has no list at all

import { StringColumn } from "../tensor/string-column.ts";

/** The type of an attribute's values. `timestamp`: microseconds since 1970, UTC. */
export type AttributeType = "string" | "integer" | "float" | "boolean" | "timestamp";

/** All types, for readers. */
export const ATTRIBUTE_TYPES: readonly AttributeType[] = [
  "string",
  "integer",
  "float",
  "boolean",
  "timestamp",
];

/** An attribute that filters can name. */
export interface AttributeSpec {
  readonly name: string;
  readonly type: AttributeType;
  readonly isList: boolean;
}

/**
 * Distinct values, ascending (strings by their bytes): strings; integers beyond 2⁵³ as BigInt64Array; all
 * other integers, floats, timestamps, and booleans as 0 and 1.
 */
export type AttributeValues = StringColumn | Float64Array<ArrayBuffer> | BigInt64Array<ArrayBuffer>;

/** Codes, in the narrowest array type that holds them. */
export type AttributeCodes =
  | Uint8Array<ArrayBuffer>
  | Uint16Array<ArrayBuffer>
  | Uint32Array<ArrayBuffer>;

/** One attribute of some rows. */
export interface AttributeColumn {
  readonly spec: AttributeSpec;
  readonly values: AttributeValues;
  /** One code for each row or, for lists, one for each element of all lists. */
  readonly codes: AttributeCodes;
  /** For lists: `rows + 1` ascending positions in `codes`. */
  readonly offsets?: Uint32Array<ArrayBuffer> | undefined;
}

/** A single value as in JSON; a timestamp as its microseconds. */
export type AttributeValue = string | number | bigint | boolean;

/** An array for the codes of this many distinct values and the code of no value. */
export function codesFor(values: number, length: number): AttributeCodes {
  if (values < 2 ** 8) return new Uint8Array(length);
  return values < 2 ** 16 ? new Uint16Array(length) : new Uint32Array(length);
}

/** Number of rows of a column. */
export function rowsOfColumn({ codes, offsets }: AttributeColumn): number {
  return offsets === undefined ? codes.length : offsets.length - 1;
}

/** Bytes of a column in memory. */
export function columnBytes({ values, codes, offsets }: AttributeColumn): number {
  const bytes =
    values instanceof StringColumn
      ? values.byteLength + values.offsets.byteLength
      : values.byteLength;
  return bytes + codes.byteLength + (offsets?.byteLength ?? 0);
}

/** The value of a code; `undefined` for the code of no value. */
export function valueOfCode(
  { spec, values }: AttributeColumn,
  code: number,
): AttributeValue | undefined {
  if (code >= values.length) return undefined;
  if (values instanceof StringColumn) return values.textAt(code);
  const value = values[code]!;
  return spec.type === "boolean" ? value === 1 : value;
}

/** Some rows of a column, with only the values that occur in them. */
export function takeRows(column: AttributeColumn, rows: Uint32Array): AttributeColumn {
  const { spec, values, codes, offsets } = column;
  const none = values.length;
  const lists = offsets && new Uint32Array(rows.length + 1);
  if (lists !== undefined) {
    for (let at = 0; at < rows.length; at += 1) {
      const row = rows[at]!;
      const length = row === NO_ROW ? 1 : offsets![row + 1]! - offsets![row]!;
      lists[at + 1] = lists[at]! + length;
    }
  }
  const picked = new Uint32Array(lists === undefined ? rows.length : lists.at(-1)!);
  for (let at = 0, to = 0; at < rows.length; at += 1) {
    const row = rows[at]!;
    if (row === NO_ROW) picked[to++] = none;
    else if (offsets === undefined) picked[to++] = codes[row]!;
    else
      for (let from = offsets[row]!; from < offsets[row + 1]!; from += 1)
        picked[to++] = codes[from]!;
  }
  const { used, codeOf } = usedCodes(picked, none);
  const narrow = codesFor(used.length, picked.length);
  for (let at = 0; at < picked.length; at += 1) narrow[at] = codeOf[picked[at]!]!;
  return { spec, values: takeValues(values, used), codes: narrow, offsets: lists };
}

/** Stands for the row of an item that has no attributes, see `takeRows`. */
export const NO_ROW: number = 2 ** 32 - 1;

/** The codes that occur, ascending, and the number of each among them; the code of no value is one past the last. */
function usedCodes(
  codes: Uint32Array,
  none: number,
): { readonly used: Uint32Array; readonly codeOf: Uint32Array } {
  const codeOf = new Uint32Array(none + 1);
  for (const code of codes) codeOf[code] = 1;
  const used = new Uint32Array(codeOf.subarray(0, none).reduce((sum, one) => sum + one, 0));
  let count = 0;
  for (let code = 0; code < none; code += 1) {
    if (codeOf[code] === 0) continue;
    used[count] = code;
    codeOf[code] = count;
    count += 1;
  }
  codeOf[none] = count;
  return { used, codeOf };
}

function takeValues(values: AttributeValues, positions: Uint32Array): AttributeValues {
  if (values instanceof StringColumn) return values.take(positions);
  if (values instanceof BigInt64Array) {
    return BigInt64Array.from({ length: positions.length }, (_, at) => values[positions[at]!]!);
  }
  return Float64Array.from(positions, (position) => values[position]!);
}

/**
 * An attribute that is in no file but that a search can give for each item: the item's vector, base64 of its
 * float32 values, little-endian. No column's name begins with `$`.
 */
export const VECTOR_ATTRIBUTE = "$vector";

/**
 * What a search for one item can give for a query: the sum of the exponentials of the scores of all rows
 * (program/search/softmax-sums.ts). Only routers ask for it, and for nothing else beside it.
 */
export const SUMS_ATTRIBUTE = "$sums";

/** Bytes of a value, or a list, of an attribute as JSON, at most: an answer may hold thousands. */
export const VALUE_BYTES_MAX = 2048;

/** Characters of a vector in base64. */
export function vectorTextLength(dim: number): number {
  return 4 * Math.ceil((4 * dim) / 3);
}

/** The number of attribute values that a vector counts for: no value may be longer than `VALUE_BYTES_MAX`. */
export function valuesOfVector(dim: number): number {
  return Math.ceil(vectorTextLength(dim) / VALUE_BYTES_MAX);
}
