// How a shadow's answer compares with the one that the client got: the same bits; the same items in another
// order or with other scores; or different items.

import { StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";

/** `reordered`: the same items for each instance, in another order or with other scores. */
export type AnswerLikeness = "same" | "reordered" | "different";

type Outputs = ReadonlyMap<string, Tensor>;

/** Compares two answers to one request. Values beyond the end of a ragged row do not count. */
export function likenessOf(given: Outputs, other: Outputs): AnswerLikeness {
  const names = [...given.keys()];
  if (names.length !== other.size || names.some((name) => !other.has(name))) return "different";
  const pairs = names.map((name) => [given.get(name)!, other.get(name)!] as const);
  if (pairs.some(([a, b]) => a.dtype !== b.dtype)) return "different";
  if (pairs.every(([a, b]) => isSame(a, b))) return "same";
  // Items are identified by strings and integers; floating-point values are scores, which may differ.
  const items = pairs.filter(([{ dtype }]) => dtype !== "float32" && dtype !== "float64");
  const areSame = items.length > 0 && items.every(([a, b]) => haveSameItems(a, b));
  return areSame ? "reordered" : "different";
}

function isSame(a: Tensor, b: Tensor): boolean {
  const isPadded = a.rowLengths !== undefined || b.rowLengths !== undefined;
  if (!isPadded) return String(a.shape) === String(b.shape) && bytesOf(a).equals(bytesOf(b));
  return everyRow(a, b, (row, other) => row.every((value, place) => value === other[place]));
}

/** The bits of all values; for strings, their lengths and their bytes. */
function bytesOf({ data }: Tensor): Buffer {
  if (!(data instanceof StringColumn)) {
    return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  }
  const [first] = data.offsets;
  const lengths = data.offsets.map((offset) => offset - first!);
  const text = data.bytes.subarray(first, first! + data.byteLength);
  return Buffer.concat([Buffer.from(lengths.buffer, 0, lengths.byteLength), text]);
}

function haveSameItems(a: Tensor, b: Tensor): boolean {
  return everyRow(a, b, isSameSet);
}

/**
 * Whether both have equally many values for each instance, and those of each instance are alike. The lengths come first:
 * a shadow may answer far more values than a router compares in one turn.
 */
function everyRow(a: Tensor, b: Tensor, areAlike: (row: Row, other: Row) => boolean): boolean {
  const rows = rowCountOf(a);
  if (rows !== rowCountOf(b)) return false;
  for (let row = 0; row < rows; row += 1) if (lengthOf(a, row) !== lengthOf(b, row)) return false;
  for (let row = 0; row < rows; row += 1) if (!areAlike(rowOf(a, row), rowOf(b, row))) return false;
  return true;
}

/** Whether both lists, of one length, hold the same values, each equally often. */
function isSameSet(row: Row, other: Row): boolean {
  const counts = new Map<string, number>();
  for (const value of row) counts.set(value, (counts.get(value) ?? 0) + 1);
  return other.every((value) => {
    const left = counts.get(value) ?? 0;
    counts.set(value, left - 1);
    return left > 0;
  });
}

/** The values of one instance, as texts made from their bits. */
type Row = readonly string[];

function rowCountOf({ shape }: Tensor): number {
  return shape[0] ?? 1;
}

/** Values of a row with those that pad it. */
function widthOf(tensor: Tensor): number {
  const rows = rowCountOf(tensor);
  return rows === 0 ? 0 : tensor.data.length / rows;
}

function lengthOf(tensor: Tensor, row: number): number {
  return tensor.rowLengths?.[row] ?? widthOf(tensor);
}

function rowOf(tensor: Tensor, row: number): Row {
  const from = row * widthOf(tensor);
  return Array.from({ length: lengthOf(tensor, row) }, (_, at) => bitsOf(tensor.data, from + at));
}

function bitsOf(data: Tensor["data"], at: number): string {
  if (data instanceof StringColumn) return Buffer.from(data.at(at)).toString("latin1");
  const bytes = data.BYTES_PER_ELEMENT;
  return Buffer.from(data.buffer, data.byteOffset + at * bytes, bytes).toString("latin1");
}
