// What a worker says of itself: the one record that membership stores, that streams repeat, and
// that routing tables are built from. It travels as JSON (membership) and as a proto message
// (streams).

import { groupedByModel } from "@winnow/core";
import type { ErrorCode, Fingerprint, Incarnation, VersionKey, WorkerId } from "@winnow/core";
import type { OrderMark } from "../orders/models-order.ts";

/** Where a worker is in its life: loading its first replicas; serving; finishing what runs. */
export type WorkerState = "starting" | "ready" | "draining";

/** What a worker says of itself. */
export interface Announcement {
  readonly workerId: WorkerId;
  readonly incarnation: Incarnation;
  /** host:port of its Shard service. */
  readonly address: string;
  readonly state: WorkerState;
  readonly accelerator: string;
  readonly device: string;
  readonly memoryUsedBytes: number;
  readonly memoryCapacityBytes: number;
  readonly versions: readonly VersionHolding[];
  /** The models order that the worker follows; absent: none. */
  readonly order?: OrderMark | undefined;
  /** The release of Winnow. Absent: the worker does not say. */
  readonly release?: string | undefined;
  /** The settings that workers must agree on to place partitions alike, as text. Absent: the worker does not say. */
  readonly placement?: string | undefined;
  /**
   * Workers that name the same machine share its processors, each with threads for all of them: a search
   * asks as few of them as it can. Absent: the worker has processors of its own.
   */
  readonly machine?: string | undefined;
}

/** One version directory this worker knows, and what it holds of it. */
export interface VersionHolding {
  readonly model: string;
  readonly version: number;
  /** `undefined` while the directory has not been read (or could not be). */
  readonly fingerprint: Fingerprint | undefined;
  /** `ready`: this worker holds every replica of the version that placement assigns to it. */
  readonly state: "loading" | "ready" | "failed" | "unloading";
  /** In the state `ready`: why a replica beyond the assigned ones cannot be loaded. */
  readonly error: { readonly code: ErrorCode; readonly message: string } | undefined;
  /** Every table of the program once the fingerprint is known, even without a replica here. */
  readonly tables: readonly TableHolding[];
  /**
   * Whether this worker regards the version as the one that serves by default. A process that
   * starts takes its default version from this field instead of guessing. Absent: no.
   */
  readonly serving?: boolean;
  /** How many bytes of the version's file of item updates belong to the content. Absent: there is none. */
  readonly updateBytes?: number;
}

/** The partitions of one table that are ready on this worker. */
export interface TableHolding {
  /** Position in the program's tables. */
  readonly table: number;
  /** Partitions of the whole table. */
  readonly partitions: number;
  readonly held: readonly HeldPartition[];
}

/** A replica that answers. */
export interface HeldPartition {
  readonly partition: number;
  /** The partition's checksum share for each of the table's sources; equal on every replica. */
  readonly shares: readonly number[];
}

type Holdings = Announcement["versions"];

/** Versions of one announcement, at most: readers refuse a longer one whole. */
export const VERSIONS_ANNOUNCED_MAX = 1024;

/** Made when first asked for: what is done for each of a thousand models must not go through all of them. */
const holdingsByModel = new WeakMap<Holdings, ReadonlyMap<string, Holdings>>();

/** What a worker says of the versions of one model, in its order. */
export function holdingsOf({ versions }: Announcement, model: string): Holdings {
  let byModel = holdingsByModel.get(versions);
  if (byModel === undefined) {
    byModel = groupedByModel(versions);
    holdingsByModel.set(versions, byModel);
  }
  return byModel.get(model) ?? [];
}

/** What a worker says of exactly this content. */
export function holdingOf(
  worker: Announcement,
  { model, version, fingerprint }: VersionKey,
): VersionHolding | undefined {
  return holdingsOf(worker, model).find(
    (holding) => holding.version === version && holding.fingerprint === fingerprint,
  );
}

/** One announcement per worker, the newest incarnation, ascending by worker id (I3). */
export function newestIncarnations(announcements: readonly Announcement[]): Announcement[] {
  const newest = new Map<WorkerId, Announcement>();
  for (const announcement of announcements) {
    const known = newest.get(announcement.workerId);
    if (known === undefined || known.incarnation < announcement.incarnation) {
      newest.set(announcement.workerId, announcement);
    }
  }
  return [...newest.values()].toSorted((a, b) => (a.workerId < b.workerId ? -1 : 1));
}
