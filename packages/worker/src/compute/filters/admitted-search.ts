// One search for the queries of a batch, whichever rows they may return: those whose filter is copied go over
// its copies, filter by filter, all others over the partitions themselves.

import type { Accelerator } from "@winnow/accelerator";
import type { TopKBlock } from "@winnow/core";

import { copyRowsOf, tableRow } from "./admitted-copy.ts";
import type { AdmittedCopy } from "./admitted-copy.ts";
import type { Admitted } from "./admission.ts";
import type { ResidentPartition } from "../resident-table.ts";

/** A batch that is searched. */
export interface AdmittedSearch {
  readonly accelerator: Pick<Accelerator, "topK">;
  readonly partitions: readonly ResidentPartition[];
  readonly dim: number;
  /** `[queries, dim]`. */
  readonly vectors: Float32Array;
  /** At most all rows of the partitions. */
  readonly k: number;
  /** Per query: ascending global rows to leave out. */
  readonly excludedRows: readonly (Uint32Array | undefined)[] | undefined;
  /** Per query: what it may return. */
  readonly admitted: readonly (Admitted | undefined)[] | undefined;
}

/** Searches. All searches have begun when this returns. */
export function searchAdmitted(search: AdmittedSearch, signal: AbortSignal): Promise<TopKBlock> {
  const { accelerator, partitions, vectors, k, excludedRows, admitted } = search;
  const residents = partitions.map(({ resident }) => resident);
  const hasCopies = admitted?.some((each) => each?.copies !== undefined) === true;
  if (hasCopies) return searchGroups(search, signal);
  const filters = admitted?.map((each) => each?.filters);
  return accelerator.topK({ residents, vectors, k, excludedRows, filters }, signal);
}

/** Queries by the copies that they go over; `undefined`: over the partitions. */
type Groups = ReadonlyMap<readonly AdmittedCopy[] | undefined, readonly number[]>;

async function searchGroups(search: AdmittedSearch, signal: AbortSignal): Promise<TopKBlock> {
  const { k, vectors, dim } = search;
  const groups = groupsOf(search);
  const searches = Array.from(groups, async ([copies, queries]) => ({
    copies,
    queries,
    block: await searchGroup(search, { copies, queries }, signal),
  }));
  const found = await Promise.all(searches);
  const queries = vectors.length / dim;
  const whole: TopKBlock = {
    queries,
    k,
    counts: new Uint32Array(queries),
    scores: new Float32Array(queries * k),
    rows: new Uint32Array(queries * k),
  };
  for (const { copies, queries: places, block } of found) {
    for (const [at, query] of places.entries()) putQuery(whole, query, { block, at, copies });
  }
  return whole;
}

function groupsOf({ admitted = [], vectors, dim }: AdmittedSearch): Groups {
  const groups = new Map<readonly AdmittedCopy[] | undefined, number[]>();
  for (let query = 0; query < vectors.length / dim; query += 1) {
    const copies = admitted[query]?.copies;
    const group = groups.get(copies);
    if (group === undefined) groups.set(copies, [query]);
    else group.push(query);
  }
  return groups;
}

interface Group {
  readonly copies: readonly AdmittedCopy[] | undefined;
  readonly queries: readonly number[];
}

function searchGroup(
  { accelerator, partitions, dim, vectors, k, excludedRows, admitted }: AdmittedSearch,
  { copies, queries }: Group,
  signal: AbortSignal,
): Promise<TopKBlock> {
  const own = new Float32Array(queries.length * dim);
  for (const [at, query] of queries.entries()) {
    own.set(vectors.subarray(query * dim, (query + 1) * dim), at * dim);
  }
  const excluded = excludedRows && queries.map((query) => excludedRows[query]);
  if (copies === undefined) {
    const residents = partitions.map(({ resident }) => resident);
    const filters = queries.map((query) => admitted?.[query]?.filters);
    return accelerator.topK(
      { residents, vectors: own, k, excludedRows: excluded, filters },
      signal,
    );
  }
  const rows = copies.reduce((sum, { localRows }) => sum + localRows.length, 0);
  if (rows === 0) return Promise.resolve(emptyBlock(queries.length));
  return accelerator.topK(
    {
      residents: copies.map(({ resident }) => resident),
      vectors: own,
      k: Math.min(k, rows),
      excludedRows: excluded?.map((list) => list && copyRowsOf(list, copies)),
    },
    signal,
  );
}

function emptyBlock(queries: number): TopKBlock {
  const counts = new Uint32Array(queries);
  return { queries, k: 0, counts, scores: new Float32Array(), rows: new Uint32Array() };
}

/** The candidates of one query of a group, as those of the whole batch. */
function putQuery(
  whole: TopKBlock,
  query: number,
  from: {
    readonly block: TopKBlock;
    readonly at: number;
    readonly copies: readonly AdmittedCopy[] | undefined;
  },
): void {
  const { block, at, copies } = from;
  const count = block.counts[at]!;
  const first = at * block.k;
  whole.counts[query] = count;
  whole.scores.set(block.scores.subarray(first, first + count), query * whole.k);
  for (let rank = 0; rank < count; rank += 1) {
    const row = block.rows[first + rank]!;
    whole.rows[query * whole.k + rank] = copies === undefined ? row : rowOf(row, copies);
  }
}

/** The copy of a row is the last that begins at it or before. */
function rowOf(row: number, copies: readonly AdmittedCopy[]): number {
  const copy = copies.findLast(({ resident }) => resident.firstRow <= row);
  if (copy === undefined) throw new RangeError(`row ${row} is of no copy`);
  return tableRow(copy, row);
}
