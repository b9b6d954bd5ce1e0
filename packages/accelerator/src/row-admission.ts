// Which rows a query may return: those that the mask of its batch admits and its own list of excluded
// rows does not name.

import type { TopKQuery } from "./accelerator.ts";

/** Whether a query may return a global row. */
export type RowTest = (row: number) => boolean;

/** The test for one query of a batch. */
export function rowTest(query: TopKQuery, index: number): RowTest {
  const excluded = query.excludedRows?.[index];
  const mask = query.admittedRows;
  return (row) => isAdmitted(mask, row) && (excluded === undefined || !holdsRow(excluded, row));
}

/** Whether a bitmap, if there is one, has the bit of this row; beyond its end it has none. */
export function isAdmitted(mask: Uint8Array | undefined, row: number): boolean {
  return mask === undefined || ((mask[Math.floor(row / 8)] ?? 0) & (1 << (row & 7))) !== 0;
}

/** Whether an ascending list holds a row. */
export function holdsRow(rows: Uint32Array, row: number): boolean {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (rows[middle]! < row) low = middle + 1;
    else high = middle;
  }
  return rows[low] === row;
}
