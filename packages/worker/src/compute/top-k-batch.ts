// One batch of TopK asks inside the compute thread: exclude, scan once for all, cut the block into
// the answer of each ask, and decode the ids of winners alone.

import type { Accelerator } from "@winnow/accelerator";
import { WinnowError } from "@winnow/core";
import type { Tensor, TopKBlock } from "@winnow/core";

import type { PackedKeys, TopKBatch, TopKPart } from "./compute.ts";
import { excludedRowsOf } from "./exclusion.ts";
import type { ExclusionIndexes } from "./exclusion.ts";
import type { ResidentPartition, ResidentTable } from "./resident-table.ts";

/** What answering needs. */
export interface TopKParts {
  readonly accelerator: Accelerator;
  readonly table: ResidentTable;
  readonly indexes: ExclusionIndexes;
}

/** Answers every ask of a batch. @throws WinnowError INVALID_ARGUMENT, FAILED_PRECONDITION */
export async function answerTopK(
  { accelerator, table, indexes }: TopKParts,
  batch: TopKBatch,
  signal: AbortSignal,
): Promise<TopKPart[]> {
  const partitions = Array.from(batch.target.partitions, (partition) => table.at(partition));
  const queries = batch.asks.reduce((sum, ask) => sum + ask.queries, 0);
  if (table.spec.kind !== "candidate" || batch.vectors.length !== queries * table.spec.dim) {
    throw new WinnowError(
      "INVALID_ARGUMENT",
      `Table "${table.spec.name}" (${table.spec.kind}) cannot be searched with ${queries} vectors ` +
        `of ${batch.vectors.length / Math.max(1, queries)} values; it has dim ${table.spec.dim}`,
    );
  }
  const rows = partitions.reduce((sum, { resident }) => sum + resident.rows, 0);
  const k = Math.min(Math.max(1, rows), Math.max(...batch.asks.map((ask) => ask.k)));
  const block = await accelerator.topK(
    {
      residents: partitions.map(({ resident }) => resident),
      vectors: batch.vectors,
      k,
      excludedRows: excludedRowsOf(batch.asks, partitions, indexes),
    },
    signal,
  );
  let firstQuery = 0;
  return batch.asks.map((ask) => {
    const cut = cutBlock(block, { firstQuery, queries: ask.queries, k: ask.k });
    firstQuery += ask.queries;
    return { block: cut, ids: ask.rowsOnly ? undefined : idsOf(cut, partitions) };
  });
}

/** Some queries of a block, each with at most `k` candidates, in arrays of their own. */
function cutBlock(
  block: TopKBlock,
  cut: { readonly firstQuery: number; readonly queries: number; readonly k: number },
): TopKBlock {
  const k = Math.min(cut.k, block.k);
  const scores = new Float32Array(cut.queries * k);
  const rows = new Uint32Array(cut.queries * k);
  const counts = new Uint32Array(cut.queries);
  for (let query = 0; query < cut.queries; query += 1) {
    const from = (cut.firstQuery + query) * block.k;
    counts[query] = Math.min(k, block.counts[cut.firstQuery + query]!);
    scores.set(block.scores.subarray(from, from + counts[query]!), query * k);
    rows.set(block.rows.subarray(from, from + counts[query]!), query * k);
  }
  return { queries: cut.queries, k, counts, scores, rows };
}

/** Ids of the filled positions, query after query; `undefined` for a table that stores none. */
function idsOf(block: TopKBlock, partitions: readonly ResidentPartition[]): PackedKeys | undefined {
  const dtype = partitions.find(({ ids }) => ids !== undefined)?.ids?.dtype;
  if (dtype === undefined) return undefined;
  const winners = winnersOf(block, partitions);
  if (dtype === "string") return { dtype, strings: packWinners(winners) };
  const values = winners.map(({ ids, row }) => (ids.data as ArrayLike<number | bigint>)[row]);
  return dtype === "int32"
    ? { dtype, values: Int32Array.from(values as number[]) }
    : { dtype: "int64", values: BigInt64Array.from(values as bigint[]) };
}

interface Winner {
  readonly ids: Tensor;
  /** Local row. */
  readonly row: number;
}

function winnersOf(block: TopKBlock, partitions: readonly ResidentPartition[]): Winner[] {
  const ascending = partitions.toSorted((a, b) => a.resident.firstRow - b.resident.firstRow);
  const winners: Winner[] = [];
  for (let query = 0; query < block.queries; query += 1) {
    const end = query * block.k + block.counts[query]!;
    for (let position = query * block.k; position < end; position += 1) {
      const { ids, resident } = partitionOfRow(ascending, block.rows[position]!);
      if (ids === undefined) throw new RangeError("a partition of a table with ids lacks them");
      winners.push({ ids, row: block.rows[position]! - resident.firstRow });
    }
  }
  return winners;
}

/** The last partition that begins at or before this row. */
function partitionOfRow(ascending: readonly ResidentPartition[], row: number): ResidentPartition {
  let low = 0;
  let high = ascending.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ascending[middle]!.resident.firstRow <= row) low = middle;
    else high = middle - 1;
  }
  return ascending[low]!;
}

function packWinners(winners: readonly Winner[]): { offsets: Uint32Array; bytes: Uint8Array } {
  const offsets = new Uint32Array(winners.length + 1);
  const columns = winners.map(({ ids }) => {
    if (ids.dtype !== "string") throw new RangeError(`string ids expected, not ${ids.dtype}`);
    return ids.data;
  });
  for (const [index, { row }] of winners.entries()) {
    const column = columns[index]!;
    offsets[index + 1] = offsets[index]! + column.offsets[row + 1]! - column.offsets[row]!;
  }
  const bytes = new Uint8Array(offsets[winners.length]!);
  for (const [index, { row }] of winners.entries()) {
    bytes.set(columns[index]!.at(row), offsets[index]);
  }
  return { offsets, bytes };
}
