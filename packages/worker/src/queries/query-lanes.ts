// The lanes on which the queries of all links wait for the device. Checks come before any work and are exact: the version
// must be held with this very content, every partition asked for must be held, sizes must fit (S10).
//
//   query ─▶ check ─▶ filters evaluated, if they are not known ─▶ lane: scans, sums or look-ups ─▶ outcome
//              │                                                   │
//              └─▶ refused                                         └─▶ OVERLOADED, where it is full

import type { ScanCounts, WorkerQuery } from "@winnow/cluster";
import { dueMsOf, isSumsAttribute, withoutStack } from "@winnow/core";
import type { Clock, VersionKey, WinnowError } from "@winnow/core";

import type { Compute, ContentHandle } from "../compute/compute.ts";
import { FilterPreparations } from "./filter-preparation.ts";
import { QueryLane } from "./query-lane.ts";
import type { Outcome } from "./query-lane.ts";
import { QueryRefusal, checkQuery } from "./query-check.ts";
import type { QueryLimits } from "./query-check.ts";
import { runLookups, runTopK } from "./query-batch.ts";
import type { BatchedAnswer, BatchedQuery } from "./query-batch.ts";
import { batchGroupOf } from "./batcher.ts";
import type { HeldVersion } from "../replicas/replica-set.ts";
import { watchedBatch } from "./watched-batch.ts";
import type { WorkerObserver } from "../worker-observer.ts";

/** Bounds of the queues, in addition to the bounds of one query. */
export interface AnswerLimits extends QueryLimits {
  readonly queueRowsMax: number;
  readonly batchRowsMax: number;
  readonly scansInFlightMax: number;
  readonly companyMsMax: number;
  readonly lookupsInFlightMax: number;
}

/** What the lanes need. */
export interface LaneDependencies {
  readonly clock: Clock;
  readonly compute: Compute;
  /** The held content with exactly this version and fingerprint. */
  readonly find: (key: VersionKey) => HeldVersion | undefined;
  readonly observer?: WorkerObserver | undefined;
}

/** One full batch is sent ahead, so that its scan begins as soon as the previous scan ends. */
const SCANS_AHEAD_MAX = 1;

/** Batches of sums under way. One keeps the compute thread busy; it works in pieces, between which scans run. */
const SUMS_IN_FLIGHT_MAX = 1;

type Lane = QueryLane<BatchedQuery, BatchedAnswer>;

/** A query that waits or is under way. */
export interface TakenQuery {
  /** Starts what may run, once nothing more is to wait with this query. */
  readonly pump: () => void;
  /** Forgets the query, whose outcome nobody waits for any more. */
  readonly cancel: () => void;
}

/** Takes queries to the device, each to one outcome. */
export class QueryLanes {
  readonly #dependencies: LaneDependencies;
  readonly #limits: AnswerLimits;
  readonly #scans: Lane;
  /** Searches that need sums over all rows, which take a hundred times as long as a scan. */
  readonly #sums: Lane;
  readonly #lookups: Lane;
  readonly #preparations: FilterPreparations;
  #scanCounts: ScanCounts = { batches: 0, queries: 0 };

  constructor(dependencies: LaneDependencies, limits: AnswerLimits) {
    const { clock, compute, observer } = dependencies;
    this.#dependencies = dependencies;
    this.#limits = limits;
    const { queueRowsMax, batchRowsMax } = limits;
    this.#preparations = new FilterPreparations(queueRowsMax);
    const scan = (batch: readonly BatchedQuery[], signal: AbortSignal) => {
      const { batches, queries } = this.#scanCounts;
      const more = batch.reduce((sum, { rows }) => sum + rows, 0);
      this.#scanCounts = { batches: batches + 1, queries: queries + more };
      return this.#watched(batch, () => runTopK(compute, batch, signal));
    };
    const gather = (batch: readonly BatchedQuery[]) =>
      this.#watched(batch, () => runLookups(compute, batch));
    this.#scans = new QueryLane(clock, scan, {
      queueRowsMax,
      batchRowsMax,
      inFlightMax: limits.scansInFlightMax,
      aheadMax: SCANS_AHEAD_MAX,
      companyMsMax: limits.companyMsMax,
      onWaited: (wait) => observer?.companyWaited(wait),
    });
    this.#sums = new QueryLane(clock, scan, {
      queueRowsMax,
      batchRowsMax,
      inFlightMax: SUMS_IN_FLIGHT_MAX,
      aheadMax: 0,
      companyMsMax: 0,
    });
    this.#lookups = new QueryLane(clock, gather, {
      queueRowsMax: limits.lookupKeysMax,
      batchRowsMax: limits.lookupKeysMax,
      inFlightMax: limits.lookupsInFlightMax,
      aheadMax: 0,
      companyMsMax: 0,
    });
  }

  /** Rows and keys that wait for the device. */
  get queueRows(): number {
    return this.#lanes.reduce((rows, lane) => rows + lane.queueRows, this.#preparations.rows);
  }

  /** Scans begun so far. */
  get scanCounts(): ScanCounts {
    return this.#scanCounts;
  }

  /** Whether any query waits or is being computed. */
  get isBusy(): boolean {
    return this.#preparations.rows > 0 || this.#lanes.some((lane) => lane.isBusy);
  }

  get #lanes(): readonly Lane[] {
    return [this.#scans, this.#sums, this.#lookups];
  }

  /** Checks a query and queues it, or ends it with the reason. */
  take(query: WorkerQuery, end: (outcome: Outcome<BatchedAnswer>) => void): TakenQuery | undefined {
    const checked = checkQuery(query, this.#dependencies.find(query.version), this.#limits);
    if (checked instanceof QueryRefusal) {
      end({ kind: "failed", error: checked });
      return undefined;
    }
    const { handle } = checked;
    const lane = this.#laneOf(query.ask);
    const rows = rowsOf(query);
    const arrivedMs = this.#dependencies.clock.nowMs();
    const deadlineMs = arrivedMs + query.remainingMs;
    const dueMs = dueMsOf({ arrivedMs, rows, deadlineMs });
    const group = groupOf(query, handle);
    const queuedMs = arrivedMs;
    const batched = { query, handle, group, rows, deadlineMs, dueMs, queuedMs, end };
    const prepared = this.#prepare(batched, lane);
    if (prepared === "waits" || (prepared === "ready" && lane.offer(batched))) {
      return { pump: () => lane.pump(), cancel: () => this.#cancel(batched, lane) };
    }
    end({ kind: "failed", error: overloaded(this.queueRows) });
    return undefined;
  }

  /** Starts what may run. To be called once all queries of a frame were taken. */
  pump(): void {
    for (const lane of this.#lanes) lane.pump();
  }

  /** Fails every waiting query, because the compute side has ended. */
  fail(error: WinnowError): void {
    for (const lane of this.#lanes) lane.fail(error);
  }

  #cancel(query: BatchedQuery, lane: Lane): void {
    this.#preparations.forget(query);
    lane.cancel(query);
  }

  #laneOf(ask: WorkerQuery["ask"]): Lane {
    if (ask.kind === "lookup") return this.#lookups;
    return ask.attributes?.some(isSumsAttribute) === true ? this.#sums : this.#scans;
  }

  /** Evaluates filters that may not be known, before the query waits for the device. */
  #prepare(batched: BatchedQuery, lane: Lane): "waits" | "refused" | "ready" {
    const { query, handle, rows, end } = batched;
    const { ask, table, partitions } = query;
    if (ask.kind !== "topK" || ask.filters === undefined) return "ready";
    const { compute } = this.#dependencies;
    return this.#preparations.take(batched, {
      scope: `${handle}/${table}/${partitions.join()}`,
      texts: ask.filters,
      rows,
      prepare: (texts, signal) =>
        compute.prepareFilters({ handle, table, partitions: partitions.slice() }, texts, signal),
      onReady: () => {
        if (lane.offer(batched)) lane.pump();
        else end({ kind: "failed", error: overloaded(this.queueRows) });
      },
      onFailure: (error) => end({ kind: "failed", error }),
    });
  }

  #watched(
    batch: readonly BatchedQuery[],
    run: () => Promise<readonly BatchedAnswer[]>,
  ): Promise<readonly BatchedAnswer[]> {
    const { observer, find } = this.#dependencies;
    const version = batch[0]?.query.version;
    const held = observer === undefined || version === undefined ? undefined : find(version);
    return watchedBatch(batch, { observer, held }, run);
  }
}

/** Queries of one group can share a scan (or a gather). */
function groupOf({ table, partitions, ask }: WorkerQuery, handle: ContentHandle): string {
  const name = `${handle}/${table}`;
  if (ask.kind === "lookup") return name;
  return batchGroupOf(`${name}/${partitions.join()}`, ask.k);
}

function rowsOf({ ask }: WorkerQuery): number {
  return Math.max(1, ask.kind === "topK" ? ask.queries : ask.keys.data.length);
}

function overloaded(queueRows: number): QueryRefusal {
  const message = `The worker's queue is full: ${queueRows} rows wait; ask another replica or later`;
  return withoutStack(() => new QueryRefusal("OVERLOADED", { code: "UNAVAILABLE", message }));
}
