// What a request asks of a table: the question, one attempt to answer it with one generation, and the
// possible results.

import type { Signal, TraceSpan, VersionKey, WinnowError, WorkerId } from "@winnow/core";
import type { RoutedTable, RoutingTable, WorkerAnswer, WorkerAsk } from "@winnow/cluster";
import type { PartialAnswer } from "./slot.ts";

/** The state that all queries of one request share: version, deadline, generation, coverage. */
export interface RequestScope {
  readonly version: VersionKey;
  readonly deadlineMs: number;
  readonly allowPartial: boolean;
  /** When the request is due. Its slices go in this order. */
  readonly dueMs: number;
  /** To be called with the number of rows that need no more work. */
  readonly answered: (rows: number) => void;
  /** Workers' lives whose connections broke under this request; only grows. */
  readonly lostWorkers: Set<string>;
  /** Records how long its slices waited here, were with workers, and were merged. */
  noteStage?(stage: "queue" | "scatter" | "merge", elapsedMs: number): void;
  /** Records how long a worker that answered let it wait, and computed. */
  noteWorker?(queueMs: number, computeMs: number): void;
  /** The generation in use; replaced as a whole when it cannot answer. */
  table: RoutingTable;
  /** Partitions of candidate tables that were asked, and how many of them answered, over all queries. */
  partitionsAsked: number;
  partitionsAnswered: number;
}

/** A question of a request to some partitions of one table. */
export interface TableQuestion {
  /** Position in the program's tables. */
  readonly tableNumber: number;
  /** Ascending. */
  readonly partitions: readonly number[];
  /** Whether workers are chosen by the table's plan (searches), or by load alone (few keys). */
  readonly planned: boolean;
  /** Whether its partitions count in the coverage of the answer. */
  readonly countsCoverage: boolean;
  /**
   * Bytes of the excluded ids, or of the longest key, either of which can make a question large however few
   * instances it has. Beyond `resendBytesMax` it is sent to no second worker.
   */
  readonly idBytes: number;
  /** The question for some of the partitions, to one worker. */
  readonly askFor: (
    partitions: readonly number[],
    worker: WorkerId,
    attempt: ScatterAttempt,
  ) => WorkerAsk;
  /** What is wrong with a worker's answer to what `askFor` gave for it; `undefined` if nothing is. */
  readonly faultOf: (
    answer: WorkerAnswer,
    partitions: readonly number[],
    ask: WorkerAsk,
  ) => string | undefined;
  /** What is wrong with what comes behind an answer, once it has come; `undefined` where nothing does. */
  readonly laterFaultOf?: (answer: WorkerAnswer) => Promise<string | undefined> | undefined;
  /** Hears how long a worker that answered has computed. */
  readonly noteCompute?: (computeMs: number) => void;
  /** Whether a partial answer is accepted when partitions are lost and no later table has them. */
  readonly allowPartial: boolean;
  /** Ends this step. Also aborted when another step of the request has failed. */
  readonly signal: Signal;
  /** The span of the step; `undefined` where nothing is recorded. */
  readonly span?: TraceSpan | undefined;
}

/** One attempt to answer a question with one generation. */
export interface ScatterAttempt {
  readonly scope: RequestScope;
  readonly table: RoutedTable;
  /** The workers of the table's generation: a later life of one of them may hold something else. */
  readonly lives: RoutingTable["workers"];
  /**
   * How its first questions count: a query that is planned again is a `retry` and needs the budget, unless no
   * worker has computed for it yet (`again`).
   */
  readonly kind: "first" | "retry" | "again";
  /** Whether to give a partial result instead of failing when partitions are lost. */
  readonly allowPartial: boolean;
}

/** Answers that cover all partitions except `lost` (ascending), which is empty unless `allowPartial`. */
export interface TableAnswer {
  readonly state: "answered";
  readonly partials: readonly PartialAnswer[];
  readonly lost: readonly number[];
}

/** The result of a scatter. */
export type ScatterResult =
  | TableAnswer
  /** This generation cannot answer for the lost partitions. `isCostly`: some worker has computed. */
  | {
      readonly state: "unfinished";
      readonly lost: readonly number[];
      readonly reason: string;
      readonly isCostly: boolean;
    }
  /** The question itself is at fault: no replica will answer it. */
  | { readonly state: "refused"; readonly error: WinnowError };
