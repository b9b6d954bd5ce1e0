// What the suites of all accelerators load and ask: random tables, masks and shapes.

import type { Accelerator, LoadShape } from "./accelerator.ts";
import type { AcceleratorOptions } from "./accelerator-options.ts";
import { normalValues, seededRandom } from "./exactness.cases.ts";
import type { SearchProblem } from "./exactness.cases.ts";

/** Opens the accelerator under test; the suite closes it. */
export type OpenAccelerator = (options?: Partial<AcceleratorOptions>) => Accelerator;

/** Normal values, the same in every run; k is 10. */
export function normalProblem(rows: number, dim: number, queries: number): SearchProblem {
  const random = seededRandom(rows + dim * 1009 + queries);
  return {
    dim,
    k: 10,
    table: normalValues(random, rows * dim),
    vectors: normalValues(random, queries * dim),
  };
}

/** The rows that `admits` names, as a bitmap. */
export function bitmapOf(rows: number, admits: (row: number) => boolean): Uint8Array {
  const bitmap = new Uint8Array(Math.ceil(rows / 8));
  for (let row = 0; row < rows; row += 1) if (admits(row)) bitmap[row >> 3]! |= 1 << (row & 7);
  return bitmap;
}

/** A whole table to be searched. */
export function searchShape(rows: number, dim: number): LoadShape {
  return { rows, dim, firstRow: 0, use: "search" };
}
