// The input of a scatter, and the ways it may end.

import type { VersionKey, WinnowError } from "@winnow/core";
import type { RoutedTable, RoutingTable, WorkerAnswer, WorkerAsk } from "@winnow/cluster";
import type { ScatterPart } from "./slot.ts";

/** A question to some partitions of one table. */
export interface ScatterQuestion {
  readonly version: VersionKey;
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
  readonly deadlineMs: number;
  /** Give back what can be had instead of giving up when partitions are lost. */
  readonly allowPartial: boolean;
  /** Worker lives whose connection broke under this request; grows. */
  readonly lostWorkers: Set<string>;
}

/** One attempt to have a question answered by one generation. */
export interface ScatterAttempt {
  readonly table: RoutedTable;
  /** The workers of the table's generation: a later life of one of them may hold something else. */
  readonly lives: RoutingTable["workers"];
  /**
   * What its first questions count as: a query that is planned again is a `retry` and needs the
   * budget, unless no worker has computed for it yet (`again`).
   */
  readonly attempt: "first" | "retry" | "again";
}

/** How a scatter ended. */
export type ScatterResult =
  /** `lost`: partitions without an answer, ascending; never any unless `allowPartial`. */
  | { readonly state: "answered"; readonly parts: readonly ScatterPart[]; readonly lost: number[] }
  /** This generation cannot answer for the lost partitions. `isCostly`: some worker has tried. */
  | {
      readonly state: "unfinished";
      readonly lost: number[];
      readonly reason: string;
      readonly isCostly: boolean;
    }
  /** The question itself is at fault; no replica will answer it. */
  | { readonly state: "refused"; readonly error: WinnowError };
