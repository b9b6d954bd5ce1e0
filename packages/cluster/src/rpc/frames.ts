// What travels on the stream between a router and a worker, as plain typed data. `frame-codec.ts`
// translates to and from proto messages; everything else, the simulator included, knows only this.
//
//   router                              worker
//     │ ── hello ───────────────────────▶ │
//     │ ◀─────────────────────── state ── │   first frame, and again whenever it changes
//     │ ── queries (a batch) ───────────▶ │
//     │ ◀───────────── replies (a batch)─ │   matched by id, in any order
//     │ ── cancel, ping ────────────────▶ │
//     │ ◀─────────────────── pong, drain─ │   after drain: nothing new, replies follow
//     │ ◀──────────────────── members ── │   where other workers are: all, then what changes
//     │ ── predecessor ─────────────────▶ │   the worker is to number itself above it (succession.ts)

import type {
  Incarnation,
  Tensor,
  TopKBlock,
  VersionKey,
  WinnowError,
  WorkerId,
} from "@winnow/core";
import type { Announcement } from "../announcement/announcement.ts";
import type { Contact } from "../announcement/contact.ts";

/** From router to worker. */
export type RouterFrame =
  | { readonly kind: "hello"; readonly routerId: string; readonly wantsMembers: boolean }
  | { readonly kind: "queries"; readonly queries: readonly WorkerQuery[] }
  | { readonly kind: "cancel"; readonly id: number }
  | { readonly kind: "ping"; readonly sequence: number; readonly wantsHeard?: true }
  | { readonly kind: "predecessor"; readonly incarnation: Incarnation };

/** From worker to router. */
export type WorkerFrame =
  | { readonly kind: "state"; readonly announcement: Announcement }
  | { readonly kind: "replies"; readonly replies: readonly WorkerReply[] }
  | { readonly kind: "pong"; readonly pong: Pong }
  | { readonly kind: "drain" }
  /** A bounded number, see `frame-limits.ts`. */
  | { readonly kind: "members"; readonly members: readonly MemberNews[] };

/** What a worker has learnt of where another one is. */
export interface MemberNews extends Contact {
  /** The store does not name it any more: nobody needs to look for this incarnation. */
  readonly isGone: boolean;
}

/** One question about one table of one version, to be answered for exactly these partitions. */
export interface WorkerQuery {
  /** Unique within the stream, below 2⁵³. */
  readonly id: number;
  /** Until the client's deadline, at sending: no clock skew. */
  readonly remainingMs: number;
  readonly version: VersionKey;
  /** Position in the program's tables. */
  readonly table: number;
  /** Strictly ascending. */
  readonly partitions: Uint16Array;
  readonly ask: WorkerAsk;
}

/** What is asked. */
export type WorkerAsk = TopKAsk | LookupAsk;

/** The best rows of the named partitions for each query vector. */
export interface TopKAsk {
  readonly kind: "topK";
  readonly k: number;
  readonly queries: number;
  /** `[queries, dim]`. */
  readonly vectors: Float32Array;
  /**
   * Ids never to be returned: none, one list for all queries, or one per query. Strings, or int64
   * (also for int32 ids and row numbers).
   */
  readonly excluded: readonly Tensor[];
  /** Do not send ids. */
  readonly rowsOnly: boolean;
}

/** The row of each key; every key lies in one of the named partitions. */
export interface LookupAsk {
  readonly kind: "lookup";
  /** string or int64 `[keys]`. */
  readonly keys: Tensor;
}

/** The answer to one query. */
export interface WorkerReply {
  readonly id: number;
  /** Waited for the device. */
  readonly queueUs: number;
  /** On the device, whole batch. */
  readonly computeUs: number;
  readonly answer: WorkerAnswer;
}

/** What was answered. */
export type WorkerAnswer =
  | {
      readonly kind: "topK";
      readonly block: TopKBlock;
      /** Ids of the filled positions, query after query: string, int32 or int64; or none. */
      readonly ids: Tensor | undefined;
    }
  /** `[keys, dim]`, in the order of the keys. */
  | { readonly kind: "lookup"; readonly vectors: Float32Array }
  | { readonly kind: "failure"; readonly reason: FailureReason; readonly error: WinnowError };

/**
 * Why a worker did not answer; never less than what was asked. `DISCONNECTED` never travels: the
 * channel says it of queries whose stream ended.
 */
export type FailureReason =
  | "NOT_OWNER"
  | "NO_VERSION"
  | "EXPIRED"
  | "OVERLOADED"
  | "INVALID_KEY"
  | "INTERNAL"
  | "DISCONNECTED";

/** How the compute side does; answers a ping. */
export interface Pong {
  readonly sequence: number;
  readonly queueRows: number;
  /** Grows with every batch and load step. */
  readonly progress: number;
  /** Work waits and nothing has moved for too long. */
  readonly stalled: boolean;
  /** Whom this worker hears, where the ping asked: a bounded number, see `frame-limits.ts`. */
  readonly heard?: readonly HeardWorker[];
}

/** A worker that another one knows to be alive: to whoever knows the same of it, as good as its own word. */
export interface HeardWorker {
  readonly workerId: WorkerId;
  readonly incarnation: Incarnation;
  /** Of what it said last: `announcementDigest`. */
  readonly digest: number;
  /** Since it was known to be alive. */
  readonly ageMs: number;
}
