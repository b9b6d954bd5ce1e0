// What every device checks before it starts on a query or a load. Shapes that do not fit are
// refused in the same words by every device, and the inner loops need no checks of their own.

import { WinnowError } from "@winnow/core";
import type { TopKBlock } from "@winnow/core";
import type { LoadShape, Resident, TopKQuery } from "../accelerator.ts";

/** Values per row, at most; in a longer row a sum of the filter scan could exceed 32 bits. */
const DIM_MAX = 32_768;

/** Rows of a table, at most: scans number them with 32 bits, in units of 2,048. */
const ROWS_MAX = 2 ** 32 - 1 - 2048;

/** A query whose shapes fit together. */
export interface CheckedTopKQuery extends TopKQuery {
  readonly queries: number;
  readonly dim: number;
  /** Rows of all residents together. */
  readonly rows: number;
  /** `k`, or the number of rows if that is less: candidates that an answer can hold per query. */
  readonly room: number;
}

/**
 * Checks the shapes of a query.
 * @throws WinnowError INVALID_ARGUMENT for vectors, k, exclusions or filters that do not fit; RangeError
 * without residents, for a resident named twice, for residents of different dim, or for filters of
 * others.
 */
export function checkTopKQuery(query: TopKQuery): CheckedTopKQuery {
  const dim = checkResidents(query);
  if (!Number.isInteger(query.k) || query.k < 1) {
    throw invalid(`Cannot return ${query.k} candidates: k must be an integer from 1`);
  }
  if (query.vectors.length % dim !== 0) {
    throw invalid(`${query.vectors.length} values are not whole queries of dim ${dim}`);
  }
  const queries = query.vectors.length / dim;
  checkExclusions(query, queries);
  checkFilters(query, queries);
  const rows = query.residents.reduce((sum, resident) => sum + resident.rows, 0);
  return { ...query, queries, dim, rows, room: Math.min(query.k, rows) };
}

/** The dim all residents share. */
function checkResidents({ residents }: TopKQuery): number {
  const [first] = residents;
  if (first === undefined) throw new RangeError("a query needs at least one resident");
  if (residents.some((resident) => resident.dim !== first.dim)) {
    throw new RangeError("the residents of one query must have one dim");
  }
  if (new Set(residents).size !== residents.length) {
    throw new RangeError("a query must not name a resident twice");
  }
  return first.dim;
}

/** Checks rows to be gathered. @throws RangeError for one outside the resident */
export function checkLocalRows({ rows }: Resident, localRows: Uint32Array): void {
  const outside = localRows.find((row) => row >= rows);
  if (outside !== undefined) throw new RangeError(`row ${outside} of a resident of ${rows}`);
}

/** The answer to no queries, or over no rows: no candidate for any query. */
export function emptyBlock(queries: number): TopKBlock {
  return {
    queries,
    k: 0,
    counts: new Uint32Array(queries),
    scores: new Float32Array(0),
    rows: new Uint32Array(0),
  };
}

function checkExclusions({ excludedRows }: TopKQuery, queries: number): void {
  if (excludedRows === undefined) return;
  if (excludedRows.length !== queries) {
    throw invalid(`${excludedRows.length} lists of excluded rows do not fit ${queries} queries`);
  }
  for (const list of excludedRows) {
    if (list !== undefined && !isAscending(list)) {
      throw invalid("Excluded rows must be in ascending order");
    }
  }
}

/** A list is checked once, however many queries share it. */
function checkFilters({ filters, residents }: TopKQuery, queries: number): void {
  if (filters === undefined) return;
  if (filters.length !== queries) {
    throw invalid(`${filters.length} lists of filters do not fit ${queries} queries`);
  }
  for (const list of new Set(filters)) {
    if (list === undefined) continue;
    const fits =
      list.length === residents.length &&
      list.every(({ resident }, index) => resident === residents[index]);
    if (!fits) throw new RangeError("a query with filters needs one of each resident, in order");
  }
}

function isAscending(rows: Uint32Array): boolean {
  for (let index = 1; index < rows.length; index += 1) {
    if (rows[index]! < rows[index - 1]!) return false;
  }
  return true;
}

/**
 * Checks the shape of a load.
 * @throws WinnowError INVALID_ARGUMENT
 */
export function checkLoadShape({ rows, dim, firstRow }: LoadShape): void {
  if (!Number.isInteger(dim) || dim < 1 || dim > DIM_MAX) {
    throw invalid(`Cannot load rows of dim ${dim}: it must be an integer from 1 to ${DIM_MAX}`);
  }
  const areRows = [rows, firstRow].every((value) => Number.isInteger(value) && value >= 0);
  if (!areRows || firstRow + rows > ROWS_MAX) {
    throw invalid(`Cannot load ${rows} rows from row ${firstRow}: a table has at most ${ROWS_MAX}`);
  }
}

/** How far a load has come: where its next chunk belongs. */
export interface LoadProgress {
  readonly shape: LoadShape;
  /** Values taken so far. */
  taken: number;
}

/** Checks the values of the next chunk. @throws WinnowError INVALID_ARGUMENT naming the row */
export function checkFinite(progress: LoadProgress, chunk: Float32Array): void {
  const fault = firstNotFinite(chunk);
  if (fault >= 0) throw notFinite(progress, chunk, fault);
}

/** Checks that a chunk is whole rows, and not too many. @throws WinnowError INVALID_ARGUMENT */
export function checkChunkShape({ shape, taken }: LoadProgress, chunk: Float32Array): void {
  const { rows, dim } = shape;
  if (chunk.length % dim !== 0) {
    throw invalid(`A chunk of ${chunk.length} values is not whole rows of dim ${dim}`);
  }
  if (taken + chunk.length > rows * dim) {
    throw invalid(`More than the announced ${rows} rows of dim ${dim} arrived`);
  }
}

/** Why a chunk whose value at `position` is NaN or infinite is refused. */
export function notFinite(
  { shape, taken }: LoadProgress,
  chunk: Float32Array,
  position: number,
): WinnowError {
  const row = shape.firstRow + Math.floor((taken + position) / shape.dim);
  return invalid(`Row ${row} holds ${chunk[position]}: only finite values can be searched`);
}

/** Checks that all rows have arrived. @throws WinnowError INVALID_ARGUMENT */
export function checkComplete({ shape, taken }: LoadProgress): void {
  if (taken !== shape.rows * shape.dim) {
    throw invalid(`Only ${taken / shape.dim} of the announced ${shape.rows} rows arrived`);
  }
}

/** Position of the first NaN or infinity, or -1. */
function firstNotFinite(values: Float32Array): number {
  // x - x is 0 for a finite x and NaN otherwise, so that one sum checks many values at once.
  const step = 4096;
  for (let start = 0; start < values.length; start += step) {
    const end = Math.min(start + step, values.length);
    let sum = 0;
    for (let index = start; index < end; index += 1) sum += values[index]! - values[index]!;
    if (sum !== 0) return values.findIndex((value) => !Number.isFinite(value));
  }
  return -1;
}

function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}
