// One lane to the device: queries wait in a batcher, a bounded number of batches is under way, and every
// query ends exactly once. There are three lanes (scans, sums over all rows, lookups), so that a lookup of a
// few keys never waits behind a scan, nor a scan behind sums.

import { Outstanding, WinnowError, toWinnowError } from "@winnow/core";
import type { Clock, Timer } from "@winnow/core";

import { BatchCompany } from "./batch-company.ts";
import { Batcher } from "./batcher.ts";
import type { Batch, BatchLimits, WaitingQuery } from "./batcher.ts";
import type { CompanyWait } from "../worker-observer.ts";

/** How one query of a batch ended. */
export type Outcome<Answer> =
  | { readonly kind: "answer"; readonly answer: Answer; readonly queueMs: number }
  | { readonly kind: "expired" }
  | { readonly kind: "failed"; readonly error: WinnowError };

/** A query on a lane. */
export interface LaneQuery<Answer> extends WaitingQuery {
  /** When the query was queued, in ms; the lane sets it. */
  queuedMs: number;
  /** Called at most once; not at all after `cancel`. */
  readonly end: (outcome: Outcome<Answer>) => void;
}

/** Does the work of a batch; one answer per query, in order. */
export type RunBatch<Query, Answer> = (
  queries: readonly Query[],
  signal: AbortSignal,
) => Promise<readonly Answer[]>;

/** Bounds of a lane. */
export interface LaneLimits extends BatchLimits {
  /** Batches under way at once. */
  readonly inFlightMax: number;
  /** Full batches that may be sent in addition, to begin as soon as another one ends. */
  readonly aheadMax: number;
  /** Most ms that a batch waits for queries that are likely to come, while the device is idle; 0: none waits. */
  readonly companyMsMax: number;
}

/**
 * Queries as large as a batch are not sent ahead while they take longer than this on the device. Sending them
 * ahead would save a short pause of the device, but small queries would then have to wait for the whole large
 * one.
 */
const AHEAD_MS_MAX = 4;

/** A batch does not wait if one of its queries has less time left than this many times the wait. */
const DEADLINE_TO_WAIT_MIN = 8;

interface RunningBatch<Query> {
  readonly controller: AbortController;
  /** By position in the batch; `undefined` for a query that nobody waits for any more. */
  readonly queries: (Query | undefined)[];
  wanted: number;
}

/** Queries of one kind on their way to the device. */
export class QueryLane<Query extends LaneQuery<Answer>, Answer> {
  readonly #clock: Clock;
  readonly #limits: LaneLimits;
  readonly #runBatch: RunBatch<Query, Answer>;
  readonly #batcher: Batcher<Query>;
  readonly #running = new Outstanding<RunningBatch<Query>>();
  readonly #company: BatchCompany;
  /** Runs while a batch waits for company. */
  #waitTimer: Timer | undefined;
  /** When that batch began to wait, in ms. */
  #waitsSinceMs: number | undefined;
  readonly #onWaited: ((wait: CompanyWait) => void) | undefined;
  #endedMs = Number.NEGATIVE_INFINITY;
  /** Ms that the last query larger than a batch took on the device, as measured here. */
  #largeMs = 0;

  constructor(
    clock: Clock,
    runBatch: RunBatch<Query, Answer>,
    limits: LaneLimits & { readonly onWaited?: (wait: CompanyWait) => void },
  ) {
    this.#clock = clock;
    this.#limits = limits;
    this.#runBatch = runBatch;
    this.#onWaited = limits.onWaited;
    this.#batcher = new Batcher(limits);
    // What fills the queue is not to wait, or the next query would be refused beside an idle device.
    const rowsMax = Math.min(limits.batchRowsMax, limits.queueRowsMax);
    this.#company = new BatchCompany(limits.companyMsMax, rowsMax);
  }

  /** Rows that wait for the device. */
  get queueRows(): number {
    return this.#batcher.rows;
  }

  /** Whether anything waits or runs. */
  get isBusy(): boolean {
    return this.#batcher.length > 0 || this.#running.size > 0;
  }

  /** Queues a query. `false` if the queue is full even after expired queries were dropped. */
  offer(query: Query): boolean {
    const isTaken =
      this.#batcher.offer(query) || (this.#dropExpired() && this.#batcher.offer(query));
    if (!isTaken) return false;
    query.queuedMs = this.#clock.nowMs();
    this.#company.came(query);
    return true;
  }

  /** Starts as many batches as may run. To be called once all queries of a frame were offered. */
  pump(): void {
    this.#stopWaiting();
    for (;;) {
      if (this.#waitsForCompany()) return;
      this.#noteWait();
      const batch = this.#nextBatch();
      if (batch === undefined) return;
      this.#endAll(batch.expired, { kind: "expired" });
      if (batch.queries.length > 0) void this.#run(batch.queries);
    }
  }

  /** Drops a query. A batch whose queries have all been dropped is aborted. */
  cancel(query: Query): void {
    if (this.#batcher.cancel(query)) return;
    for (const running of this.#running) {
      const at = running.queries.indexOf(query);
      if (at < 0) continue;
      running.queries[at] = undefined;
      running.wanted -= 1;
      if (running.wanted === 0) running.controller.abort();
    }
  }

  /** Fails every waiting query, because the device or its thread is lost. */
  fail(error: WinnowError): void {
    this.#stopWaiting();
    this.#waitsSinceMs = undefined;
    this.#endAll(this.#batcher.clear(), { kind: "failed", error });
  }

  /** Whether those that wait should wait for more, although the device is idle. If so, a timer ends it. */
  #waitsForCompany(): boolean {
    const group = this.#running.size === 0 ? this.#batcher.onlyGroup : undefined;
    if (group === undefined) return false;
    const nowMs = this.#clock.nowMs();
    const waitMs = this.#company.waitMs(nowMs, { group, rows: this.#batcher.rows });
    const leftMs = this.#batcher.earliestDeadlineMs - nowMs;
    if (waitMs <= 0 || leftMs < DEADLINE_TO_WAIT_MIN * waitMs) return false;
    this.#waitTimer = this.#clock.setTimer(waitMs, () => this.pump());
    this.#waitsSinceMs ??= nowMs;
    return true;
  }

  #noteWait(): void {
    if (this.#waitsSinceMs === undefined) return;
    const ms = this.#clock.nowMs() - this.#waitsSinceMs;
    this.#waitsSinceMs = undefined;
    this.#onWaited?.({ ms, haveAllCome: this.#company.haveAllCome });
  }

  #stopWaiting(): void {
    if (this.#waitTimer === undefined) return;
    this.#clock.clearTimer(this.#waitTimer);
    this.#waitTimer = undefined;
  }

  #nextBatch(): Batch<Query> | undefined {
    const { inFlightMax, aheadMax } = this.#limits;
    const nowMs = this.#clock.nowMs();
    if (this.#running.size < inFlightMax) return this.#batcher.next(nowMs);
    if (this.#running.size >= inFlightMax + aheadMax) return undefined;
    const isSlow = this.#largeMs > AHEAD_MS_MAX;
    return this.#batcher.nextFull(nowMs, isSlow ? this.#limits.batchRowsMax - 1 : undefined);
  }

  #dropExpired(): boolean {
    const expired = this.#batcher.expire(this.#clock.nowMs());
    this.#endAll(expired, { kind: "expired" });
    return expired.length > 0;
  }

  /** Runs one batch to its end; never rejects. */
  async #run(queries: readonly Query[]): Promise<void> {
    const startedMs = this.#clock.nowMs();
    const controller = new AbortController();
    const running = { controller, queries: [...queries], wanted: queries.length };
    const id = this.#running.add(running);
    let answers: readonly Answer[] = [];
    let error: WinnowError | undefined;
    try {
      answers = await this.#runBatch(queries, controller.signal);
    } catch (cause) {
      error = toWinnowError(cause);
    }
    this.#running.delete(id);
    this.#noteTime(queries, startedMs, error !== undefined);
    // The next batch is started first, so that it runs while these answers are handed out.
    this.pump();
    for (let index = 0; index < queries.length; index += 1) {
      const query = running.queries[index];
      if (query === undefined) continue;
      const answer = answers[index];
      const queueMs = startedMs - query.queuedMs;
      if (answer !== undefined) query.end({ kind: "answer", answer, queueMs });
      else query.end({ kind: "failed", error: error ?? missingAnswer() });
    }
  }

  #noteTime(queries: readonly Query[], startedMs: number, isFailed: boolean): void {
    const nowMs = this.#clock.nowMs();
    const ms = nowMs - Math.max(startedMs, this.#endedMs);
    this.#endedMs = nowMs;
    const { rows, group } = queries[0]!;
    if (rows >= this.#limits.batchRowsMax) this.#largeMs = ms;
    else if (!isFailed) {
      const all = queries.reduce((sum, query) => sum + query.rows, 0);
      this.#company.answered(nowMs, { group, rows: all }, ms);
    }
  }

  #endAll(queries: readonly Query[], outcome: Outcome<Answer>): void {
    for (const query of queries) query.end(outcome);
  }
}

function missingAnswer(): WinnowError {
  return new WinnowError("INTERNAL", "The device answered fewer queries than it was given");
}
