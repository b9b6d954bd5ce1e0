// The rows that a filter admits, copied into a resident of their own: a search by a filter that is used often
// then reads nothing else. The copy keeps the rows' order and lies, as the device sees it, at the first row
// of its partition, so candidates come in the right order and rows of two partitions never meet.

import { nextLoopTurn } from "@winnow/core";
import type { Accelerator, Resident } from "@winnow/accelerator";

import type { ResidentPartition } from "../resident-table.ts";

/** The device that copies are on. */
export type CopyDevice = Pick<Accelerator, "gather" | "load" | "memory" | "release">;

/** A copy of some rows of a partition. */
export interface AdmittedCopy {
  /** Row i of it is row `localRows[i]` of the partition. */
  readonly resident: Resident;
  /** Ascending. */
  readonly localRows: Uint32Array;
}

const CHUNK_BYTES = 2 ** 20;

/** The rows of a bitmap, ascending. */
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

/** Makes a copy, a piece at a time. @throws WinnowError RESOURCE_EXHAUSTED as `Accelerator.load` */
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

/** Ascending rows of the table as rows of the copies that hold them; those of no copy are left out. */
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
