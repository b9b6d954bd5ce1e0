// What a router tells of its work as it happens, for metrics and tests: plain callbacks, so that
// neither side knows the other.

/** Too many requests, too many rows, or an answer that would come too late. */
export type RefusalReason = "requests" | "rows" | "time";

/** Where the time of a request goes. */
export type RouterStage = "lookup" | "dense" | "topK" | "merge";

/** Why a worker is asked a second time for the same partitions. */
export type SecondAttempt = "retry" | "hedge";

/** What an arm of an experiment has done for one request. */
export interface ArmRecord {
  /** The experiment's name. */
  readonly model: string;
  readonly arm: string;
  /** Canonical gRPC code name; `OK` for an answer. */
  readonly code: string;
  readonly instances: number;
  readonly elapsedMs: number;
}

/** What became of a request that was to be asked of a shadow, too. */
export interface ShadowRecord {
  /** The experiment's name. */
  readonly model: string;
  /**
   * How the shadow's answer compares with the one that was given: `same` bits, the same items `reordered` or with other
   * scores, `different`; or why there is none.
   */
  readonly outcome: "same" | "reordered" | "different" | "failed" | "late" | "dropped";
  /** Of a failure its canonical gRPC code name; of a drop `busy`, `full`, `large` or `closed`; otherwise "". */
  readonly reason: string;
  /** 0 where the shadow was not asked. */
  readonly elapsedMs: number;
}

/** Takes notes; every method may be left out. */
export interface RouterObserver {
  /** A stage of one request has ended well. */
  stage?(stage: RouterStage, elapsedMs: number, model: string): void;
  /** A worker answered: time on the way, waiting for its device and on it. */
  reply?(reply: {
    readonly worker: string;
    readonly elapsedMs: number;
    readonly queueMs: number;
    readonly computeMs: number;
  }): void;
  /** A request was not taken on. */
  refused?(reason: RefusalReason): void;
  /** A slice of a search has waited so long in the concurrency limiter. */
  waited?(waitedMs: number): void;
  /** Partitions are asked again elsewhere. */
  secondAttempt?(kind: SecondAttempt, reason: string): void;
  /** A second attempt was wanted, but the budget is spent. */
  budgetSpent?(kind: SecondAttempt): void;
  /** A whole query was planned again on another generation. */
  replan?(model: string): void;
  /** An arm of an experiment has answered, or failed, for some instances of a request. */
  arm?(record: ArmRecord): void;
  /** A shadow has answered, or will not. */
  shadow?(record: ShadowRecord): void;
  /** A reply came for a question nobody asks any more. */
  lateReply?(worker: string): void;
}
