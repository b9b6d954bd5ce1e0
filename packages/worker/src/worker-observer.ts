// What a worker reports for its metrics. Nothing here decides anything: a worker without an observer behaves
// the same.

import type { AcceleratorKind } from "@winnow/accelerator";
import type { Announcement, FailureReason } from "@winnow/cluster";
import type { ErrorCode } from "@winnow/core";
import type { ItemChanges } from "@winnow/model";

/** The kinds of queries that are counted. */
export type QueryKind = "topK" | "lookup";

/** How a query ended: OK, the reason of a failed reply, or CANCELLED if nobody waited for the reply. */
export type QueryEnd = "OK" | "CANCELLED" | FailureReason;

/** Queries that go to the device together. */
interface ObservedBatch {
  readonly kind: QueryKind;
  /** Routers' queries. */
  readonly queries: number;
  /** Query vectors, or keys, of all queries. */
  readonly rows: number;
  /** Rows of the candidate table that the scan reads once for the whole batch; 0 for lookups. */
  readonly rowsScanned: number;
}

/** A batch has waited for company while the device was idle. */
export interface CompanyWait {
  readonly ms: number;
  /** Whether as many queries came as had been answered. */
  readonly haveAllCome: boolean;
}

/** Called when a batch has ended: ms on the device, or `undefined` if it failed. */
type BatchEnd = (computeMs: number | undefined) => void;

/** Counts and measures a worker. */
export interface WorkerObserver {
  /** A query has ended; `queueMs` is how long an answered query waited for the device. */
  queryEnded(query: {
    readonly kind: QueryKind;
    readonly end: QueryEnd;
    readonly queueMs: number | undefined;
  }): void;
  /** A batch has waited for company (`queries/batch-company.ts`) while the device was idle. */
  companyWaited(wait: CompanyWait): void;
  /** A batch goes to the device. */
  batchStarted(batch: ObservedBatch): BatchEnd;
  /**
   * The worker's assignment of a version is loaded; `elapsedMs` counts from the opening of the
   * version or, for replicas added later, from the last such report.
   */
  assignmentLoaded(assignment: { readonly model: string; readonly elapsedMs: number }): void;
  /** A version, or a partition of one, could not be loaded. */
  loadFailed(failure: { readonly model: string; readonly code: ErrorCode }): void;
}

/** How far a worker has loaded its assignment of one version. */
export interface AssignmentStatus {
  readonly model: string;
  readonly version: number;
  /** Partitions by phase, see `Replica`. */
  readonly replicas: Readonly<Record<"loading" | "ready" | "retiring" | "releasing", number>>;
  /** Bytes held ÷ bytes intended here, 0…1; 0 while the version is not open. */
  readonly loadedRatio: number;
  /** The changes to the version's items that it was opened with. */
  readonly changes?: ItemChanges | undefined;
}

/** A worker's present state. */
export interface WorkerStatus {
  readonly announcement: Announcement;
  /** The kind of accelerator that was asked for; the announcement says which one is in use. */
  readonly askedAccelerator: AcceleratorKind;
  /** Query vectors and keys that wait for the device. */
  readonly queueRows: number;
  /** Whether work waits and the compute side makes no progress. */
  readonly isStalled: boolean;
  /** Whether another process runs as this worker; this one is then not announced. */
  readonly isSuperseded: boolean;
  readonly assignments: readonly AssignmentStatus[];
  /** Numbers of the newest models order known and of the one followed; 0: none. */
  readonly orderNumbers: { readonly known: number; readonly followed: number };
}
