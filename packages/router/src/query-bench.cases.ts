// Everything a search or lookup needs, with pretended workers at the other end of the wire and the
// dumb twin beside it.

import type { Tensor, TopKAnswer, TopKStep } from "@winnow/core";
import { ManualClock, silentLogger, tensor } from "@winnow/core";
import { AttemptBudget } from "./admission/attempt-budget.ts";
import type { FakeData } from "./fake-cluster.cases.ts";
import { fakeData, FakeWorker, idOf, search, version } from "./fake-cluster.cases.ts";
import { queryLookup } from "./program/lookup-query.ts";
import type { RouterObserver } from "./router-observer.ts";
import type { RouterOptions } from "./router-settings.ts";
import { resolveRouterOptions } from "./router-settings.ts";
import { Routing } from "./versions/routing.ts";
import type { RequestScope, TableQueryParts } from "./scatter/table-query.ts";
import { createTraffic } from "./admission/traffic.ts";
import { queryTopK } from "./program/top-k-query.ts";
import { WorkerPeer } from "./workers/worker-peer.ts";

const step: TopKStep = {
  kind: "topK",
  table: 1,
  node: "TopKV2",
  query: 0,
  k: 10,
  capped: false,
  scores: 1,
  rows: 2,
  ids: 3,
};

/** What a test says of its cluster. */
export interface QueryBenchWords {
  /** Held partitions by worker. */
  readonly held: readonly (readonly number[])[];
  readonly rows?: number;
  readonly partitions?: number;
  readonly settings?: RouterOptions;
  readonly seed?: number;
  readonly observer?: RouterObserver;
}

/** Everything a query needs, with fakes at the other end of the wire. */
export class QueryBench {
  readonly clock = new ManualClock();
  readonly data: FakeData;
  readonly workers: FakeWorker[];
  readonly peers = new Map<WorkerPeer["id"], WorkerPeer>();
  readonly routing: Routing;
  readonly parts: TableQueryParts;
  readonly #random: () => number;

  constructor(words: QueryBenchWords) {
    this.#random = generator(words.seed ?? 1);
    const { rows = 40, partitions = 4 } = words;
    this.data = fakeData({ rows, dim: 3, partitions }, this.#random);
    const environment = { clock: this.clock, random: this.#random, log: silentLogger };
    const settings = resolveRouterOptions({ hedge: false, ...words.settings });
    this.workers = words.held.map(
      (held, index) => new FakeWorker(this.clock, this.data, { id: `w${index}`, held }),
    );
    for (const worker of this.workers) {
      const peer = new WorkerPeer({ id: worker.id, environment, settings });
      peer.attach(worker);
      peer.onAnnouncement(worker.announcement());
      this.peers.set(peer.id, peer);
    }
    this.routing = new Routing({
      environment,
      settings,
      announcements: () => this.workers.flatMap((worker) => this.#wordOf(worker)),
      members: () => [],
      tables: () => new Map([[version.fingerprint, [this.data.keyed, this.data.candidates]]]),
      warming: () => new Set(),
      onTable: () => undefined,
    });
    this.parts = {
      environment,
      settings,
      peers: this.peers,
      budget: new AttemptBudget(this.clock, settings),
      observer: words.observer ?? {},
      tables: this.routing,
      turnstile: createTraffic(this.clock, settings).turnstile,
    };
  }

  #wordOf(worker: FakeWorker): ReturnType<FakeWorker["announcement"]>[] {
    const peer = this.peers.get(worker.id);
    return peer?.askable === true ? [worker.announcement()] : [];
  }

  /** A worker dies; the router hears of it and rebuilds its table soon. */
  kill(worker: FakeWorker): void {
    worker.kill();
    this.peers.get(worker.id)!.onDisconnect();
    this.routing.invalidate();
  }

  /** A worker (re)announces what it holds. */
  announce(worker: FakeWorker): void {
    worker.state = "open";
    this.peers.get(worker.id)!.onAnnouncement(worker.announcement());
    this.routing.invalidate();
  }

  scope(more: Partial<RequestScope> = {}): RequestScope {
    return {
      version,
      deadlineMs: this.clock.nowMs() + 10_000,
      allowPartial: false,
      turnMs: this.clock.nowMs(),
      answered: () => undefined,
      lostWorkers: new Set(),
      table: this.routing.table,
      partitionsAsked: 0,
      partitionsAnswered: 0,
      ...more,
    };
  }

  vectors(queries: number): Float32Array {
    return Float32Array.from({ length: queries * 3 }, () => Math.floor(this.#random() * 7) - 3);
  }

  search(
    ask: { vectors: Float32Array; k: number; exclude?: readonly Tensor[] },
    scope: RequestScope = this.scope(),
    signal: AbortSignal = new AbortController().signal,
  ): Promise<TopKAnswer> {
    const { vectors, k, exclude = [] } = ask;
    return queryTopK(
      this.parts,
      { step, table: this.data.candidates, vectors, k, exclude, signal },
      scope,
    );
  }

  lookup(keys: Tensor, signal: AbortSignal = new AbortController().signal): Promise<Tensor> {
    return queryLookup(
      this.parts,
      { tableNumber: 0, table: this.data.keyed, keys, signal },
      this.scope(),
    );
  }

  /** The rows of these keys, one after the other. */
  rowsOf(keys: readonly number[]): Float32Array {
    const rows = new Float32Array(keys.length * 3);
    for (const [index, key] of keys.entries()) {
      rows.set(this.data.keyedRows.subarray(key * 3, key * 3 + 3), index * 3);
    }
    return rows;
  }

  /** The dumb twin: the whole table, sorted and cut. */
  expected(
    vectors: Float32Array,
    k: number,
    excluded: readonly Tensor[] = [],
  ): { scores: number[]; rows: number[]; ids: string[] } {
    const all = this.data.candidates.partitions;
    const ask = { k, queries: vectors.length / 3, vectors, excluded };
    const { block } = search(
      this.data,
      ask,
      Array.from({ length: all }, (_, index) => index),
    );
    const rows = [...block.rows];
    return { scores: [...block.scores], rows, ids: rows.map(idOf) };
  }

  /** What each query gets when it is asked alone. */
  expectedLists(
    vectors: Float32Array,
    k: number,
    exclude: readonly Tensor[],
  ): ReturnType<typeof plain>[] {
    return exclude.map((list, query) => {
      const alone = this.expected(vectors.subarray(query * 3, query * 3 + 3), k, [list]);
      const count = Math.min(k, this.data.candidates.rows - list.data.length);
      return {
        scores: alone.scores.slice(0, count),
        rows: alone.rows.slice(0, count),
        ids: alone.ids.slice(0, count),
      };
    });
  }

  /** Lets `promise` settle, moving time as far as needed. */
  async settle<Result>(promise: Promise<Result>, durationMs = 20_000): Promise<Result> {
    const outcome = promise.then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    const state = { isSettled: false };
    void outcome.then(() => (state.isSettled = true));
    for (let passed = 0; passed < durationMs && !state.isSettled; passed += 10) {
      await this.clock.advanceSettled(10);
    }
    if (!state.isSettled) throw new Error(`still pending after ${durationMs} ms`);
    const result = await outcome;
    if ("error" in result) throw result.error;
    return result.value;
  }

  get pending(): number {
    return this.workers.reduce((sum, worker) => sum + worker.pending, 0);
  }
}

/** A small seeded generator (mulberry32). */
export function generator(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** An answer as plain lists. */
export function plain(answer: TopKAnswer): { scores: number[]; rows: number[]; ids: string[] } {
  const ids = answer.ids?.dtype === "string" ? answer.ids.data.toText() : [];
  const scores = answer.scores?.dtype === "float32" ? [...answer.scores.data] : [];
  const rows = answer.rows?.dtype === "int32" ? [...answer.rows.data] : [];
  return { scores, rows, ids };
}

/** The list of each query, without the padding behind those that exclusions have shortened. */
export function plainLists(answer: TopKAnswer): ReturnType<typeof plain>[] {
  const { scores, rows, ids } = plain(answer);
  const [queries, columns] = answer.scores!.shape as readonly [number, number];
  return Array.from({ length: queries }, (_, query) => {
    const count = answer.counts?.[query] ?? columns;
    const [from, to] = [query * columns, query * columns + count];
    return {
      scores: scores.slice(from, to),
      rows: rows.slice(from, to),
      ids: ids.slice(from, to),
    };
  });
}

/** Row numbers as keys. */
export const rowKeys = (
  keys: readonly number[],
  shape: readonly number[] = [keys.length],
): Tensor =>
  tensor(
    "int64",
    shape,
    BigInt64Array.from(keys, (key) => BigInt(key)),
  );

/** Three workers, every partition of four twice. */
export const twice = [
  [0, 1, 2],
  [1, 2, 3],
  [0, 3],
];
