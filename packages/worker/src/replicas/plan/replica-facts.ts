// What the plan of replicas is decided from, beside the state (`replica-set.ts`): what is wanted,
// what is known of the other workers, and how much room and time there is.

import type { VersionKey } from "@winnow/core";

import type { FoundVersion } from "../../models/directory-stillness.ts";
import type { Holders } from "../cluster-view.ts";
import type { Intent } from "../assignment.ts";

/** A version to hold, in the order of importance. */
export interface WantedVersion {
  readonly model: string;
  /** The directory with its present content. */
  readonly found: FoundVersion;
  /** The version of this number is the default, whichever content of it. */
  readonly isServing: boolean;
  /** It serves until an older one, which the policy names instead, is ready everywhere. */
  readonly isLeft: boolean;
}

/** Everything that a plan is made from: this worker's state, the other workers, files, time. */
export interface ReplicaFacts extends Intent {
  readonly nowMs: number;
  readonly wanted: readonly WantedVersion[];
  /** Directories that would be wanted if their files were still. */
  readonly copying: readonly Omit<WantedVersion, "isServing" | "isLeft">[];
  /** Other workers, not in drain, that announce each partition of a table as ready. */
  announcedHolders(version: VersionKey, table: number): Holders;
  /** Whether every worker holds its assignment of a version, fully replicated. */
  isComplete(version: VersionKey): boolean;
  /** False until this worker is among those that partitions are placed on: nothing is decided. */
  readonly placed: boolean;
  /** Bytes that may still be loaded. */
  readonly freeBytes: number;
  /** Bytes that all replicas together may occupy. */
  readonly capacityBytes: number;
  /** The part of `capacityBytes` that extra replicas may occupy (`extra-replicas.ts`): 0…1. */
  readonly extraMemoryRatio: number;
  /** Whether a model may have extra replicas: not one whose own replication was configured. */
  hasExtras(model: string): boolean;
  /** A worker in drain keeps what it has and begins nothing. */
  readonly draining: boolean;
  readonly grace: GraceSettings;
}

/** How long what is no longer announced is kept for routers whose tables still have it. */
export interface GraceSettings {
  readonly replicaGraceMs: number;
  readonly versionGraceMs: number;
}
