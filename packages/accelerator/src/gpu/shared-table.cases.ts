// One table, loaded in parts onto a software GPU: what is wrong with a search or a lookup of some of them.

import type { Accelerator, Resident } from "../accelerator.ts";
import { bruteForce, firstDifference, normalValues, seededRandom } from "../exactness.cases.ts";
import type { SearchProblem } from "../exactness.cases.ts";

/** Values per row of the table. */
export const DIM = 8;
/** Rows per answer. */
export const K = 12;
/** Bytes of a group of 128 rows of DIM values: values, codes, head. */
export const GROUP_BYTES: number = 128 * (32 + 16) + 16;
/** Bytes of a group's values. */
export const VALUE_BYTES: number = 128 * 32;

const random = seededRandom(5);
const ROWS = 8000;
const TABLE: SearchProblem = {
  dim: DIM,
  k: K,
  table: normalValues(random, ROWS * DIM),
  vectors: normalValues(random, 3 * DIM),
};

/** Loads a part of the table to be searched. */
export function load(accelerator: Accelerator, firstRow: number, rows: number): Promise<Resident> {
  const chunk = TABLE.table.subarray(firstRow * DIM, (firstRow + rows) * DIM);
  return accelerator.load({ rows, dim: DIM, firstRow, use: "search" }, [chunk]);
}

/** What is wrong with a search of these residents, whose rows do not overlap. */
export async function searchFault(
  accelerator: Accelerator,
  residents: readonly Resident[],
): Promise<string | undefined> {
  const covered = new Uint8Array(ROWS / 8);
  for (const { firstRow, rows } of residents) {
    for (let row = firstRow; row < firstRow + rows; row += 1) covered[row >> 3]! |= 1 << (row & 7);
  }
  const excludedRows = [
    undefined,
    bruteForce(TABLE)
      .rows.slice(K, 2 * K)
      .toSorted(),
    undefined,
  ];
  const { vectors, k } = TABLE;
  const block = await accelerator.topK({ residents, vectors, k, excludedRows });
  return firstDifference(block, bruteForce({ ...TABLE, excludedRows, admittedRows: covered }));
}

/** What is wrong with a lookup of three rows. */
export async function gatherFault(
  accelerator: Accelerator,
  resident: Resident,
): Promise<string | undefined> {
  const { firstRow, rows } = resident;
  const asked = Uint32Array.of(rows - 1, 0, Math.floor(rows / 2));
  const gathered = await accelerator.gather(resident, asked);
  const expected = [...asked].flatMap((row) =>
    Array.from({ length: DIM }, (_, j) => TABLE.table[(firstRow + row) * DIM + j]!),
  );
  return expected.every((value, at) => Object.is(value, gathered[at])) ? undefined : "other rows";
}

/** Bytes that residents say they take. */
export function bytesOf(residents: readonly Resident[]): number {
  return residents.reduce((sum, { bytes }) => sum + bytes, 0);
}
