// One search from its query to its answer: each query takes the route that its magnitudes allow,
// most of them in passes over the device, and the host puts the results together.

import type { TopKBlock } from "@winnow/core";
import { CandidateHeap } from "../../reference/candidate-heap.ts";
import { groupQueries, partOfQueries, placeAnswers } from "../../queries/query-parts.ts";
import { rowTest } from "../../queries/row-admission.ts";
import type { AdmittedTopKQuery, RowSet } from "../../queries/row-admission.ts";
import { CodedQueries } from "../codes.ts";
import type { QueryRoute } from "../codes.ts";
import { exactCandidates, hostBlock } from "./exact-path.ts";
import type { ExactMeans } from "./exact-path.ts";
import type { GpuSearchCost } from "../gpu-settings.ts";
import { passQueries } from "./pass-rooms.ts";
import { runPass } from "./search-pass.ts";
import type { PassAnswer, PassMeans, PassOutcome } from "./search-pass.ts";
import { maskPieces, positionsOf } from "./search-scope.ts";
import type { SearchScope } from "./search-scope.ts";
import { GROUP_ROWS } from "../shaders/prelude.ts";

/** The largest k of the fast path; beyond it all rows are scored. */
const FILTER_K_MAX = 2048;
const POSITIONS_MAX = 2 ** 32;

/** What a search needs. */
type SearchMeans = ExactMeans & PassMeans;

/** An answer and its cost. */
export interface SearchOutcome {
  readonly block: TopKBlock;
  readonly cost: GpuSearchCost;
}

/** Answers a checked query over the rows of `scope`, which has at least one row. */
export async function searchTopK(
  means: SearchMeans,
  { query, scope }: { readonly query: AdmittedTopKQuery; readonly scope: SearchScope },
  signal: AbortSignal | undefined,
): Promise<SearchOutcome> {
  const groups = groupQueries(query.queries, (index) => query.admissions[index]);
  const { queries, room } = query;
  const block = {
    queries,
    k: room,
    counts: new Uint32Array(queries),
    scores: new Float32Array(queries * room),
    rows: new Uint32Array(queries * room),
  };
  const costs: GpuSearchCost[] = [];
  for (const [admission, indices] of groups) {
    // A pass over the device has one mask for all of its queries.
    const part = groups.length === 1 ? query : partOfQueries(query, indices);
    const found = await new Search(means, { query: part, admission }, scope).run(signal);
    if (groups.length === 1) return found;
    placeAnswers(block, found.block, indices);
    costs.push(found.cost);
  }
  return { block, cost: costs.reduce(sumOfCosts) };
}

function sumOfCosts(one: GpuSearchCost, other: GpuSearchCost): GpuSearchCost {
  return {
    queries: one.queries + other.queries,
    filteredQueries: one.filteredQueries + other.filteredQueries,
    exactQueries: one.exactQueries + other.exactQueries,
    hostQueries: one.hostQueries + other.hostQueries,
    keptGroups: one.keptGroups + other.keptGroups,
    scoredRows: one.scoredRows + other.scoredRows,
    matrixQueries: one.matrixQueries + other.matrixQueries,
    dispatches: one.dispatches + other.dispatches,
    readBytes: one.readBytes + other.readBytes,
    stageNs: other.stageNs,
  };
}

/** Queries that may return the same rows, but for their exclusions. */
interface UniformQuery {
  readonly query: AdmittedTopKQuery;
  readonly admission: RowSet | undefined;
}

class Search {
  readonly #means: SearchMeans;
  readonly #query: AdmittedTopKQuery;
  readonly #admission: RowSet | undefined;
  readonly #scope: SearchScope;
  readonly #coded: CodedQueries;
  readonly #block: TopKBlock;
  #keptGroups = 0;
  #scoredRows = 0;
  #matrixQueries = 0;
  #dispatches = 0;
  #readBytes = 0;

  constructor(means: SearchMeans, { query, admission }: UniformQuery, scope: SearchScope) {
    const { queries, room } = query;
    this.#means = means;
    this.#query = query;
    this.#admission = admission;
    this.#scope = scope;
    this.#coded = new CodedQueries(queries, scope);
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
      const words = this.#coded.wordsOf(index);
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
      scoredRows: this.#scoredRows,
      matrixQueries: this.#matrixQueries,
      dispatches: this.#dispatches,
      readBytes: this.#readBytes,
      stageNs: this.#means.scratch.timer?.take(),
    };
    return { block: this.#block, cost };
  }

  /** Encodes all queries and sorts them by their route. */
  #encode(): Record<QueryRoute, number[]> {
    const routes: Record<QueryRoute, number[]> = { filter: [], exact: [], host: [], zero: [] };
    const { queries, vectors, room } = this.#query;
    const cannotFilter = room > FILTER_K_MAX || this.#scope.slots * GROUP_ROWS > POSITIONS_MAX;
    for (let index = 0; index < queries; index += 1) {
      const route = this.#coded.encode(index, vectors);
      routes[route === "filter" && cannotFilter ? "exact" : route].push(index);
    }
    return routes;
  }

  /** Answers these queries in passes; returns those whose possible candidates found no room. */
  async #filter(indices: readonly number[], signal: AbortSignal | undefined): Promise<number[]> {
    if (indices.length === 0) return [];
    const { excludedRows, room } = this.#query;
    const admission = this.#admission;
    const { device, scratch } = this.#means;
    const scope = this.#scope;
    const exclusions = excludedRows && indices.map((at) => positionsOf(scope, excludedRows[at]));
    const shape = {
      k: room,
      excludedRowsMax: exclusions && Math.max(...exclusions.map((list) => list.length)),
      isMasked: admission !== undefined,
    };
    const together = passQueries(scope, shape, {
      scratchBytes: scratch.roomBytes,
      bufferBytes: device.limits.maxStorageBufferBindingSize,
      queries: indices.length,
    });
    if (together === 0) return [...indices];
    const mask = admission === undefined ? undefined : maskPieces(scope, admission);
    const left: number[] = [];
    for (let from = 0; from < indices.length; from += together) {
      signal?.throwIfAborted();
      const some = indices.slice(from, from + together);
      const queries = {
        shape,
        count: some.length,
        words: this.#joined(some),
        exclusions: exclusions?.slice(from, from + together),
        mask,
      };
      const outcome = await runPass(this.#means, { scope, queries });
      if (outcome.isByMatrices) this.#matrixQueries += some.length;
      this.#dispatches += outcome.dispatches;
      this.#readBytes += outcome.readBytes;
      for (const [position, answer] of outcome.answers.entries()) {
        if (!this.#finish(some[position]!, answer, outcome)) left.push(some[position]!);
      }
    }
    return left;
  }

  /** The encoded queries one after the other. */
  #joined(indices: readonly number[]): Uint32Array {
    if (indices.length === this.#query.queries) return this.#coded.words;
    const length = this.#scope.layout.queryQuads * 4;
    const words = new Uint32Array(indices.length * length);
    for (const [at, index] of indices.entries()) words.set(this.#coded.wordsOf(index), at * length);
    return words;
  }

  /** Adds an answer to the block; false if there was no room for all possible candidates. */
  #finish(index: number, answer: PassAnswer, { words, floats }: PassOutcome): boolean {
    const { length, rowsAt, scoresAt } = answer;
    if (length === undefined) return false;
    this.#keptGroups += answer.keptGroups;
    this.#scoredRows += answer.scoredRows;
    const { rows, scores, counts } = this.#block;
    const first = index * this.#query.room;
    for (let place = 0; place < length; place += 1) {
      rows[first + place] = words[rowsAt + place]!;
      scores[first + place] = floats[scoresAt + place]!;
    }
    counts[index] = length;
    return true;
  }

  /** The answer to a query of zeros: every score is 0, so the first rows that may be returned. */
  #firstRows(index: number): CandidateHeap {
    const heap = new CandidateHeap(this.#query.room);
    const mayReturn = rowTest(this.#query, index);
    for (const { extent } of this.#scope.extents) {
      for (let row = extent.firstRow; row < extent.firstRow + extent.rows; row += 1) {
        if (heap.threshold === 0) return heap;
        if (mayReturn(row)) heap.offer(0, row);
      }
    }
    return heap;
  }

  async #host(indices: readonly number[], signal: AbortSignal | undefined): Promise<void> {
    const query = partOfQueries(this.#query, indices);
    const block = await hostBlock(this.#means, this.#scope, { query, signal });
    placeAnswers(this.#block, block, indices);
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
