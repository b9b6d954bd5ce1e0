// One search for the queries of a batch, whichever rows they may return. Queries whose filter has copies
// search those copies, one group per filter; all others search the partitions themselves.

import type { Accelerator, TopKQuery } from "@winnow/accelerator";
import type { TopKBlock } from "@winnow/core";

import { copyRowsOf, tableRow } from "./admitted-copy.ts";
import type { AdmittedCopy } from "./admitted-copy.ts";
import type { QueryFilter } from "./batch-filters.ts";

/** A search of partitions as the device takes it, without filters. */
type Search = Omit<TopKQuery, "filters">;
/** What each query may return. */
type AdmittedOfQueries = readonly (QueryFilter | undefined)[];
type Searching = (search: TopKQuery) => Promise<TopKBlock>;

/**
 * Searches for all queries; `k` is at most the number of rows of the partitions. When this returns, all
 * searches have begun.
 */
export function searchAdmitted(
  accelerator: Pick<Accelerator, "topK">,
  {
    search,
    admitted,
  }: { readonly search: Search; readonly admitted: AdmittedOfQueries | undefined },
  signal: AbortSignal,
): Promise<TopKBlock> {
  const ask: Searching = (query) => accelerator.topK(query, signal);
  if (admitted?.some((each) => each?.copies !== undefined) === true) {
    return searchGroups(search, admitted, ask);
  }
  return ask({ ...search, filters: admitted?.map((each) => each?.filters) });
}

/** Positions of queries, grouped by the copies that they search; `undefined`: the partitions. */
type Groups = ReadonlyMap<readonly AdmittedCopy[] | undefined, readonly number[]>;

async function searchGroups(
  search: Search,
  admitted: AdmittedOfQueries,
  ask: Searching,
): Promise<TopKBlock> {
  const { k } = search;
  const queries = queriesOf(search);
  const groups = groupsOf(admitted, queries);
  const searches = Array.from(groups, async ([copies, places]) => ({
    copies,
    queries: places,
    block: await searchGroup(ask, { search, admitted }, { copies, queries: places }),
  }));
  const found = await Promise.all(searches);
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

function dimOf({ residents }: Search): number {
  return residents[0]!.dim;
}

function queriesOf(search: Search): number {
  return search.vectors.length / dimOf(search);
}

function groupsOf(admitted: AdmittedOfQueries, queries: number): Groups {
  const groups = new Map<readonly AdmittedCopy[] | undefined, number[]>();
  for (let query = 0; query < queries; query += 1) {
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
  ask: Searching,
  { search, admitted }: { readonly search: Search; readonly admitted: AdmittedOfQueries },
  { copies, queries }: Group,
): Promise<TopKBlock> {
  const { residents, vectors, k, excludedRows } = search;
  const dim = dimOf(search);
  const own = new Float32Array(queries.length * dim);
  for (const [at, query] of queries.entries()) {
    own.set(vectors.subarray(query * dim, (query + 1) * dim), at * dim);
  }
  const excluded = excludedRows && queries.map((query) => excludedRows[query]);
  if (copies === undefined) {
    const filters = queries.map((query) => admitted[query]?.filters);
    return ask({ residents, vectors: own, k, excludedRows: excluded, filters });
  }
  const rows = copies.reduce((sum, { localRows }) => sum + localRows.length, 0);
  if (rows === 0) return Promise.resolve(emptyBlock(queries.length));
  return ask({
    residents: copies.map(({ resident }) => resident),
    vectors: own,
    k: Math.min(k, rows),
    excludedRows: excluded?.map((list) => list && copyRowsOf(list, copies)),
  });
}

function emptyBlock(queries: number): TopKBlock {
  const counts = new Uint32Array(queries);
  return { queries, k: 0, counts, scores: new Float32Array(), rows: new Uint32Array() };
}

/** Puts the candidates of one query of a group into the block of the whole batch. */
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

/** The row of the table for a row of a copy. The copy is the last one that begins at or before the row. */
function rowOf(row: number, copies: readonly AdmittedCopy[]): number {
  const copy = copies.findLast(({ resident }) => resident.firstRow <= row);
  if (copy === undefined) throw new RangeError(`row ${row} is of no copy`);
  return tableRow(copy, row);
}
