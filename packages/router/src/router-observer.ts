// What a router reports of its work as it happens, for metrics and tests. Plain callbacks, so that neither
// side imports the other.

/** Too many requests, too many rows, or an answer that would come too late. */
export type RefusalReason = "requests" | "rows" | "candidates" | "time";

/** The stages among which the time of a request is divided. */
export type RouterStage = "lookup" | "dense" | "topK" | "merge";

/** Why a worker is asked for partitions that another one was asked for already. */
export type SecondAttempt = "retry" | "hedge";

/** What an arm of an experiment did for one request. */
export interface ArmRecord {
  /** The experiment's name. */
  readonly model: string;
  readonly arm: string;
  /** Canonical gRPC code name; `OK` for an answer. */
  readonly code: string;
  readonly instances: number;
  readonly elapsedMs: number;
}

/** The outcome of a request that was to be sent to a shadow as well. */
export interface ShadowRecord {
  /** The experiment's name. */
  readonly model: string;
  /**
   * How the shadow's answer compares with the one that the client got (`same`: the same bits; `reordered`:
   * the same items with other scores or in another order; `different`), or why there is none.
   */
  readonly outcome: "same" | "reordered" | "different" | "failed" | "late" | "dropped";
  /** Canonical gRPC code name of a failure; `busy`, `full`, `large` or `closed` for a drop; otherwise "". */
  readonly reason: string;
  /** 0 if the shadow was not asked. */
  readonly elapsedMs: number;
}

/** Receives events; every method is optional. */
export interface RouterObserver {
  /** A stage of one request has ended without an error. */
  stage?(stage: RouterStage, elapsedMs: number, model: string): void;
  /** A worker has answered: ms on the network, in its queue and on its device. */
  reply?(reply: {
    readonly worker: string;
    readonly elapsedMs: number;
    readonly queueMs: number;
    readonly computeMs: number;
  }): void;
  /** A request was refused. */
  refused?(reason: RefusalReason): void;
  /** A slice of a search has entered the concurrency limiter, after this wait. */
  waited?(waitedMs: number): void;
  /** Partitions are asked for a second time. */
  secondAttempt?(kind: SecondAttempt, reason: string): void;
  /** A second attempt was not made, because the retry budget is used up. */
  budgetSpent?(kind: SecondAttempt): void;
  /** A whole query was planned again on another generation. */
  replan?(model: string): void;
  /** An arm of an experiment has answered, or failed, for some instances of a request. */
  arm?(record: ArmRecord): void;
  /** A shadow request has ended, or was dropped. */
  shadow?(record: ShadowRecord): void;
  /** A reply has arrived for a question that nobody waits for. */
  lateReply?(worker: string): void;
}
