// One batch of TopK asks in the compute thread: applies exclusions and filters, scans once for all asks, and
// looks up ids and attributes of the winners alone. The result stays one block, which `scan-answers.ts` cuts
// into the answers of the asks.

import type { Accelerator } from "@winnow/accelerator";
import {
  StringColumn,
  VECTOR_ATTRIBUTE,
  WinnowError,
  isSumsAttribute,
  nextLoopTurn,
  vectorCells,
} from "@winnow/core";
import type { TopKBlock } from "@winnow/core";

import { batchFilters } from "../filters/batch-filters.ts";
import { searchAdmitted } from "../filters/admitted-search.ts";
import type { PackedStrings, ScanAsk, TopKBatch, TopKScan } from "../compute.ts";
import { excludedRowsOf } from "../filters/exclusion.ts";
import type { ExclusionIndexes } from "../filters/exclusion.ts";
import type { FilterCache } from "../filters/filter-cache.ts";
import type { ResidentPartition, ResidentTable } from "../resident-table.ts";
import { countOf, wantedRows } from "./scan-answers.ts";
import { sumsOfQueries } from "./score-sums.ts";
import { attributesOfRows } from "./winner-attributes.ts";
import { vectorsOfRows } from "./winner-vectors.ts";
import { idsOfRows } from "./winner-ids.ts";

/** The device, rows and caches that a batch uses. */
export interface TopKParts {
  readonly accelerator: Accelerator;
  readonly table: ResidentTable;
  readonly indexes: ExclusionIndexes;
  readonly filters: FilterCache;
  /** Called between two pieces of long work. */
  readonly onStep: () => void;
}

/** Answers every ask of a batch. @throws WinnowError INVALID_ARGUMENT, FAILED_PRECONDITION */
export async function answerTopK(
  { accelerator, table, indexes, filters, onStep }: TopKParts,
  batch: TopKBatch,
  signal: AbortSignal,
): Promise<Pick<TopKScan, "block" | "ids" | "attributes">> {
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
  const excludedRows = excludedRowsOf(batch.asks, partitions, indexes);
  const ofBatch = batchFilters(batch.asks, { device: accelerator, filters, indexes, partitions });
  const residents = partitions.map(({ resident }) => resident);
  const search = { residents, vectors: batch.vectors, k, excludedRows };
  const asked = { search, admitted: ofBatch.ofQueries };
  const searching = searchAdmitted(accelerator, asked, signal);
  ofBatch.release();
  const block = await searching;
  const ids = idsOfRows(wantedRows(block, batch.asks), partitions);
  const attributes = await wantedAttributes(
    { block, partitions, onStep, accelerator, table, vectors: batch.vectors, signal },
    batch.asks,
  );
  return { block, ids, attributes };
}

/** Bytes of attributes that are written before other work may run. */
const PIECE_BYTES = 2 ** 19;

/**
 * The attributes of the candidates of each ask that names any, query after query, at most its k. They may
 * take megabytes, so they are written in pieces.
 */
async function wantedAttributes(
  {
    block,
    partitions,
    onStep,
    vectors: queryVectors,
    signal,
    ...source
  }: Pick<TopKParts, "onStep" | "accelerator" | "table"> & {
    readonly block: TopKBlock;
    readonly partitions: readonly ResidentPartition[];
    /** The vectors of all queries of the batch. */
    readonly vectors: Float32Array;
    readonly signal: AbortSignal;
  },
  asks: readonly ScanAsk[],
): Promise<PackedStrings | undefined> {
  if (asks.every(({ attributes = [] }) => attributes.length === 0)) return undefined;
  const columns: StringColumn[] = [];
  const pauseAfter = pausesOf(onStep);
  let query = 0;
  const { dim } = source.table.spec;
  for (const { queries, k, attributes = [], filters, vectorBytes, ownVectors } of asks) {
    const sumsName = attributes.find(isSumsAttribute);
    if (sumsName !== undefined) {
      const own = queryVectors.subarray(query * dim, (query + queries) * dim);
      const ask = { vectors: own, name: sumsName, filters };
      const sums = await sumsOfQueries(ask, partitions, { ...source, onStep, signal });
      for (const [at, sum] of sums.entries()) {
        const count = countOf(block, query + at, k);
        columns.push(StringColumn.fromBytes(Array.from({ length: count }, () => sum)));
      }
      query += queries;
      continue;
    }
    for (const end = query + queries; query < end; query += 1) {
      if (attributes.length === 0) continue;
      const from = query * block.k;
      const rows = block.rows.subarray(from, from + countOf(block, query, k));
      const vectors = attributes.includes(VECTOR_ATTRIBUTE)
        ? await vectorsOfRows(rows, partitions, { ...source, ownVectors })
        : undefined;
      const described = { partitions, vectors, vectorBytes };
      columns.push(await describedRows(rows, attributes, { ...described, pauseAfter }));
    }
  }
  const [only] = columns;
  const joined = columns.length === 1 && only ? only : StringColumn.joined(columns);
  return { offsets: joined.offsets, bytes: joined.bytes };
}

/** What is described about some rows: of vectors alone at once, of other attributes text by text. */
async function describedRows(
  rows: Uint32Array,
  names: readonly string[],
  {
    pauseAfter,
    ...described
  }: Parameters<typeof attributesOfRows>[2] & { readonly pauseAfter: PauseAfter },
): Promise<StringColumn> {
  const { vectors, vectorBytes } = described;
  if (vectors !== undefined && vectorBytes && names.length === 1) {
    const cells = vectorCells(vectors, rows.length);
    await pauseAfter(cells.byteLength);
    return cells;
  }
  const texts: Uint8Array[] = [];
  for (const text of attributesOfRows(rows, names, described)) {
    texts.push(text);
    const pause = pauseAfter(text.length);
    if (pause !== undefined) await pause;
  }
  return StringColumn.fromBytes(texts);
}

/** Lets other work run where so many bytes complete a piece. */
type PauseAfter = (bytes: number) => Promise<void> | undefined;

function pausesOf(onStep: () => void): PauseAfter {
  let written = 0;
  return (bytes) => {
    written += bytes;
    if (written < PIECE_BYTES) return undefined;
    written = 0;
    onStep();
    return nextLoopTurn();
  };
}
