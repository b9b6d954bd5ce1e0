// Answers routers' queries: what a query is computed to goes back on the link that it came from, or the reason why it
// cannot be computed, never a shorter list (S10).
//
//   query ─▶ lanes ─▶ outcome ─▶ reply
//                        └─▶ rows of the items found are wanted ─▶ lanes, as a look-up ─▶ reply
//                             (where they may come later: items ─▶ rows ─▶ vectors, in replies of their own)

import type {
  FailureReason,
  LinkHandlers,
  ScanCounts,
  WorkerAnswer,
  WorkerLink,
  WorkerQuery,
} from "@winnow/cluster";
import { IdTable, WinnowError } from "@winnow/core";
import type { Tracer } from "@winnow/core";

import {
  itemRowsQuestion,
  itemsAhead,
  laterVectorCells,
  vectorsAnswer,
  withItemRows,
} from "./item-rows.ts";
import type { FoundItems } from "./item-rows.ts";
import type { Outcome } from "./query-lane.ts";
import { QueryLanes } from "./query-lanes.ts";
import type { AnswerLimits, LaneDependencies, TakenQuery } from "./query-lanes.ts";
import { QueryRefusal } from "./query-check.ts";
import type { BatchedAnswer } from "./query-batch.ts";
import { traceQuery } from "./query-trace.ts";
import type { QueryEnd } from "../worker-observer.ts";

/** What answering needs. */
export interface AnswerDependencies extends LaneDependencies {
  /** Records spans for the queries of traced requests. */
  readonly tracer?: Tracer | undefined;
}

/** Answers the queries of all links. */
export class QueryAnswer {
  readonly #dependencies: AnswerDependencies;
  readonly #lanes: QueryLanes;

  constructor(dependencies: AnswerDependencies, limits: AnswerLimits) {
    this.#dependencies = dependencies;
    this.#lanes = new QueryLanes(dependencies, limits);
  }

  /** Rows and keys that wait for the device. */
  get queueRows(): number {
    return this.#lanes.queueRows;
  }

  /** Scans begun so far. */
  get scanCounts(): ScanCounts {
    return this.#lanes.scanCounts;
  }

  /** Whether any query waits or is being computed. */
  get isBusy(): boolean {
    return this.#lanes.isBusy;
  }

  /** Answers the queries of one link until it closes. */
  serve(link: WorkerLink): Pick<LinkHandlers, "onQueries" | "onCancel" | "onClose"> {
    const queries = new LinkQueries(this.#dependencies, this.#lanes, link);
    return {
      onQueries: (asked) => queries.take(asked),
      onCancel: (id) => queries.cancel(id),
      onClose: () => queries.cancelAll(),
    };
  }

  /** Fails every waiting query, because the compute side has ended. */
  fail(error: WinnowError): void {
    this.#lanes.fail(error);
  }
}

/** A query that was computed, and what each of its replies tells of the work. */
interface Computed<Answer extends WorkerAnswer> {
  readonly query: WorkerQuery;
  readonly answer: Answer;
  readonly times: { readonly queueUs: number; readonly computeUs: number };
  /** How long the query waited, in ms; `undefined` if it was not computed. */
  readonly queueMs: number | undefined;
}

/** The queries of one link that are not answered yet. */
class LinkQueries {
  readonly #dependencies: AnswerDependencies;
  readonly #lanes: QueryLanes;
  readonly #link: WorkerLink;
  readonly #waiting = new IdTable<{ readonly query: WorkerQuery; readonly taken: TakenQuery }>();

  constructor(dependencies: AnswerDependencies, lanes: QueryLanes, link: WorkerLink) {
    this.#dependencies = dependencies;
    this.#lanes = lanes;
    this.#link = link;
  }

  /** Takes the queries of one frame. */
  take(queries: readonly WorkerQuery[]): void {
    for (const query of queries) {
      // Two queries under one id would make its cancel and its replies ambiguous (S8).
      if (this.#waiting.has(query.id)) return this.#link.refuse(underWay(query.id));
      const deadlineMs = this.#dependencies.clock.nowMs() + query.remainingMs;
      const taken = this.#lanes.take(query, (outcome) =>
        this.#onOutcome(query, outcome, deadlineMs),
      );
      if (taken !== undefined) this.#waiting.set(query.id, { query, taken });
    }
    this.#lanes.pump();
  }

  /** Forgets a query, which gets no reply. */
  cancel(id: number): void {
    const found = this.#waiting.get(id);
    if (found === undefined) return;
    this.#waiting.delete(id);
    found.taken.cancel();
    const { kind } = found.query.ask;
    this.#dependencies.observer?.queryEnded({ kind, end: "CANCELLED", queueMs: undefined });
  }

  cancelAll(): void {
    for (const id of this.#waiting.ids()) this.cancel(id);
  }

  /** Replies, or looks up the rows of the items found first, if they are wanted. */
  #onOutcome(query: WorkerQuery, outcome: Outcome<BatchedAnswer>, deadlineMs: number): void {
    const answer = answerOf(outcome);
    this.#trace(query, outcome, answer);
    const times = timesOf(outcome);
    const queueMs = outcome.kind === "answer" ? times.queueUs / 1000 : undefined;
    const { find, clock } = this.#dependencies;
    const wanted = query.ask.kind === "topK" ? query.ask.itemRows : undefined;
    const held = wanted && find(wanted.version);
    const remainingMs = deadlineMs - clock.nowMs();
    const question = itemRowsQuestion(query, answer, { held, remainingMs });
    if (question === undefined || answer.kind !== "topK") {
      return this.#end({ query, answer, times, queueMs }, answer);
    }
    this.#lookUpItemRows({ query, answer, times, queueMs }, question);
  }

  /**
   * Looks up the rows of the items that a search has found. Items whose rows may come later go ahead of them, and their
   * vectors, if they may, come behind.
   */
  #lookUpItemRows(search: Computed<FoundItems>, question: WorkerQuery): void {
    const { query, answer: found } = search;
    const cells = laterVectorCells(query, found);
    let areItemsAhead = false;
    const taken = this.#lanes.take(question, (outcome) => {
      const rows = answerOf(outcome);
      this.#trace(question, outcome, rows);
      if (!areItemsAhead) return this.#end(search, withItemRows(found, rows));
      if (cells === undefined) return this.#end(search, rows);
      this.#reply(search, rows);
      this.#link.afterReplies(() => {
        if (this.#waiting.has(query.id)) this.#end(search, vectorsAnswer(cells));
      });
    });
    // The look-up was refused, and the items have gone without rows.
    if (taken === undefined) return;
    this.#waiting.set(query.id, { query, taken });
    areItemsAhead = query.ask.kind === "topK" && query.ask.itemRowsLater === true;
    if (!areItemsAhead) return taken.pump();
    this.#reply(search, itemsAhead(found, cells));
    this.#link.afterReplies(() => taken.pump());
  }

  /** Sends a part of an answer, after which more is still to come, or the last one. */
  #reply({ query, times }: Computed<WorkerAnswer>, answer: WorkerAnswer): void {
    this.#link.reply({ id: query.id, ...times, answer });
  }

  /** Sends all that there is, or all that is still to come, and forgets the query. */
  #end(computed: Computed<WorkerAnswer>, answer: WorkerAnswer): void {
    const { query, queueMs } = computed;
    this.#waiting.delete(query.id);
    this.#reply(computed, answer);
    const { observer } = this.#dependencies;
    observer?.queryEnded({ kind: query.ask.kind, end: endOf(computed.answer), queueMs });
  }

  /** Records how long a query of a traced request waited, and the scan that it shared with others. */
  #trace(query: WorkerQuery, outcome: Outcome<BatchedAnswer>, answer: WorkerAnswer): void {
    const { tracer, clock } = this.#dependencies;
    if (tracer === undefined || query.trace === undefined) return;
    traceQuery(tracer, query, { outcome, answer, endMs: clock.nowMs() });
  }
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
