// Ids of the winners of a scan, copied from the partitions that hold them into new arrays. A batch has
// thousands of winners, spread over all ids of a table. Therefore no object is made per winner, and all
// offsets of strings are read before any of their bytes, so that cache misses overlap.

import type { Resident } from "@winnow/accelerator";
import { StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";

import type { PackedKeys } from "../compute.ts";

/** Where the ids of winners are copied from: partitions of one table, in any order. */
export interface IdSource {
  readonly resident: Pick<Resident, "firstRow">;
  /** Ids by local row. Either all partitions of a table have ids, of one type, or none has. */
  readonly ids: Tensor | undefined;
}

/** The ids of global rows, in their order; `undefined` for a table that stores none. */
export function idsOfRows(rows: Uint32Array, sources: readonly IdSource[]): PackedKeys | undefined {
  const dtype = sources.find(({ ids }) => ids !== undefined)?.ids?.dtype;
  if (dtype === undefined) return undefined;
  const ascending = sources.toSorted((a, b) => a.resident.firstRow - b.resident.firstRow);
  const places = placesOf(rows, ascending);
  if (dtype === "string") {
    return { dtype, strings: packStrings(places, columnsOf(ascending, StringColumn)) };
  }
  if (dtype === "int32") {
    return { dtype, values: pickInt32(places, columnsOf(ascending, Int32Array)) };
  }
  if (dtype === "int64") {
    return { dtype, values: pickInt64(places, columnsOf(ascending, BigInt64Array)) };
  }
  throw new RangeError(`ids of dtype ${dtype}`);
}

/** For each row, the position of its partition and the row within that partition. */
interface Places {
  readonly partitions: Uint16Array;
  readonly localRows: Uint32Array;
}

/** Where global rows are among partitions by their first rows. */
export function placesOf(
  rows: Uint32Array,
  ascending: readonly Pick<IdSource, "resident">[],
): Places {
  const firstRows = Uint32Array.from(ascending, ({ resident }) => resident.firstRow);
  const partitions = new Uint16Array(rows.length);
  const localRows = new Uint32Array(rows.length);
  for (let at = 0; at < rows.length; at += 1) {
    const row = rows[at]!;
    let low = 0;
    let high = firstRows.length - 1;
    // The last partition that begins at or before this row.
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (firstRows[middle]! <= row) low = middle;
      else high = middle - 1;
    }
    partitions[at] = low;
    localRows[at] = row - firstRows[low]!;
  }
  return { partitions, localRows };
}

function columnsOf<Column extends Tensor["data"]>(
  ascending: readonly IdSource[],
  type: abstract new (...parts: never[]) => Column,
): Column[] {
  return ascending.map(({ ids }) => {
    if (ids?.data instanceof type) return ids.data;
    throw new RangeError(`a partition's ids are ${ids?.dtype ?? "missing"}, unlike the others`);
  });
}

function packStrings(
  { partitions, localRows }: Places,
  columns: readonly StringColumn[],
): { offsets: Uint32Array; bytes: Uint8Array } {
  const count = localRows.length;
  const starts = new Uint32Array(count);
  const offsets = new Uint32Array(count + 1);
  for (let at = 0; at < count; at += 1) {
    const from = columns[partitions[at]!]!.offsets;
    const row = localRows[at]!;
    starts[at] = from[row]!;
    offsets[at + 1] = offsets[at]! + from[row + 1]! - from[row]!;
  }
  const bytes = new Uint8Array(offsets[count]!);
  // The first byte of each id is read before any id is copied: reads that nothing follows wait for memory together.
  let read = 0;
  for (let at = 0; at < count; at += 1) read |= columns[partitions[at]!]!.bytes[starts[at]!]!;
  // What is read must be used, or it need not be read; what is written here is written over.
  if (bytes.length > 0) bytes[0] = read;
  for (let at = 0; at < count; at += 1) {
    const from = columns[partitions[at]!]!.bytes;
    const end = offsets[at + 1]!;
    // Ids are short: a call of a copy function would take longer than this loop.
    for (let to = offsets[at]!, next = starts[at]!; to < end; to += 1, next += 1) {
      bytes[to] = from[next]!;
    }
  }
  return { offsets, bytes };
}

function pickInt32({ partitions, localRows }: Places, columns: readonly Int32Array[]): Int32Array {
  return Int32Array.from(localRows, (row, at) => columns[partitions[at]!]![row]!);
}

function pickInt64(
  { partitions, localRows }: Places,
  columns: readonly BigInt64Array[],
): BigInt64Array {
  const values = new BigInt64Array(localRows.length);
  for (let at = 0; at < values.length; at += 1) {
    values[at] = columns[partitions[at]!]![localRows[at]!]!;
  }
  return values;
}
