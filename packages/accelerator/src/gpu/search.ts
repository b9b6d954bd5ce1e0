// One search from its query to its answer: each query goes the road that its numbers allow, most of
// them in passes over the device, and what returns is put into order on the host.

import type { TopKBlock } from "@winnow/core";
import { CandidateHeap } from "../reference/candidate-heap.ts";
import type { CheckedTopKQuery } from "../top-k-request.ts";
import { encodeQuery } from "./codes.ts";
import type { QueryRoute } from "./codes.ts";
import { exactCandidates, hostBlock } from "./exact-path.ts";
import type { ExactMeans } from "./exact-path.ts";
import type { GpuSearchCost } from "./gpu-settings.ts";
import { passQueries, runPass } from "./search-pass.ts";
import type { PassAnswer } from "./search-pass.ts";
import { maskWords, positionsOf, rowAt, rowTest } from "./search-scope.ts";
import type { SearchScope } from "./search-scope.ts";
import { GROUP_ROWS } from "./shaders/prelude.ts";

/** The largest k of the fast path; beyond it all rows are scored. */
const FILTER_K_MAX = 2048;
const POSITIONS_MAX = 2 ** 32;

/** What a search runs on. */
export interface SearchMeans extends ExactMeans {
  /** Bytes that one search may use beside the rows. */
  readonly scratchBytes: number;
}

/** An answer and how it came about. */
export interface SearchOutcome {
  readonly block: TopKBlock;
  readonly cost: GpuSearchCost;
}

/** Answers a checked query over the rows of `scope`, which has at least one row. */
export async function searchTopK(
  means: SearchMeans,
  { query, scope }: { readonly query: CheckedTopKQuery; readonly scope: SearchScope },
  signal: AbortSignal | undefined,
): Promise<SearchOutcome> {
  const search = new Search(means, query, scope);
  return search.run(signal);
}

class Search {
  readonly #means: SearchMeans;
  readonly #query: CheckedTopKQuery;
  readonly #scope: SearchScope;
  /** `[queries, queryQuads · 4]` */
  readonly #words: Uint32Array;
  readonly #block: TopKBlock;
  #keptGroups = 0;
  #finalists = 0;

  constructor(means: SearchMeans, query: CheckedTopKQuery, scope: SearchScope) {
    const { queries, room } = query;
    this.#means = means;
    this.#query = query;
    this.#scope = scope;
    this.#words = new Uint32Array(queries * scope.layout.queryQuads * 4);
    this.#block = {
      queries,
      k: room,
      counts: new Uint32Array(queries),
      scores: new Float32Array(queries * room),
      rows: new Uint32Array(queries * room),
    };
  }

  async run(signal: AbortSignal | undefined): Promise<SearchOutcome> {
    const routes = this.#encode();
    const exact = await this.#filter(routes.filter, signal);
    exact.push(...routes.exact);
    for (const index of exact) {
      const words = this.#wordsOf(index);
      const mayReturn = rowTest(this.#query, index);
      const { room } = this.#query;
      const asked = { words, room, mayReturn, signal };
      this.#take(index, await exactCandidates(this.#means, this.#scope, asked));
    }
    for (const index of routes.zero) this.#take(index, this.#firstRows(index));
    if (routes.host.length > 0) await this.#host(routes.host, signal);
    const cost = {
      queries: this.#query.queries,
      filteredQueries: routes.filter.length + routes.exact.length - exact.length,
      exactQueries: exact.length,
      hostQueries: routes.host.length,
      keptGroups: this.#keptGroups,
      finalists: this.#finalists,
      stageNs: this.#means.scratch.timer?.take(),
    };
    return { block: this.#block, cost };
  }

  #wordsOf(index: number): Uint32Array {
    const length = this.#scope.layout.queryQuads * 4;
    return this.#words.subarray(index * length, (index + 1) * length);
  }

  /** Encodes all queries and sorts them by their road. */
  #encode(): Record<QueryRoute, number[]> {
    const routes: Record<QueryRoute, number[]> = { filter: [], exact: [], host: [], zero: [] };
    const { queries, dim, vectors, room } = this.#query;
    const cannotFilter = room > FILTER_K_MAX || this.#scope.slots * GROUP_ROWS > POSITIONS_MAX;
    for (let index = 0; index < queries; index += 1) {
      const vector = vectors.subarray(index * dim, (index + 1) * dim);
      const route = encodeQuery(vector, this.#wordsOf(index), this.#scope);
      routes[route === "filter" && cannotFilter ? "exact" : route].push(index);
    }
    return routes;
  }

  /** Answers these queries in passes; gives those that found no room. */
  async #filter(indices: readonly number[], signal: AbortSignal | undefined): Promise<number[]> {
    const { admittedRows, excludedRows, room } = this.#query;
    const scope = this.#scope;
    if (indices.length === 0) return [];
    const mask = admittedRows === undefined ? undefined : maskWords(scope, admittedRows);
    const exclusions = excludedRows && indices.map((at) => positionsOf(scope, excludedRows[at]));
    const excludedRowsMax = Math.max(0, ...(exclusions ?? []).map((list) => list.length));
    const together = passQueries(
      scope,
      { k: room, excludedRowsMax },
      {
        scratchBytes: this.#means.scratchBytes,
        bufferBytes: this.#means.device.limits.maxStorageBufferBindingSize,
      },
    );
    const left: number[] = [];
    for (let from = 0; from < indices.length; from += together) {
      signal?.throwIfAborted();
      const some = indices.slice(from, from + together);
      const queries = {
        count: some.length,
        words: this.#joined(some),
        k: room,
        exclusions: exclusions?.slice(from, from + together),
        mask,
      };
      const answers = await runPass(this.#means.device, { scope, queries }, this.#means.scratch);
      for (const [position, answer] of answers.entries()) {
        if (!this.#finish(some[position]!, answer)) left.push(some[position]!);
      }
    }
    return left;
  }

  /** The encoded queries one after the other. */
  #joined(indices: readonly number[]): Uint32Array {
    const length = this.#scope.layout.queryQuads * 4;
    const words = new Uint32Array(indices.length * length);
    for (const [at, index] of indices.entries()) words.set(this.#wordsOf(index), at * length);
    return words;
  }

  /** Orders the finalists; false if there was no room for them. */
  #finish(index: number, { candidates, keptGroups, finalists }: PassAnswer): boolean {
    if (candidates === undefined) return false;
    this.#keptGroups += keptGroups;
    this.#finalists += finalists;
    const heap = new CandidateHeap(this.#query.room);
    for (const [place, position] of candidates.positions.entries()) {
      heap.offer(Math.fround(candidates.scores[place]!) + 0, rowAt(this.#scope, position));
    }
    this.#take(index, heap);
    return true;
  }

  /** What a query of zeros gets: every score is 0, so the first rows that may be returned. */
  #firstRows(index: number): CandidateHeap {
    const heap = new CandidateHeap(this.#query.room);
    const mayReturn = rowTest(this.#query, index);
    for (const { slab } of this.#scope.slabs) {
      for (let row = slab.firstRow; row < slab.firstRow + slab.rows; row += 1) {
        if (heap.threshold === 0) return heap;
        if (mayReturn(row)) heap.offer(0, row);
      }
    }
    return heap;
  }

  async #host(indices: readonly number[], signal: AbortSignal | undefined): Promise<void> {
    const { dim, vectors, excludedRows, room } = this.#query;
    const some = new Float32Array(indices.length * dim);
    for (const [at, index] of indices.entries()) {
      some.set(vectors.subarray(index * dim, (index + 1) * dim), at * dim);
    }
    const query = {
      ...this.#query,
      queries: indices.length,
      vectors: some,
      excludedRows: excludedRows && indices.map((index) => excludedRows[index]),
    };
    const block = await hostBlock(this.#means, this.#scope, { query, signal });
    for (const [at, index] of indices.entries()) {
      const count = block.counts[at]!;
      this.#block.counts[index] = count;
      this.#block.rows.set(block.rows.subarray(at * room, at * room + count), index * room);
      this.#block.scores.set(block.scores.subarray(at * room, at * room + count), index * room);
    }
  }

  #take(index: number, heap: CandidateHeap): void {
    const { room } = this.#query;
    const [from, to] = [index * room, (index + 1) * room];
    this.#block.counts[index] = heap.drainInto({
      scores: this.#block.scores.subarray(from, to),
      rows: this.#block.rows.subarray(from, to),
    });
  }
}
