// The frames on the stream between a router and a worker, as plain typed data. `frame-codec.ts`
// translates them to and from proto messages; all other code, the simulator included, uses these
// types.
//
//   router                              worker
//     │ ── hello ───────────────────────▶ │
//     │ ◀─────────────────────── state ── │   first frame, and again whenever it changes
//     │ ── queries (a batch) ───────────▶ │
//     │ ◀───────────── replies (a batch)─ │   matched by id, in any order
//     │ ── cancel, ping ────────────────▶ │
//     │ ◀─────────────────── pong, drain─ │   after drain: nothing new, replies follow
//     │ ◀──────────────────── members ── │   where other workers are: all, then what changes
//     │ ── predecessor ─────────────────▶ │   the worker must take a higher number (succession.ts)

import type {
  Incarnation,
  StringColumn,
  Tensor,
  TopKBlock,
  TraceContext,
  VersionKey,
  WinnowError,
  WorkerId,
} from "@winnow/core";
import type { Announcement } from "../../announcement/announcement.ts";
import type { Contact } from "../../announcement/contact.ts";

/** From router to worker. */
export type RouterFrame =
  | { readonly kind: "hello"; readonly routerId: string; readonly wantsMembers: boolean }
  | { readonly kind: "queries"; readonly queries: readonly WorkerQuery[] }
  | { readonly kind: "cancel"; readonly id: number }
  | {
      readonly kind: "ping";
      readonly sequence: number;
      readonly wantsHeard?: true;
      readonly inDoubt?: true;
    }
  | { readonly kind: "predecessor"; readonly incarnation: Incarnation };

/** From worker to router. */
export type WorkerFrame =
  | { readonly kind: "state"; readonly announcement: Announcement }
  | { readonly kind: "replies"; readonly replies: readonly WorkerReply[] }
  | { readonly kind: "pong"; readonly pong: Pong }
  | { readonly kind: "drain" }
  /** A bounded number, see `frame-limits.ts`. */
  | { readonly kind: "members"; readonly members: readonly MemberNews[] };

/** Where another worker is, as this worker has learnt. */
export interface MemberNews extends Contact {
  /** The store does not list the worker any more: routers need not look for this incarnation. */
  readonly isGone: boolean;
}

/** One question about one table of one version, to be answered for exactly these partitions. */
export interface WorkerQuery {
  /** Unique within the stream, below 2⁵³. */
  readonly id: number;
  /** Ms until the client's deadline, at the time of sending: independent of clock skew. */
  readonly remainingMs: number;
  readonly version: VersionKey;
  /** Position in the program's tables. */
  readonly table: number;
  /** Strictly ascending. */
  readonly partitions: Uint16Array;
  readonly ask: WorkerAsk;
  /** The span of the traced request that asks. */
  readonly trace?: TraceContext | undefined;
}

/** The question of a query. */
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
  /** Whether the answer should contain rows only, no ids. */
  readonly rowsOnly: boolean;
  /** Texts of bound filters (core/attributes/filter-text): none, one for all queries, or one per query. */
  readonly filters?: readonly string[] | undefined;
  /** The only ids that may be returned: none, one list for all queries, or one per query. Types as for `excluded`. */
  readonly included?: readonly Tensor[] | undefined;
  /** Attributes wanted of each returned item; `$vector` and `$sums` are computed. */
  readonly attributes?: readonly string[] | undefined;
  /** Whether `$vector` is wanted as bytes behind the object of the others. Older workers write it as text. */
  readonly vectorBytes?: true | undefined;
  /** Whether `$vector` is wanted without what was added to rows for the search. Older workers give whole rows. */
  readonly ownVectors?: true | undefined;
  /**
   * A keyed table, maybe of another version: its rows of the ids returned are wanted, too. A worker that does not hold
   * all of it, or not at hand, and an older one gives none.
   */
  readonly itemRows?: KeyedRows | undefined;
  /** Whether these rows may come in a second reply, so that the items need not wait for them. */
  readonly itemRowsLater?: true | undefined;
  /** Whether the vectors of the items, if these are their only attribute, may come in a third reply, behind the rows. */
  readonly vectorsLater?: true | undefined;
}

/** A keyed table of a version. */
export interface KeyedRows {
  readonly version: VersionKey;
  /** Position in the program's tables. */
  readonly table: number;
}

/** The row of each key; every key lies in one of the named partitions. */
export interface LookupAsk {
  readonly kind: "lookup";
  /** string or int64 `[keys]`. */
  readonly keys: Tensor;
  /** Whether the vocabulary has each key is all that is wanted. Workers that do not know this answer rows. */
  readonly knownOnly?: true;
}

/** The answer to one query. */
export interface WorkerReply {
  readonly id: number;
  /** Microseconds in the queue for the device. */
  readonly queueUs: number;
  /** Microseconds on the device, for the whole batch. */
  readonly computeUs: number;
  readonly answer: WorkerAnswer;
}

/** The answer of a reply. */
export type WorkerAnswer =
  | {
      readonly kind: "topK";
      readonly block: TopKBlock;
      /** Ids of the filled positions, query after query: string, int32 or int64; or none. */
      readonly ids: Tensor | undefined;
      /** Attributes of the filled positions, each a JSON object as text, if any were wanted. */
      readonly attributes?: StringColumn | undefined;
      /** Whether the vector is behind each object (core/attributes/item-cell). */
      readonly vectorBytes?: true | undefined;
      /** `[filled positions, dim]` of the table whose rows were wanted: the row of each id. */
      readonly itemRows?: Float32Array | undefined;
      /** Whether the rows come in a second reply of the same id: those of a look-up of the ids, or a failure. */
      readonly itemRowsLater?: true | undefined;
      /** What a channel makes of the second reply: the rows, or `undefined` if they do not come. */
      readonly laterItemRows?: Promise<Float32Array | undefined> | undefined;
      /** Whether vectors come instead of attributes, in a third reply of the same id: as of a look-up, or a failure. */
      readonly vectorsLater?: true | undefined;
      /** What a channel makes of the third reply: `[filled positions, dim]`, or `undefined` if they do not come. */
      readonly laterVectors?: Promise<Float32Array | undefined> | undefined;
    }
  /** `[keys, dim]`, in the order of the keys. */
  | {
      readonly kind: "lookup";
      readonly vectors: Float32Array;
      /** Instead of rows, where that is what was asked: for each key 1, or 0 where the vocabulary lacks it. */
      readonly known?: Uint8Array | undefined;
    }
  | { readonly kind: "failure"; readonly reason: FailureReason; readonly error: WinnowError };

/**
 * Why a query failed as a whole; a worker never answers a part of it. `DISCONNECTED` never travels:
 * the channel reports it for queries whose stream ended.
 */
export type FailureReason =
  | "NOT_OWNER"
  | "NO_VERSION"
  | "EXPIRED"
  | "OVERLOADED"
  | "INVALID_KEY"
  | "INTERNAL"
  | "DISCONNECTED";

/** The state of the compute thread; answers a ping. */
export interface Pong {
  readonly sequence: number;
  readonly queueRows: number;
  /** Grows with every batch and load step. */
  readonly progress: number;
  /** Whether work waits and `progress` has not grown for too long. */
  readonly stalled: boolean;
  /** Workers that this worker hears, if the ping asked: a bounded number, see `frame-limits.ts`. */
  readonly heard?: readonly HeardWorker[];
  /** Absent before the first scan, and of a release that does not count them. */
  readonly scans?: ScanCounts;
}

/** Scans of a worker, for all routers. */
export interface ScanCounts {
  /** Batches that its device took. */
  readonly batches: number;
  /** Query vectors in them. */
  readonly queries: number;
}

/**
 * A worker that another one knows to be alive. To a process that knows the same announcement (equal
 * incarnation and digest) this is as good evidence as the worker's own pong.
 */
export interface HeardWorker {
  readonly workerId: WorkerId;
  readonly incarnation: Incarnation;
  /** `announcementDigest` of its last announcement. */
  readonly digest: number;
  /** Ms since it was last known to be alive. */
  readonly ageMs: number;
}
