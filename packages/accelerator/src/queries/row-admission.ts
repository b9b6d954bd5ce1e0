// Which rows a query may return: those that its filters admit and that its list of excluded rows does not
// name. The native scan has filters of its own (native/search/queries/row-filter.h); all other scans use
// these.

import type { Resident, RowFilter } from "../accelerator.ts";
import type { CheckedTopKQuery } from "./top-k-request.ts";

/** Whether a query may return a global row. */
export type RowTest = (row: number) => boolean;

/** Rows to whose multiple a bitmap is padded, so that the GPU can take it as it is. */
const PADDED_ROWS = 128;

/** A filter as a bitmap in the memory of this process. */
export class BitmapFilter implements RowFilter {
  readonly resident: Resident;
  readonly admitted: number;
  readonly bytes: number;
  #bits: Uint8Array | undefined;

  constructor(resident: Resident, admittedRows: Uint8Array) {
    const { rows } = resident;
    const bits = new Uint8Array(Math.ceil(rows / PADDED_ROWS) * (PADDED_ROWS / 8));
    bits.set(admittedRows.subarray(0, Math.ceil(rows / 8)));
    if (rows % 8 > 0) bits[Math.floor(rows / 8)]! &= (1 << (rows % 8)) - 1;
    this.resident = resident;
    this.admitted = countBits(new Uint32Array(bits.buffer));
    this.bytes = bits.length;
    this.#bits = bits;
  }

  /**
   * The bitmap of a filter, padded with zeros to whole groups of 128 rows.
   * @throws RangeError if it was released, or is of another device
   */
  static bitsOf(filter: RowFilter): Uint8Array {
    const bits = filter instanceof BitmapFilter ? filter.#bits : undefined;
    if (bits === undefined) throw new RangeError("the filter is not on this accelerator");
    return bits;
  }

  /** Lets go of the bitmap and returns it; `undefined` if that was done before. */
  release(): Uint8Array | undefined {
    const bits = this.#bits;
    this.#bits = undefined;
    return bits;
  }
}

/** Counts in each byte of a word, 2, 4 and 8 bits at a time, and adds up the bytes by a product. */
function countBits(words: Uint32Array): number {
  let count = 0;
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index]!;
    const twos = word - ((word >>> 1) & 0x55555555);
    const fours = (twos & 0x33333333) + ((twos >>> 2) & 0x33333333);
    const eights = (fours + (fours >>> 4)) & 0x0f0f0f0f;
    count += Math.imul(eights, 0x01010101) >>> 24;
  }
  return count;
}

/** The rows that one filter admits. */
interface AdmittedPart {
  readonly resident: Resident;
  /** As `BitmapFilter.bitsOf`. */
  readonly bits: Uint8Array;
}

/** The rows that the filters of several residents admit, by global number. */
export class RowSet {
  /** Ascending by row. */
  readonly parts: readonly AdmittedPart[];
  #last = 0;

  constructor(filters: readonly RowFilter[]) {
    const parts = filters.map((filter) => ({
      resident: filter.resident,
      bits: BitmapFilter.bitsOf(filter),
    }));
    this.parts = parts.toSorted((one, other) => one.resident.firstRow - other.resident.firstRow);
  }

  has(row: number): boolean {
    const part = this.#partOf(row);
    if (part === undefined) return false;
    const local = row - part.resident.firstRow;
    return (part.bits[Math.floor(local / 8)]! & (1 << (local & 7))) !== 0;
  }

  /** Rows are mostly asked for in order, so the part of the last one is tried first. */
  #partOf(row: number): AdmittedPart | undefined {
    const holds = (at: number): boolean => {
      const { firstRow, rows } = this.parts[at]!.resident;
      return row >= firstRow && row < firstRow + rows;
    };
    if (!holds(this.#last)) {
      const found = this.parts.findIndex((_, at) => holds(at));
      if (found < 0) return undefined;
      this.#last = found;
    }
    return this.parts[this.#last];
  }
}

/** A query with the rows of its filters, which may be released from here on. */
export interface AdmittedTopKQuery extends CheckedTopKQuery {
  /** Per query; `undefined` where all rows are admitted. Queries of the same filters share one set. */
  readonly admissions: readonly (RowSet | undefined)[];
}

/** Takes the rows of a query's filters. @throws RangeError for a filter that is not on this device */
export function admittedQuery(query: CheckedTopKQuery): AdmittedTopKQuery {
  const sets = new Map<readonly RowFilter[], RowSet>();
  const admissions = (query.filters ?? []).map((list) => {
    if (list === undefined) return undefined;
    const known = sets.get(list) ?? new RowSet(list);
    sets.set(list, known);
    return known;
  });
  return { ...query, admissions };
}

/** The test for one query of a batch. */
export function rowTest(query: AdmittedTopKQuery, index: number): RowTest {
  const excluded = query.excludedRows?.[index];
  const admitted = query.admissions[index];
  return (row) =>
    (admitted === undefined || admitted.has(row)) &&
    (excluded === undefined || !holdsRow(excluded, row));
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
