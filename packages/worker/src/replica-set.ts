// What this worker holds, as data, and how each finished piece of work changes it. Nothing here acts
// or waits: `replica-plan.ts` decides what to do next from this state, `replica-control.ts` does it,
// and a simulator can run both as they are.
//
// A version:
//
//   found ──▶ opening ──▶ open ──────────▶ unloading ──▶ closing ──▶ (gone)
//     ▲          │         ▲ │  not wanted,    │ grace over   ▲
//     │          │         │ │  serving moved  │              │
//     │ files    │         └─┼─────────────────┘ wanted again │
//     │ change,  ▼           │ a partition cannot be loaded   │
//     └─ retry  failed ◀─────┴── before the share was ever complete
//
// A replica (one partition of one table of an open version):
//
//   (absent) ──▶ loading ──▶ ready ◀──▶ retiring ──▶ releasing ──▶ (absent)
//                   │                 not intended here and every       grace over: no router
//                   ▼                 intended owner announces it;      can still pin it
//                (absent)             unannounced, still answers
//
// A ready replica that turns out to be misread (`version-proof.ts`) is released at once.
//
// Objects are replaced, never changed.

import type { WinnowError } from "@winnow/core";

import type { LoadedReplica, OpenedVersion } from "./compute/compute.ts";
import type { FoundVersion } from "./version-watch.ts";

/** One partition on this worker. */
export type Replica =
  | { readonly phase: "loading" }
  | { readonly phase: "ready"; readonly loaded: LoadedReplica }
  | { readonly phase: "retiring"; readonly loaded: LoadedReplica; readonly sinceMs: number }
  /** Not what the others read and what adds up: to be released, and read again later. */
  | { readonly phase: "misread" }
  | { readonly phase: "releasing" };

/** What went wrong last, and when to try again. */
interface Trouble {
  readonly error: WinnowError;
  /** Failures in a row. */
  readonly attempts: number;
  /** `Infinity`: only when the files change. */
  readonly retryAtMs: number;
}

/** Where a version is in its life here. */
type VersionPhase =
  | { readonly phase: "found" }
  | { readonly phase: "opening" }
  | { readonly phase: "open"; readonly opened: OpenedVersion }
  | { readonly phase: "unloading"; readonly opened: OpenedVersion; readonly sinceMs: number }
  | { readonly phase: "closing"; readonly next: AfterClose }
  | { readonly phase: "failed" };

/** What becomes of a version once it is closed: forgotten, remembered as failed, or opened anew. */
export type AfterClose = "gone" | "failed" | "found";

/** One version directory and what is held of it. */
export interface HeldVersion {
  readonly model: string;
  readonly version: number;
  readonly directory: string;
  /** Stamp of the files when they were (or will be) opened. */
  readonly stamp: string;
  readonly life: VersionPhase;
  /** By `replicaKey`. */
  readonly replicas: ReadonlyMap<number, Replica>;
  readonly trouble: Trouble | undefined;
  /** Why the rest of the share is not loaded: memory, with figures. */
  readonly refusal: WinnowError | undefined;
  /** Whether the whole intended share has been ready at some time. */
  readonly wasComplete: boolean;
  /** What all workers read did not give the stored checksums, and has not given them since. */
  readonly isDoubted: boolean;
  /** When what is held now was found not to add up. */
  readonly corruptSinceMs: number | undefined;
  /** Announced as unloading, and kept all the same while it serves: an older one is to follow. */
  readonly isLeft: boolean;
}

/** All versions, by `versionKey`. */
export interface ReplicaSet {
  readonly versions: ReadonlyMap<string, HeldVersion>;
}

/** Names a version within a set. */
export function versionKey(name: { readonly model: string; readonly version: number }): string {
  return `${name.model}/${name.version}`;
}

const PARTITIONS_PER_TABLE = 65_536;

/** Names a partition within a version. */
export function replicaKey(table: number, partition: number): number {
  return table * PARTITIONS_PER_TABLE + partition;
}

/** Undoes `replicaKey`. */
export function replicaOfKey(key: number): { readonly table: number; readonly partition: number } {
  return { table: Math.floor(key / PARTITIONS_PER_TABLE), partition: key % PARTITIONS_PER_TABLE };
}

/** A version directory nobody has opened yet. */
export function foundVersion(model: string, found: FoundVersion): HeldVersion {
  return {
    model,
    version: found.version,
    directory: found.directory,
    stamp: found.stamp,
    life: { phase: "found" },
    replicas: new Map(),
    trouble: undefined,
    refusal: undefined,
    wasComplete: false,
    isDoubted: false,
    corruptSinceMs: undefined,
    isLeft: false,
  };
}

/** The opened version of a version that is open or unloading. */
export function openedOf(held: HeldVersion): OpenedVersion | undefined {
  const { life } = held;
  return life.phase === "open" || life.phase === "unloading" ? life.opened : undefined;
}

/** What a replica occupies and proves, while it answers. */
export function loadedOf(replica: Replica | undefined): LoadedReplica | undefined {
  return replica?.phase === "ready" || replica?.phase === "retiring" ? replica.loaded : undefined;
}

/** The set with one version replaced. */
export function withVersion(set: ReplicaSet, held: HeldVersion): ReplicaSet {
  return { versions: new Map(set.versions).set(versionKey(held), held) };
}

/** The set without one version. */
export function withoutVersion(set: ReplicaSet, key: string): ReplicaSet {
  const versions = new Map(set.versions);
  versions.delete(key);
  return { versions };
}

/** The version with one replica replaced, or removed. */
export function withReplica(
  held: HeldVersion,
  key: number,
  replica: Replica | undefined,
): HeldVersion {
  const replicas = new Map(held.replicas);
  if (replica === undefined) replicas.delete(key);
  else replicas.set(key, replica);
  return { ...held, replicas };
}

/** The end of a piece of work that an effect of the plan began. */
export type ReplicaEvent = { readonly key: string } & (
  | { readonly kind: "opened"; readonly opened: OpenedVersion }
  | { readonly kind: "openFailed"; readonly error: WinnowError }
  | { readonly kind: "loaded"; readonly replica: number; readonly loaded: LoadedReplica }
  | { readonly kind: "loadFailed"; readonly replica: number; readonly error: WinnowError }
  | { readonly kind: "proven" }
  | { readonly kind: "corrupt"; readonly error: WinnowError }
  | { readonly kind: "misread"; readonly replicas: readonly number[]; readonly error: WinnowError }
  | { readonly kind: "released"; readonly replica: number }
  | { readonly kind: "closed" }
);

/** How often a failed version is tried again. */
export interface RetrySettings {
  /** Tries after the first, while the files stay the same. */
  readonly maxLoadRetries: number;
  readonly loadRetryIntervalMs: number;
}

/** The set after an event. An event of a version that is gone changes nothing. */
export function applyEvent(
  set: ReplicaSet,
  event: ReplicaEvent,
  context: { readonly nowMs: number; readonly settings: RetrySettings },
): ReplicaSet {
  const held = set.versions.get(event.key);
  if (held === undefined) return set;
  switch (event.kind) {
    case "opened":
      return withVersion(set, { ...held, life: { phase: "open", opened: event.opened } });
    case "openFailed": {
      const trouble = troubleAfter(held, event.error, context);
      return withVersion(set, { ...held, life: { phase: "failed" }, trouble });
    }
    case "loaded": {
      const ready = { phase: "ready", loaded: event.loaded } as const;
      return withVersion(set, withReplica(held, event.replica, ready));
    }
    case "loadFailed":
      return withVersion(set, afterFailedLoad(held, event, context));
    case "proven":
      return withVersion(set, { ...held, isDoubted: false, trouble: undefined });
    case "corrupt":
      return withVersion(set, corrupted(held, event.error, context));
    case "misread":
      return withVersion(set, afterMisreading(held, event, context));
    case "released":
      return afterRelease(set, held, event.replica);
    case "closed":
      return afterClose(set, held);
  }
}

function afterRelease(set: ReplicaSet, held: HeldVersion, replica: number): ReplicaSet {
  // Taken up again in the meantime: what is being loaded now is another copy.
  if (held.replicas.get(replica)?.phase !== "releasing") return set;
  return withVersion(set, withReplica(held, replica, undefined));
}

function afterClose(set: ReplicaSet, held: HeldVersion): ReplicaSet {
  const next = held.life.phase === "closing" ? held.life.next : "gone";
  if (next === "gone") return withoutVersion(set, versionKey(held));
  const life = { phase: next };
  return withVersion(set, { ...held, life, replicas: new Map(), corruptSinceMs: undefined });
}

/** A load that began before another one failed belongs to the same attempt. */
function afterFailedLoad(
  held: HeldVersion,
  event: ReplicaEvent & { readonly kind: "loadFailed" },
  context: { readonly nowMs: number; readonly settings: RetrySettings },
): HeldVersion {
  const isCounted = (held.trouble?.retryAtMs ?? 0) > context.nowMs;
  const trouble = isCounted ? held.trouble : troubleAfter(held, event.error, context);
  return { ...withReplica(held, event.replica, undefined), trouble };
}

/** Its shares stay announced for a while: the others must see that the set does not add up. */
function corrupted(
  held: HeldVersion,
  error: WinnowError,
  context: { readonly nowMs: number; readonly settings: RetrySettings },
): HeldVersion {
  const doubted = { ...held, wasComplete: false, isDoubted: true, corruptSinceMs: context.nowMs };
  return { ...doubted, trouble: troubleAfter(doubted, error, context) };
}

/** The rest of the share goes on answering; what was misread is tried again and again. */
function afterMisreading(
  held: HeldVersion,
  event: ReplicaEvent & { readonly kind: "misread" },
  context: { readonly nowMs: number; readonly settings: RetrySettings },
): HeldVersion {
  const replicas = new Map(held.replicas);
  for (const replica of event.replicas) replicas.set(replica, { phase: "misread" });
  const lessened = { ...held, replicas, wasComplete: true };
  return { ...lessened, trouble: troubleAfter(lessened, event.error, context) };
}

function troubleAfter(
  held: HeldVersion,
  error: WinnowError,
  { nowMs, settings }: { readonly nowMs: number; readonly settings: RetrySettings },
): Trouble {
  const attempts = (held.trouble?.attempts ?? 0) + 1;
  // A share that was complete serves requests, and memory comes and goes: both are tried for ever.
  const isPatient = held.wasComplete || error.code === "RESOURCE_EXHAUSTED";
  const isLast = attempts > settings.maxLoadRetries && !isPatient;
  return {
    error,
    attempts,
    retryAtMs: isLast ? Infinity : nowMs + settings.loadRetryIntervalMs,
  };
}
