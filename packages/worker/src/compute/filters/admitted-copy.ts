// The rows that a filter admits, copied into a resident of their own, so that a search with a filter that is
// used often reads nothing else. The copy keeps the order of the rows, and the device places it at the first
// row of its partition: candidates come in the right order, and rows of two partitions never meet.

import { nextLoopTurn } from "@winnow/core";
import type { Accelerator, Resident } from "@winnow/accelerator";

import type { ResidentPartition } from "../resident-table.ts";

/** What copying needs of a device. */
export type CopyDevice = Pick<Accelerator, "gather" | "load" | "memory" | "release">;

/** A copy of some of a partition's rows. */
export interface AdmittedCopy {
  /** Row i of this resident is row `localRows[i]` of the partition. */
  readonly resident: Resident;
  /** Ascending local row numbers. */
  readonly localRows: Uint32Array;
}

const CHUNK_BYTES = 2 ** 20;

/** The rows whose bits are set, ascending. */
export function rowsOfBits(bits: Uint8Array, admitted: number): Uint32Array {
  const rows = new Uint32Array(admitted);
  let count = 0;
  for (let byte = 0; byte < bits.length && count < admitted; byte += 1) {
    for (let rest = bits[byte]!; rest > 0; rest &= rest - 1) {
      rows[count] = byte * 8 + 31 - Math.clz32(rest & -rest);
      count += 1;
    }
  }
  return rows;
}

/** Copies rows piece by piece. @throws WinnowError RESOURCE_EXHAUSTED as `Accelerator.load` */
export async function copyRows(
  device: CopyDevice,
  { resident: from }: ResidentPartition,
  localRows: Uint32Array,
): Promise<AdmittedCopy> {
  const { dim, firstRow } = from;
  const step = Math.max(1, Math.floor(CHUNK_BYTES / (dim * Float32Array.BYTES_PER_ELEMENT)));
  async function* chunks(): AsyncGenerator<Float32Array, void, undefined> {
    for (let at = 0; at < localRows.length; at += step) {
      yield await device.gather(from, localRows.subarray(at, at + step));
      await nextLoopTurn();
    }
  }
  const shape = { rows: localRows.length, dim, firstRow, use: "search" } as const;
  return { resident: await device.load(shape, chunks()), localRows };
}

/** The row of the table that a row of a copy stands for. */
export function tableRow({ resident, localRows }: AdmittedCopy, row: number): number {
  return resident.firstRow + localRows[row - resident.firstRow]!;
}

/** Ascending rows of the table, translated into rows of the copies that hold them. Rows in no copy are left out. */
export function copyRowsOf(rows: Uint32Array, copies: readonly AdmittedCopy[]): Uint32Array {
  const found: number[] = [];
  for (const copy of copies) {
    const { firstRow } = copy.resident;
    for (const row of rows) {
      const at = placeOf(copy.localRows, row - firstRow);
      if (at >= 0) found.push(firstRow + at);
    }
  }
  return Uint32Array.from(found).toSorted();
}

function placeOf(ascending: Uint32Array, wanted: number): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (ascending[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return ascending[low] === wanted ? low : -1;
}
