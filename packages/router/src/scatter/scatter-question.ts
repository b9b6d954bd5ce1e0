// What a request asks of a table: the question, one attempt to have it answered by one generation, and
// how that may end.

import type { TraceSpan, VersionKey, WinnowError } from "@winnow/core";
import type { RoutedTable, RoutingTable, WorkerAnswer, WorkerAsk } from "@winnow/cluster";
import type { PartialAnswer } from "./slot.ts";

/** The state that all queries of one request share: version, deadline, generation, coverage. */
export interface RequestScope {
  readonly version: VersionKey;
  readonly deadlineMs: number;
  readonly allowPartial: boolean;
  /** When the request is due; its slices are ordered by it. */
  readonly dueMs: number;
  /** Hears how many rows of its searches are done with. */
  readonly answered: (rows: number) => void;
  /** Worker lives whose connection broke under it; grows. */
  readonly lostWorkers: Set<string>;
  /** Takes note of how long its slices waited here, how long they were with workers, and were merged. */
  noteStage?(stage: "queue" | "scatter" | "merge", elapsedMs: number): void;
  /** Takes note of how long a worker that answered had it wait, and computed. */
  noteWorker?(queueMs: number, computeMs: number): void;
  /** The generation in use; replaced whole when it cannot finish. */
  table: RoutingTable;
  /** Partitions of candidate tables asked, and of these answered, over all queries. */
  partitionsAsked: number;
  partitionsAnswered: number;
}

/** A question of a request to some partitions of one table. */
export interface TableQuestion {
  /** Position in the program's tables. */
  readonly tableNumber: number;
  /** Ascending. */
  readonly partitions: readonly number[];
  /** Spread by the table's plan (searches), or by load alone (few keys). */
  readonly planned: boolean;
  /** Whether its partitions count for the coverage of the answer. */
  readonly countsCoverage: boolean;
  /**
   * Bytes of the ids it excludes, or of the longest key it looks up: these make a question large however
   * few instances it is for. Beyond `resendBytesMax` it is sent to no second worker.
   */
  readonly idBytes: number;
  /** The question for some of the partitions. */
  readonly askFor: (partitions: readonly number[]) => WorkerAsk;
  /** Why an answer is none to this question; `undefined` if it is one. */
  readonly faultOf: (answer: WorkerAnswer, partitions: readonly number[]) => string | undefined;
  /** Whether what can be had is an answer too, when partitions are lost and no later table has them. */
  readonly allowPartial: boolean;
  /** Ends this step; also when another step of the request has failed. */
  readonly signal: AbortSignal;
  /** What is recorded of the step that asks; `undefined`: nothing is. */
  readonly span?: TraceSpan | undefined;
}

/** One attempt to have a question answered by one generation. */
export interface ScatterAttempt {
  readonly scope: RequestScope;
  readonly table: RoutedTable;
  /** The workers of the table's generation: a later life of one of them may hold something else. */
  readonly lives: RoutingTable["workers"];
  /**
   * What its first questions count as: a query that is planned again is a `retry` and needs the
   * budget, unless no worker has computed for it yet (`again`).
   */
  readonly kind: "first" | "retry" | "again";
  /** Give back what can be had instead of giving up when partitions are lost. */
  readonly allowPartial: boolean;
}

/** Answers that cover all partitions, or all but `lost`, ascending: never any unless `allowPartial`. */
export interface TableAnswer {
  readonly state: "answered";
  readonly partials: readonly PartialAnswer[];
  readonly lost: readonly number[];
}

/** How a scatter ended. */
export type ScatterResult =
  | TableAnswer
  /** This generation cannot answer for the lost partitions. `isCostly`: some worker has tried. */
  | {
      readonly state: "unfinished";
      readonly lost: readonly number[];
      readonly reason: string;
      readonly isCostly: boolean;
    }
  /** The question itself is at fault; no replica will answer it. */
  | { readonly state: "refused"; readonly error: WinnowError };
