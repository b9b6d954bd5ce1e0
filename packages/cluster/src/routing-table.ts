// Who can be asked for what: an immutable table, replaced whole, numbered by its generation. Built
// by a pure function from what workers say of themselves on their streams.

import type {
  Fingerprint,
  Generation,
  Incarnation,
  TableSpec,
  VersionKey,
  WorkerId,
} from "@winnow/core";
import { WinnowError } from "@winnow/core";
import type { Announcement } from "./announcement.ts";

/** One snapshot of the cluster as a router uses it. */
export interface RoutingTable {
  readonly generation: Generation;
  readonly workers: ReadonlyMap<WorkerId, RoutedWorker>;
  readonly models: ReadonlyMap<string, RoutedModel>;
}

/** A worker that can be asked. */
export interface RoutedWorker {
  readonly id: WorkerId;
  readonly incarnation: Incarnation;
  readonly address: string;
  readonly draining: boolean;
}

/** All versions of one model. */
export interface RoutedModel {
  readonly name: string;
  /** Descending by number; one per number (conflicting contents: the one in use). */
  readonly versions: readonly RoutedVersion[];
  /** The default version's key; `undefined` while none may serve. */
  readonly serving: VersionKey | undefined;
}

/** One version and who holds what of it. */
export interface RoutedVersion {
  readonly key: VersionKey;
  /** Empty until the version's tables are known (its program has been fetched). */
  readonly tables: readonly RoutedTable[];
  /** Whether `tables` is known: only then can the version be asked. */
  readonly known: boolean;
  /** Workers that can give the program: those that know the fingerprint. */
  readonly holders: readonly WorkerId[];
  readonly status: RoutedStatus;
  /** Why it must not be asked at all: checksums that do not add up, contents that differ. */
  readonly refusal: WinnowError | undefined;
  /** Partitions with a replica ÷ partitions, over all tables; 0 while unknown or refused. */
  readonly coverage: number;
  /** Readable text of what has no replica, or `undefined` at full coverage. */
  readonly missing: string | undefined;
}

/** TensorFlow Serving's words for the life of a version. */
export interface RoutedStatus {
  readonly state: "START" | "LOADING" | "AVAILABLE" | "UNLOADING" | "END";
  readonly error: WinnowError | undefined;
}

/** One table: who can answer for each of its partitions. */
export interface RoutedTable {
  readonly table: number;
  readonly spec: TableSpec;
  /** By partition; draining workers only where there is no other. Empty: no replica. */
  readonly replicas: readonly (readonly WorkerId[])[];
  /** The replica of each partition for TopK, evenly spread; `undefined`: no replica. */
  readonly plan: readonly (WorkerId | undefined)[];
}

/** What the building needs beside announcements. */
export interface RoutingContext {
  /** Tables of the versions whose programs have been fetched. */
  readonly tables: ReadonlyMap<Fingerprint, readonly TableSpec[]>;
  readonly replication: number;
}

/** Builds the next table. Same input gives the same table; the generation is the previous plus one. */
export function buildRoutingTable(
  announcements: readonly Announcement[],
  context: RoutingContext,
  previous: RoutingTable | undefined,
): RoutingTable {
  throw new WinnowError(
    "UNIMPLEMENTED",
    `${announcements.length}${context.replication}${previous}`,
  );
}
