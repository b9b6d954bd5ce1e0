// Answers routers' queries. Checks come before any work and are exact: the version must be held
// with this very content, every partition asked for must be held, sizes must fit; otherwise the
// answer is a failure that says so, never a shorter list (S10).
//
//   query ─▶ check ─▶ lane (scan, sums or lookup) ─▶ compute thread ─▶ reply on the router's link
//              │                                        └─▶ rows of the items found wanted ─▶ check, as a lookup
//              │                                             (their vectors go last, if they may)
//              └─▶ NO_VERSION · NOT_OWNER · EXPIRED · OVERLOADED · INVALID_KEY · INTERNAL

import type {
  FailureReason,
  LinkHandlers,
  ScanCounts,
  WorkerAnswer,
  WorkerLink,
  WorkerQuery,
} from "@winnow/cluster";
import { dueMsOf, IdTable, isSumsAttribute, WinnowError, withoutStack } from "@winnow/core";
import type { Clock, Tracer, VersionKey } from "@winnow/core";

import type { Compute, ContentHandle } from "../compute/compute.ts";
import { FilterPreparations } from "./filter-preparation.ts";
import {
  itemRowsQuestion,
  itemsAhead,
  laterVectorCells,
  vectorsAnswer,
  withItemRows,
} from "./item-rows.ts";
import { QueryLane } from "./query-lane.ts";
import type { Outcome } from "./query-lane.ts";
import { QueryRefusal, checkQuery } from "./query-check.ts";
import type { QueryLimits } from "./query-check.ts";
import { runLookups, runTopK } from "./query-batch.ts";
import type { BatchedAnswer, BatchedQuery } from "./query-batch.ts";
import { batchGroupOf } from "./batcher.ts";
import type { HeldVersion } from "../replicas/replica-set.ts";
import { traceQuery } from "./query-trace.ts";
import { watchedBatch } from "./watched-batch.ts";
import type { QueryEnd, QueryKind, WorkerObserver } from "../worker-observer.ts";

/** Bounds of the queues, in addition to the bounds of one query. */
export interface AnswerLimits extends QueryLimits {
  readonly queueRowsMax: number;
  readonly batchRowsMax: number;
  readonly scansInFlightMax: number;
  readonly companyMsMax: number;
  readonly lookupsInFlightMax: number;
}

/** What answering needs. */
export interface AnswerDependencies {
  readonly clock: Clock;
  readonly compute: Compute;
  /** The held content with exactly this version and fingerprint. */
  readonly find: (key: VersionKey) => HeldVersion | undefined;
  readonly observer?: WorkerObserver | undefined;
  /** Records spans for the queries of traced requests. */
  readonly tracer?: Tracer | undefined;
}

/** One full batch is sent ahead, so that its scan begins as soon as the previous scan ends. */
const SCANS_AHEAD_MAX = 1;

/** Batches of sums under way. One keeps the compute thread busy; it works in pieces, between which scans run. */
const SUMS_IN_FLIGHT_MAX = 1;

type Lane = QueryLane<BatchedQuery, BatchedAnswer>;

/** A query, and the lane that it waits on or is under way on. */
interface TakenQuery {
  /** What the router asked. */
  readonly kind: QueryKind;
  readonly lane: Lane;
  readonly query: BatchedQuery;
}

/** Takes queries from links and replies to them. */
export class QueryAnswer {
  readonly #dependencies: AnswerDependencies;
  readonly #limits: AnswerLimits;
  readonly #scans: Lane;
  /** Searches that need sums over all rows, which take a hundred times as long as a scan. */
  readonly #sums: Lane;
  readonly #lookups: Lane;
  readonly #preparations: FilterPreparations;
  #scanCounts: ScanCounts = { batches: 0, queries: 0 };

  constructor(dependencies: AnswerDependencies, limits: AnswerLimits) {
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

  /** Answers the queries of one link until it closes. */
  serve(link: WorkerLink): Pick<LinkHandlers, "onQueries" | "onCancel" | "onClose"> {
    const { observer, clock } = this.#dependencies;
    const waiting = new IdTable<TakenQuery>();
    const forget = (id: number): void => {
      const found = waiting.get(id);
      if (found === undefined) return;
      waiting.delete(id);
      this.#preparations.forget(found.query);
      found.lane.cancel(found.query);
      observer?.queryEnded({ kind: found.kind, end: "CANCELLED", queueMs: undefined });
    };
    return {
      onQueries: (queries) => {
        for (const query of queries) {
          // Two queries under one id would make its cancel and its replies ambiguous (S8).
          if (waiting.has(query.id)) return link.refuse(underWay(query.id));
          const deadlineMs = clock.nowMs() + query.remainingMs;
          const end = (outcome: Outcome<BatchedAnswer>): void => {
            const times = timesOf(outcome);
            const answer = answerOf(outcome);
            const reply = (given: WorkerAnswer): void => {
              waiting.delete(query.id);
              link.reply({ id: query.id, ...times, answer: given });
              const queueMs = outcome.kind === "answer" ? times.queueUs / 1000 : undefined;
              observer?.queryEnded({ kind: query.ask.kind, end: endOf(answer), queueMs });
            };
            this.#trace(query, outcome, answer);
            const asked = { ...query, deadlineMs };
            const further = this.#takeItemRows(asked, answer, {
              all: reply,
              part: (given) => link.reply({ id: query.id, ...times, answer: given }),
              last: (make) =>
                link.afterReplies(() => {
                  if (waiting.has(query.id)) reply(make());
                }),
            });
            if (further === undefined) return;
            waiting.set(query.id, further);
            if (areRowsLater(query)) link.afterReplies(() => further.lane.pump());
            else further.lane.pump();
          };
          const taken = this.#take(query, end);
          if (taken !== undefined) waiting.set(query.id, taken);
        }
        for (const lane of this.#lanes) lane.pump();
      },
      onCancel: forget,
      onClose: () => {
        for (const id of waiting.ids()) forget(id);
      },
    };
  }

  /** Fails every waiting query, because the compute side has ended. */
  fail(error: WinnowError): void {
    for (const lane of this.#lanes) lane.fail(error);
  }

  /** Records how long a query of a traced request waited, and the scan that it shared with others. */
  #trace(query: WorkerQuery, outcome: Outcome<BatchedAnswer>, answer: WorkerAnswer): void {
    const { tracer, clock } = this.#dependencies;
    if (tracer === undefined || query.trace === undefined) return;
    traceQuery(tracer, query, { outcome, answer, endMs: clock.nowMs() });
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

  /**
   * Queues the look-up of items that were found, if their rows are wanted, or replies at once. Items whose rows may come
   * later go ahead of them, and their vectors, if they may, come behind.
   */
  #takeItemRows(
    query: WorkerQuery & { readonly deadlineMs: number },
    answer: WorkerAnswer,
    reply: FoundReply,
  ): TakenQuery | undefined {
    const { find, clock } = this.#dependencies;
    const wanted = query.ask.kind === "topK" ? query.ask.itemRows : undefined;
    const held = wanted && find(wanted.version);
    const remainingMs = query.deadlineMs - clock.nowMs();
    const question = itemRowsQuestion(query, answer, { held, remainingMs });
    if (question === undefined || answer.kind !== "topK") {
      reply.all(answer);
      return undefined;
    }
    let areAhead = false;
    const cells = laterVectorCells(query, answer);
    const taken = this.#take(question, (outcome) => {
      const rows = answerOf(outcome);
      this.#trace(question, outcome, rows);
      if (!areAhead) return reply.all(withItemRows(answer, rows));
      if (cells === undefined) return reply.all(rows);
      reply.part(rows);
      reply.last(() => vectorsAnswer(cells));
    });
    if (taken === undefined) return undefined;
    areAhead = areRowsLater(query);
    if (areAhead) reply.part(itemsAhead(answer, cells));
    return { ...taken, kind: query.ask.kind };
  }

  /** Checks a query and queues it, or ends it with the reason. */
  #take(
    query: WorkerQuery,
    end: (outcome: Outcome<BatchedAnswer>) => void,
  ): TakenQuery | undefined {
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
      return { kind: query.ask.kind, lane, query: batched };
    }
    end({ kind: "failed", error: overloaded(this.queueRows) });
    return undefined;
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
}

/** How to reply to a search. */
interface FoundReply {
  /** With all that there is, or all that is still to come. */
  readonly all: (answer: WorkerAnswer) => void;
  /** With a part, after which more is still to come. */
  readonly part: (answer: WorkerAnswer) => void;
  /** With what is made once the parts have left, unless nobody waits for it by then. */
  readonly last: (make: () => WorkerAnswer) => void;
}

function areRowsLater({ ask }: WorkerQuery): boolean {
  return ask.kind === "topK" && ask.itemRowsLater === true;
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

function timesOf(outcome: Outcome<BatchedAnswer>): { queueUs: number; computeUs: number } {
  if (outcome.kind !== "answer") return { queueUs: 0, computeUs: 0 };
  const { waitUs, computeUs } = outcome.answer;
  return { queueUs: Math.round(outcome.queueMs * 1000) + waitUs, computeUs };
}

function endOf(answer: WorkerAnswer): QueryEnd {
  return answer.kind === "failure" ? answer.reason : "OK";
}

function answerOf(outcome: Outcome<BatchedAnswer>): WorkerAnswer {
  if (outcome.kind === "answer") return outcome.answer.answer;
  const error =
    outcome.kind === "failed"
      ? outcome.error
      : new WinnowError("DEADLINE_EXCEEDED", "The deadline passed before the query started");
  return { kind: "failure", reason: reasonOf(outcome, error), error };
}

function reasonOf(outcome: Outcome<BatchedAnswer>, error: WinnowError): FailureReason {
  if (outcome.kind === "expired") return "EXPIRED";
  return error instanceof QueryRefusal ? error.reason : "INTERNAL";
}

function underWay(id: number): WinnowError {
  const message = `Malformed frame: query ${id} is under way; ids are unique within a stream`;
  return new WinnowError("INVALID_ARGUMENT", message);
}

function overloaded(queueRows: number): QueryRefusal {
  const message = `The worker's queue is full: ${queueRows} rows wait; ask another replica or later`;
  return withoutStack(() => new QueryRefusal("OVERLOADED", { code: "UNAVAILABLE", message }));
}
