// What the plan of replicas is made from, beside the state (`replica-set.ts`): the versions that are wanted,
// what is known of the other workers, memory and time.

import type { VersionKey } from "@winnow/core";

import type { OpenedVersion } from "../../compute/compute.ts";
import type { FoundVersion } from "../../models/directory-stillness.ts";
import type { Holders } from "../cluster-view.ts";
import type { Intent } from "../assignment.ts";

/** A version to hold, in the order of importance. */
export interface WantedVersion {
  readonly model: string;
  /** The directory with its present content. */
  readonly found: FoundVersion;
  /** Whether the version of this number is the default, whichever content of it. */
  readonly isServing: boolean;
  /** Whether the policy names an older version instead: this one serves until that one is ready everywhere. */
  readonly isLeft: boolean;
}

/** Everything that a plan is made from: this worker's state, the other workers, files, time. */
export interface ReplicaFacts extends Intent {
  readonly nowMs: number;
  readonly wanted: readonly WantedVersion[];
  /** Directories that would be wanted if their files did not still change. */
  readonly copying: readonly Omit<WantedVersion, "isServing" | "isLeft">[];
  /** Other workers, not in drain, that announce each partition of a table as ready. */
  announcedHolders(version: VersionKey, table: number): Holders;
  /** As `announcedHolders`, by what workers have lately answered when this one asked them. */
  heardHolders(version: VersionKey, table: number): Holders;
  /** Whether every worker holds its assignment of a version, with as many replicas as a new default needs. */
  isComplete(version: VersionKey): boolean;
  /** Whether partitions are placed on this worker. Nothing is decided before they are. */
  readonly placed: boolean;
  /** Bytes that may still be loaded. */
  readonly freeBytes: number;
  /** Bytes that all replicas together may occupy. */
  readonly capacityBytes: number;
  /** The part of `capacityBytes` that extra replicas may occupy (`extra-replicas.ts`): 0…1. */
  readonly extraMemoryRatio: number;
  /** Loads whose rows are up to so many bytes together are small: many of them run at once. */
  readonly smallLoadsBytes: number;
  /** Versions of different models that are asked to be opened at once, at most. */
  readonly opensAtOnce: number;
  /** Whether versions of a model share memory while one replaces another. */
  sharesMemory(model: string): boolean;
  /** What of an opened version is intended here while that goes on, as replica keys. */
  fewerReplicas(model: string, opened: OpenedVersion): readonly number[];
  /** Whether a model may have extra replicas: not one whose own replication was configured. */
  hasExtras(model: string): boolean;
  /** Whether this worker is in drain: it keeps what it holds and begins nothing. */
  readonly draining: boolean;
  readonly grace: GraceSettings;
}

/** How long replicas that are no longer announced are kept for routers whose tables still name them. */
export interface GraceSettings {
  readonly replicaGraceMs: number;
  readonly versionGraceMs: number;
}
