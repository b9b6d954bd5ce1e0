// What this worker holds and takes for the default version, as data, and how each finished piece of work and
// each verdict changes that state. Nothing here acts or waits: `replica-plan.ts` decides what to do next from
// this state, and `replica-control.ts` does it.
//
// What is held is a content: what a version directory held when it was opened. The version number says which
// directory that was; the stamp of the files says whether the directory still holds the content. A directory
// that is replaced in place is another content of the same number, held beside the first one until it can
// take over. Nobody can read the first one any more, so it lives in memory alone.
//
//                                   not wanted, or replaced by a content that was opened
//                                                  │
//   copying ──▶ found ──▶ opening ──▶ open ────────┴──▶ leaving ──────▶ unloading ──▶ closing ──▶ (gone)
//     the files   ▲        │   │       ▲ │              serves, or its     a grace:      │
//     still change│ retry  ▼   │       │ │              successor is not   routers may   │
//                 └──── failed │       │ │              complete yet       still ask     │
//                         ▲    │       └─┼─────────────── wanted again ◀───┘             │
//                         │    │         └─ a partition cannot be loaded, and the assignment ─┘
//                         │    │            never was complete; or the shares do not add up
//                         └────┼───────────────────────────── closed ────────────────────┘
//                              ▼
//                  (gone): the files hold a content that is open already, which goes on with their stamp
//
// A replica (one partition of one table of an open version):
//
//   (absent) ──▶ loading ──▶ ready ◀──▶ retiring ──▶ releasing ──▶ (absent)
//                   │                 not intended here and every       grace over: no router
//                   ▼                 intended owner announces it;      can still pin it
//                (absent)             unannounced, still answers
//
// A ready replica that is found to be corrupt (`version-proof.ts`) is released at once.
//
// What is known of a content, beside its life:
//
//   incomplete ──▶ complete     the whole intended assignment has been ready here at some time
//     │      ▲
//     ▼      │ the shares of all workers add up
//   doubted ─┘     they did not: closed, opened and loaded again, until they do
//
// Shares that add up are the verified ones of an incomplete or complete content for as long as it is open
// (`version-proof.ts`). A doubted content has none.
//
// Objects are replaced, never changed.

import { isSameVersion } from "@winnow/cluster";
import { groupedByModel } from "@winnow/core";
import type { Fingerprint, VersionKey, WinnowError } from "@winnow/core";

import type { ContentHandle, LoadedReplica, OpenedVersion } from "../compute/compute.ts";
import type { FoundVersion } from "../models/directory-stillness.ts";

/** One partition on this worker. */
export type Replica =
  | { readonly phase: "loading" }
  | { readonly phase: "ready"; readonly loaded: LoadedReplica }
  | { readonly phase: "retiring"; readonly loaded: LoadedReplica; readonly sinceMs: number }
  /** Its checksum shares differ from the verified ones: it is released, and read again later. */
  | { readonly phase: "corrupt" }
  | { readonly phase: "releasing" };

/** The last failure, and when to try again. */
interface Trouble {
  readonly error: WinnowError;
  /** Failures in a row. */
  readonly attempts: number;
  /** `Infinity`: only when the files change. */
  readonly retryAtMs: number;
  /** Whether a content that was never complete here has failed more often than is retried. */
  readonly isLasting: boolean;
}

/** Checksum shares of each partition that add up, by table; `undefined`: no checksum is stored for it. */
export type VerifiedShares = readonly (readonly (readonly number[])[] | undefined)[];

/** What is known of a content's replicas, here and on all workers. */
type ContentStatus =
  /** `verified`: `undefined` until the shares of all workers have added up since it was opened. */
  | { readonly kind: "incomplete"; readonly verified: VerifiedShares | undefined }
  | { readonly kind: "complete"; readonly verified: VerifiedShares | undefined }
  /** `corruptSinceMs`: since when the replicas held at present are known not to add up. */
  | { readonly kind: "doubted"; readonly corruptSinceMs: number | undefined };

/** The phases of a content's life on this worker. */
type VersionPhase =
  | { readonly phase: "copying" }
  | { readonly phase: "found" }
  | { readonly phase: "opening" }
  | { readonly phase: "open"; readonly opened: OpenedVersion }
  /** Announced as unloading. Loads nothing more, and answers until its successor can. */
  | { readonly phase: "leaving"; readonly opened: OpenedVersion }
  | { readonly phase: "unloading"; readonly opened: OpenedVersion; readonly sinceMs: number }
  | { readonly phase: "closing"; readonly next: AfterClose }
  | { readonly phase: "failed" };

/** What becomes of a content once it is closed: it is forgotten, or remembered as failed. */
export type AfterClose = "gone" | "failed";

/** A content of a version directory, and what is held of it. */
export interface HeldVersion {
  /** This worker's own name for the content, never used twice. */
  readonly id: string;
  readonly model: string;
  readonly version: number;
  readonly directory: string;
  /** Stamp of the files that hold (or held) the content. */
  readonly stamp: string;
  readonly life: VersionPhase;
  /** By `replicaKey`. */
  readonly replicas: ReadonlyMap<number, Replica>;
  readonly trouble: Trouble | undefined;
  /**
   * Why the rest of the assignment is not loaded: not enough memory, with figures; `UNAVAILABLE` where enough is
   * about to be given up by other versions.
   */
  readonly refusal: WinnowError | undefined;
  readonly status: ContentStatus;
  /** Whether an older version is to take over: announced as unloading, and kept while it is the default. */
  readonly isLeft: boolean;
}

/** A version that was the default until another version, or none, took its place. */
interface FormerVersion {
  readonly key: VersionKey;
  readonly endedAtMs: number;
}

/** The default version of a model and those that are to replace it, while they share memory (`version-swaps.ts`). */
export interface VersionSwap {
  /** The content that is the default, by its id, while it is open here. */
  readonly serving: string | undefined;
  /** Contents that are to replace it, by their ids: intended on fewer workers. */
  readonly followers: ReadonlySet<string>;
  /** Whether the default version is intended on fewer workers, too. */
  readonly isReduced: boolean;
  /** Followers that load nothing here before others have what they lack. */
  readonly last: ReadonlySet<string>;
  /** Whether these others lack the memory that the last ones have. */
  readonly isShort: boolean;
}

/** The whole state that this worker decides from. Everything else is told anew or derived each time. */
export interface ReplicaSet {
  /** All contents, by id. */
  readonly versions: ReadonlyMap<string, HeldVersion>;
  /** How many contents have been added so far; numbers the id of the next one. */
  readonly seen: number;
  /** The default version of each model, as this worker derives it (`serving-versions.ts`). */
  readonly serving: ReadonlyMap<string, VersionKey>;
  /** Versions that were the default until a moment ago, by model. */
  readonly formerlyServing: ReadonlyMap<string, FormerVersion>;
  /** By model. */
  readonly swaps: ReadonlyMap<string, VersionSwap>;
  /** Since when all looks at the hold of a drain have found every partition covered (`drain-hold.ts`). */
  readonly coveredSinceMs: number | undefined;
}

/** A worker that holds nothing. */
export const emptyReplicaSet: ReplicaSet = {
  versions: new Map(),
  seen: 0,
  serving: new Map(),
  formerlyServing: new Map(),
  swaps: new Map(),
  coveredSinceMs: undefined,
};

const PARTITIONS_PER_TABLE = 65_536;

/** Names a partition within a version. */
export function replicaKey(table: number, partition: number): number {
  return table * PARTITIONS_PER_TABLE + partition;
}

/** The inverse of `replicaKey`. */
export function replicaOfKey(key: number): { readonly table: number; readonly partition: number } {
  return { table: Math.floor(key / PARTITIONS_PER_TABLE), partition: key % PARTITIONS_PER_TABLE };
}

/** The set with one more content, of a version directory that nobody has opened yet. */
export function withFound(
  set: ReplicaSet,
  found: FoundContent,
  life: HeldVersion["life"] = { phase: "found" },
): ReplicaSet {
  const { model, version, directory, stamp } = found;
  const seen = set.seen + 1;
  const held: HeldVersion = {
    id: `${model}/${version}#${seen}`,
    model,
    version,
    directory,
    stamp,
    life,
    replicas: new Map(),
    trouble: undefined,
    refusal: undefined,
    status: { kind: "incomplete", verified: undefined },
    isLeft: false,
  };
  return withVersion({ ...set, seen }, held);
}

/** A version directory as it is now. */
type FoundContent = FoundVersion & { readonly model: string };

/** The content of a directory as it is now, if that content is in the set. */
export function heldAs(set: ReplicaSet, found: FoundContent): HeldVersion | undefined {
  return contentsOf(set, found).find((held) => isHeldAs(held, found));
}

/** Whether a content lies in the files of a directory as they are now. */
export function isHeldAs(
  held: Pick<HeldVersion, "model" | "version" | "directory" | "stamp">,
  found: FoundContent,
): boolean {
  return (
    held.model === found.model &&
    held.version === found.version &&
    held.directory === found.directory &&
    held.stamp === found.stamp
  );
}

/** Made when first asked for: what is done for each of a thousand models must not go through all of them. */
const contentsByModel = new WeakMap<
  ReplicaSet["versions"],
  ReadonlyMap<string, readonly HeldVersion[]>
>();

/** All contents of one model, in the order in which they were found. */
export function contentsOfModel({ versions }: ReplicaSet, model: string): readonly HeldVersion[] {
  let byModel = contentsByModel.get(versions);
  if (byModel === undefined) {
    byModel = groupedByModel(versions.values());
    contentsByModel.set(versions, byModel);
  }
  return byModel.get(model) ?? [];
}

/** Made when first asked for, as `contentsByModel` is. */
const contentsByRows = new WeakMap<
  ReplicaSet["versions"],
  ReadonlyMap<Fingerprint, readonly HeldVersion[]>
>();

/** All opened contents whose tables have the rows of one content, itself among them. */
export function contentsOfRows(
  { versions }: ReplicaSet,
  rowsFingerprint: Fingerprint,
): readonly HeldVersion[] {
  let byRows = contentsByRows.get(versions);
  if (byRows === undefined) {
    byRows = groupedByRows(versions.values());
    contentsByRows.set(versions, byRows);
  }
  return byRows.get(rowsFingerprint) ?? [];
}

function groupedByRows(contents: Iterable<HeldVersion>): Map<Fingerprint, HeldVersion[]> {
  const byRows = new Map<Fingerprint, HeldVersion[]>();
  for (const held of contents) {
    const rows = openedOf(held)?.rowsFingerprint;
    if (rows === undefined) continue;
    const known = byRows.get(rows);
    if (known === undefined) byRows.set(rows, [held]);
    else known.push(held);
  }
  return byRows;
}

/** All contents of one number. */
export function contentsOf(
  set: ReplicaSet,
  { model, version }: { readonly model: string; readonly version: number },
): HeldVersion[] {
  return contentsOfModel(set, model).filter((held) => held.version === version);
}

/** The open content of exactly this identity. */
export function heldContent(set: ReplicaSet, key: VersionKey): HeldVersion | undefined {
  return contentsOf(set, key).find((held) => openedOf(held)?.fingerprint === key.fingerprint);
}

/** The opened version of a content that answers for its loaded replicas; `undefined` in other phases. */
export function openedOf({ life }: HeldVersion): OpenedVersion | undefined {
  return "opened" in life ? life.opened : undefined;
}

/** Whether a content is the default, as this worker derives it. */
export function isServing({ serving }: ReplicaSet, key: VersionKey): boolean {
  const now = serving.get(key.model);
  return now !== undefined && isSameVersion(now, key);
}

/**
 * Whether a content counts as failed, so that another version is chosen. This includes a content that was
 * complete here, whose assignment has grown since and could not be loaded in as many attempts as a new
 * content has, unless it is the default: its loaded replicas go on answering, and the rest is retried.
 */
export function isFailed(held: HeldVersion, isServed: (held: HeldVersion) => boolean): boolean {
  const { life, status, trouble } = held;
  if (life.phase !== "open") return life.phase === "failed";
  if (status.kind !== "complete") return status.kind === "doubted";
  return trouble?.isLasting === true && !isServed(held);
}

/** Whether a content does not fit, even when other versions have given up what they are about to give up. */
export function isRefused({ refusal }: HeldVersion): boolean {
  return refusal !== undefined && refusal.code !== "UNAVAILABLE";
}

/** Whether a content is intended on fewer workers, because it shares memory with another version. */
export function isOnFewerWorkers({ swaps }: ReplicaSet, { id, model }: HeldVersion): boolean {
  const swap = swaps.get(model);
  if (swap === undefined) return false;
  return swap.followers.has(id) || (swap.isReduced && swap.serving === id);
}

/** The bytes and checksum shares of a replica, while it answers. */
export function loadedOf(replica: Replica | undefined): LoadedReplica | undefined {
  return replica?.phase === "ready" || replica?.phase === "retiring" ? replica.loaded : undefined;
}

/** The set with one content replaced. */
export function withVersion(set: ReplicaSet, held: HeldVersion): ReplicaSet {
  if (set.versions.get(held.id) === held) return set;
  return { ...set, versions: new Map(set.versions).set(held.id, held) };
}

/** The set without one content. */
export function withoutVersion(set: ReplicaSet, id: string): ReplicaSet {
  const versions = new Map(set.versions);
  versions.delete(id);
  return { ...set, versions };
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

/** The shares of an open content that have added up over all workers, if they have. */
export function verifiedOf({ status }: HeldVersion): VerifiedShares | undefined {
  return status.kind === "doubted" ? undefined : status.verified;
}

/**
 * The end of a piece of work that an effect of the plan began, or a verdict on what all workers have read.
 * `id` names the content.
 */
export type ReplicaEvent = { readonly id: string } & (
  | { readonly kind: "opened"; readonly opened: OpenedVersion }
  | { readonly kind: "openFailed"; readonly error: WinnowError }
  /** It was asked for and has not begun. */
  | { readonly kind: "openPostponed" }
  | { readonly kind: "loaded"; readonly replica: number; readonly loaded: LoadedReplica }
  | { readonly kind: "loadFailed"; readonly replica: number; readonly error: WinnowError }
  | { readonly kind: "proven"; readonly verified: VerifiedShares }
  | { readonly kind: "corrupt"; readonly error: WinnowError }
  | {
      readonly kind: "corruptReplicas";
      readonly replicas: readonly number[];
      readonly error: WinnowError;
    }
  | { readonly kind: "released"; readonly replica: number }
  | { readonly kind: "closed" }
);

/** How often a failed version is tried again. */
export interface RetrySettings {
  /** Tries after the first, while the files stay the same. */
  readonly maxLoadRetries: number;
  readonly loadRetryIntervalMs: number;
}

/** The set after an event. An event for a content that is gone changes nothing. */
export function applyEvent(
  set: ReplicaSet,
  event: ReplicaEvent,
  context: { readonly nowMs: number; readonly settings: RetrySettings },
): ReplicaSet {
  const held = set.versions.get(event.id);
  if (held === undefined) return set;
  switch (event.kind) {
    case "opened":
      return afterOpen(set, held, { opened: event.opened, nowMs: context.nowMs });
    case "openFailed": {
      const trouble = troubleAfter(held, event.error, context);
      return withVersion(set, { ...held, life: { phase: "failed" }, trouble });
    }
    case "openPostponed":
      return withVersion(set, beforeOpen(held));
    case "loaded": {
      const ready = { phase: "ready", loaded: event.loaded } as const;
      return withVersion(set, withReplica(held, event.replica, ready));
    }
    case "loadFailed":
      return withVersion(set, afterFailedLoad(held, event, context));
    case "proven":
      return withVersion(set, proven(held, event.verified));
    case "corrupt":
      return withVersion(set, corrupted(held, event.error, context));
    case "corruptReplicas":
      return withVersion(set, afterCorruptReplicas(held, event, context));
    case "released":
      return afterRelease(set, held, event.replica);
    case "closed":
      return afterClose(set, held);
  }
}

/** A content as it was before it was asked to be opened. */
function beforeOpen(held: HeldVersion): HeldVersion {
  return { ...held, life: { phase: held.trouble === undefined ? "found" : "failed" } };
}

/**
 * The end of an open. If the files hold a content that is open already, that content goes on with the stamp
 * of these files: its replicas stay, and loads that failed because the former files were gone may be retried.
 */
function afterOpen(
  set: ReplicaSet,
  held: HeldVersion,
  { opened, nowMs }: { readonly opened: OpenedVersion; readonly nowMs: number },
): ReplicaSet {
  const twin = withHandle(set, opened.handle);
  if (twin === undefined) return withVersion(set, { ...held, life: { phase: "open", opened } });
  const { stamp, directory, isLeft } = held;
  const life = { phase: "open", opened: openedOf(twin) ?? opened } as const;
  const trouble = twin.trouble && {
    ...twin.trouble,
    attempts: 0,
    retryAtMs: nowMs,
    isLasting: false,
  };
  const renewed = { ...twin, stamp, directory, isLeft, life, trouble };
  return withVersion(withoutVersion(set, held.id), renewed);
}

function withHandle({ versions }: ReplicaSet, handle: ContentHandle): HeldVersion | undefined {
  return [...versions.values()].find((held) => openedOf(held)?.handle === handle);
}

function afterRelease(set: ReplicaSet, held: HeldVersion, replica: number): ReplicaSet {
  // Another copy of the replica has begun to load in the meantime; that copy stays.
  if (held.replicas.get(replica)?.phase !== "releasing") return set;
  return withVersion(set, withReplica(held, replica, undefined));
}

function afterClose(set: ReplicaSet, held: HeldVersion): ReplicaSet {
  const next = held.life.phase === "closing" ? held.life.next : "gone";
  if (next === "gone") return withoutVersion(set, held.id);
  const status = unproven(held.status);
  return withVersion(set, { ...held, life: { phase: next }, status, replicas: new Map() });
}

/** What stays known of a content after it is closed: its replicas, and their verified shares, are gone. */
function unproven({ kind }: ContentStatus): ContentStatus {
  return kind === "doubted" ? { kind, corruptSinceMs: undefined } : { kind, verified: undefined };
}

/** A doubted content whose shares add up starts anew: nothing of it has been complete yet. */
function proven(held: HeldVersion, verified: VerifiedShares): HeldVersion {
  const { status } = held;
  if (status.kind !== "doubted") return { ...held, status: { ...status, verified } };
  return { ...held, status: { kind: "incomplete", verified }, trouble: undefined };
}

/** The state after a failed load. Loads run in pairs: if both fail, that counts as one attempt. */
function afterFailedLoad(
  held: HeldVersion,
  event: ReplicaEvent & { readonly kind: "loadFailed" },
  context: { readonly nowMs: number; readonly settings: RetrySettings },
): HeldVersion {
  const isCounted = (held.trouble?.retryAtMs ?? 0) > context.nowMs;
  const trouble = isCounted ? held.trouble : troubleAfter(held, event.error, context);
  return { ...withReplica(held, event.replica, undefined), trouble };
}

/**
 * The state of a content whose shares do not add up. They stay announced for a while, so that other workers
 * see them too.
 */
function corrupted(
  held: HeldVersion,
  error: WinnowError,
  context: { readonly nowMs: number; readonly settings: RetrySettings },
): HeldVersion {
  const status = { kind: "doubted", corruptSinceMs: context.nowMs } as const;
  const doubted = { ...held, status };
  return { ...doubted, trouble: troubleAfter(doubted, error, context) };
}

/**
 * The state after replicas turned out to be corrupt. The others go on answering; corrupt ones are read again
 * and again.
 */
function afterCorruptReplicas(
  held: HeldVersion,
  event: ReplicaEvent & { readonly kind: "corruptReplicas" },
  context: { readonly nowMs: number; readonly settings: RetrySettings },
): HeldVersion {
  const replicas = new Map(held.replicas);
  for (const replica of event.replicas) replicas.set(replica, { phase: "corrupt" });
  const status = { kind: "complete", verified: verifiedOf(held) } as const;
  const lessened = { ...held, replicas, status };
  return { ...lessened, trouble: troubleAfter(lessened, event.error, context) };
}

function troubleAfter(
  held: HeldVersion,
  error: WinnowError,
  { nowMs, settings }: { readonly nowMs: number; readonly settings: RetrySettings },
): Trouble {
  const attempts = (held.trouble?.attempts ?? 0) + 1;
  // A model that needs an operation that Winnow does not have would fail again until its files change.
  const isHopeless = error.code === "UNIMPLEMENTED";
  const isTriedOut = attempts > settings.maxLoadRetries && error.code !== "RESOURCE_EXHAUSTED";
  const isBeyond = isHopeless || isTriedOut;
  // Retried for ever: an assignment that was complete (its version may be the default), storage that is away, and a lack
  // of memory (some may become free).
  const isLast = isBeyond && held.status.kind !== "complete" && error.code !== "UNAVAILABLE";
  return {
    error,
    attempts,
    retryAtMs: isLast ? Infinity : nowMs + settings.loadRetryIntervalMs,
    isLasting: isBeyond,
  };
}
