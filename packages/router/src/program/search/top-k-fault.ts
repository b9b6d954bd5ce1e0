// Checks a worker's answer to a search (S10): never fewer items than were asked for, only rows of the
// partitions that were asked, and in the order that the merge relies on. Any other answer is the worker's
// fault, and another replica is asked.

import type { CandidateTable, StringColumn, Tensor, TopKBlock } from "@winnow/core";
import {
  cellPartsAt,
  compareCandidates,
  partitionHolding,
  rowRangeOf,
  toWinnowError,
  vectorDimOf,
} from "@winnow/core";
import type { TopKAsk, WorkerAnswer } from "@winnow/cluster";
import { cellsOfTexts } from "../item-vectors.ts";

/** The rows that the question was about. */
export interface SearchedRows {
  readonly table: CandidateTable;
  readonly partitions: readonly number[];
}

/** What is wrong with an answer to this question; `undefined` if nothing is. */
export function topKFault(
  answer: WorkerAnswer,
  ask: TopKAsk,
  { table, partitions }: SearchedRows,
): string | undefined {
  if (answer.kind !== "topK") return `a search was answered with ${answer.kind}`;
  const { block, ids } = answer;
  if (block.queries !== ask.queries) return `${block.queries} queries instead of ${ask.queries}`;
  const { counts } = block;
  const most = Math.min(ask.k, block.k);
  // The router does not know how many rows a condition leaves, so only a question without conditions has a
  // minimum.
  const least = isFree(ask) ? Math.min(ask.k, rowsOf(table, partitions)) : 0;
  const wrong = counts.find((count) => count < least || count > most);
  if (wrong !== undefined) return `${wrong} candidates instead of ${least} to ${most}`;
  const misplaced = rowFault(block, { table, partitions });
  if (misplaced !== undefined) return misplaced;
  return (
    attributesFault(answer, ask) ??
    vectorsFault(answer, ask, table) ??
    (ask.rowsOnly ? undefined : idsFault(ids, { table, counts }))
  );
}

/**
 * What is wrong with the rows `[candidates, dim]` of another table that came with an answer; `undefined` for `dim`
 * where none were asked for. A worker may always leave them out.
 */
export function itemRowsFault(answer: WorkerAnswer, dim: number | undefined): string | undefined {
  if (answer.kind !== "topK" || answer.itemRows === undefined) return undefined;
  const { length } = answer.itemRows;
  if (dim === undefined) return `${length} values of rows that nobody asked for`;
  const candidates = answer.block.counts.reduce((sum, count) => sum + count, 0);
  if (length === candidates * dim) return undefined;
  return `${length} values of rows of ${dim} for ${candidates} candidates`;
}

/** Whether a question has no conditions. */
function isFree({ excluded, filters = [], included = [] }: TopKAsk): boolean {
  return excluded.length + filters.length + included.length === 0;
}

function attributesFault(
  { block, attributes, laterVectors }: Extract<WorkerAnswer, { kind: "topK" }>,
  ask: TopKAsk,
): string | undefined {
  const candidates = block.counts.reduce((sum, count) => sum + count, 0);
  const areWanted = (ask.attributes ?? []).length > 0 && !(ask.vectorsLater && laterVectors);
  const wanted = areWanted ? candidates : 0;
  const given = attributes?.length ?? 0;
  return given === wanted ? undefined : `attributes of ${given} candidates instead of ${wanted}`;
}

/** Vectors of items have the length of those of the table: nobody else knows of a row that is too short. */
function vectorsFault(
  { attributes, vectorBytes }: Extract<WorkerAnswer, { kind: "topK" }>,
  ask: TopKAsk,
  table: CandidateTable,
): string | undefined {
  if (!ask.vectorBytes || !ask.ownVectors || attributes === undefined) return undefined;
  const wanted = vectorDimOf(table);
  try {
    const cells = vectorBytes ? attributes : cellsOfTexts(attributes);
    const dim = otherDim(cells, wanted);
    return dim === undefined ? undefined : `a vector of ${dim} values instead of ${wanted}`;
  } catch (error) {
    return toWinnowError(error).message;
  }
}

/** The first length of vectors in cells that is not `dim`. */
function otherDim(cells: StringColumn, dim: number): number | undefined {
  for (let at = 0; at < cells.length; at += 1) {
    const given = cellPartsAt(cells, at)?.dim ?? 0;
    if (given !== dim) return given;
  }
  return undefined;
}

/**
 * What is wrong with the rows `[candidates, rowDim]` and vectors that come behind an answer, once they have come;
 * `undefined` if nothing is. A worker may always fail to bring them.
 */
export async function laterFault(
  { block, laterItemRows, laterVectors }: Extract<WorkerAnswer, { kind: "topK" }>,
  table: CandidateTable,
  rowDim: number,
): Promise<string | undefined> {
  const candidates = block.counts.reduce((sum, count) => sum + count, 0);
  const [rows, vectors] = await Promise.all([laterItemRows, laterVectors]);
  const faultOf = (values: Float32Array | undefined, dim: number): string | undefined =>
    values === undefined || values.length === candidates * dim
      ? undefined
      : `${values.length} values later, of ${dim} for each of ${candidates} candidates`;
  return faultOf(rows, rowDim) ?? faultOf(vectors, vectorDimOf(table));
}

/** The first row that was not asked for, or is out of order. */
function rowFault(block: TopKBlock, { table, partitions }: SearchedRows): string | undefined {
  const isAsked = new Uint8Array(table.partitions);
  for (const partition of partitions) isAsked[partition] = 1;
  const areAllAsked = !isAsked.includes(0);
  const { queries, k, counts, scores, rows } = block;
  const tableRows = table.rows;
  const isElsewhere = (row: number): boolean => isAsked[partitionHolding(row, table)] === 0;
  for (let query = 0; query < queries; query += 1) {
    const start = query * k;
    const end = start + counts[query]!;
    for (let at = start; at < end; at += 1) {
      const row = rows[at]!;
      if (row >= tableRows || (!areAllAsked && isElsewhere(row))) {
        return `row ${row}, which is in none of the partitions asked`;
      }
      if (at === start || scores[at - 1]! > scores[at]!) continue;
      if (isOutOfOrder(block, at)) return `row ${row} out of order`;
    }
  }
  return undefined;
}

/** Whether a candidate must not follow the one before it, whose score is not higher. */
function isOutOfOrder({ scores, rows }: TopKBlock, at: number): boolean {
  const before = { score: scores[at - 1]!, row: rows[at - 1]! };
  return compareCandidates(before, { score: scores[at]!, row: rows[at]! }) >= 0;
}

function idsFault(
  ids: Tensor | undefined,
  { table, counts }: { readonly table: CandidateTable; readonly counts: Uint32Array },
): string | undefined {
  const candidates = counts.reduce((sum, count) => sum + count, 0);
  if (ids?.dtype === table.idDtype && ids?.data.length === candidates) return undefined;
  return `${ids?.data.length ?? 0} ${ids?.dtype ?? ""} ids for ${candidates} candidates`;
}

function rowsOf(table: CandidateTable, partitions: readonly number[]): number {
  return partitions.reduce((sum, partition) => {
    const { firstRow, endRow } = rowRangeOf(partition, table);
    return sum + endRow - firstRow;
  }, 0);
}
