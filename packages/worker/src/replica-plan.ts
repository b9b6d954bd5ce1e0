// What to do next, decided from what is held (`replica-set.ts`) and what is known of the world. A
// pure function, run again after every change: it names the effects to start and the time at which
// it must be asked again even if nothing changes.
//
// Rules (reliability: placement, version pin and unload):
//  - one open at a time, or loads of one version (`replica-jobs.ts`); the serving version before
//    every other one;
//  - partitions that nobody else answers for come first, so that coverage comes early;
//  - a share that does not fit into memory is refused before anything is read;
//  - a replica is given up only when it is not intended here and every intended owner announces it
//    with the same content,
//    and freed only when no router can still have it in its table;
//  - a version that does not add up is let go once the others have seen its shares;
//  - a version is given up only when it is neither wanted nor serving, and freed after a grace.

import { haveEqualShares } from "@winnow/cluster";
import type { VersionKey } from "@winnow/core";

import type { Holders } from "./cluster-view.ts";
import type { OpenedVersion } from "./compute/compute.ts";
import {
  foundVersion,
  replicaOfKey,
  versionKey,
  withReplica,
  withVersion,
  withoutVersion,
} from "./replica-set.ts";
import type { AfterClose, HeldVersion, Replica, ReplicaSet } from "./replica-set.ts";
import { nextJob } from "./replica-jobs.ts";
import { VersionShare, isBusy, isLoading, occupiedBytesOf, refusalOf } from "./replica-share.ts";
import type { Intent } from "./replica-share.ts";
import { hasComingSuccessor } from "./version-succession.ts";
import type { FoundVersion } from "./version-watch.ts";

/** A version to hold, in the order of importance. */
export interface WantedVersion {
  readonly model: string;
  readonly found: FoundVersion;
  /** The version the cluster answers with by default. */
  readonly isServing: boolean;
  /** It serves until an older one, which the policy names instead, is ready everywhere. */
  readonly isLeft: boolean;
}

/** What is known of the world when deciding. */
export interface ReplicaFacts extends Intent {
  readonly nowMs: number;
  readonly wanted: readonly WantedVersion[];
  /** Other workers, not in drain, that announce each partition of a table as ready. */
  announcedHolders(version: VersionKey, table: number): Holders;
  /** The default version of each model. */
  readonly serving: ReadonlyMap<string, VersionKey>;
  /** False until this worker is among those that partitions are placed on: nothing is decided. */
  readonly placed: boolean;
  /** Bytes that may still be loaded. */
  readonly freeBytes: number;
  /** A worker in drain keeps what it has and begins nothing. */
  readonly draining: boolean;
  readonly grace: GraceSettings;
}

/** How long something unannounced is kept for routers that still have it in their table. */
export interface GraceSettings {
  readonly replicaGraceMs: number;
  readonly versionGraceMs: number;
}

/** Work to start; `key` names the version. */
export type ReplicaEffect = { readonly key: string } & (
  | { readonly kind: "open"; readonly directory: string }
  | { readonly kind: "load"; readonly replica: number }
  | { readonly kind: "release"; readonly replica: number }
  | { readonly kind: "close" }
);

/** A decision. */
export interface ReplicaPlan {
  readonly set: ReplicaSet;
  readonly effects: readonly ReplicaEffect[];
  /** Ask again at this time at the latest; `Infinity`: only after a change. */
  readonly wakeAtMs: number;
}

/** Decides what to do next. */
export function planReplicas(set: ReplicaSet, facts: ReplicaFacts): ReplicaPlan {
  const planner = new Planner(set, facts);
  for (const wanted of facts.wanted) planner.meet(wanted);
  for (const held of planner.set.versions.values()) planner.follow(held);
  planner.startJobs();
  return { set: planner.set, effects: planner.effects, wakeAtMs: planner.wakeAtMs };
}

/** Collects the effects of one decision; lives only within `planReplicas`. */
class Planner {
  set: ReplicaSet;
  readonly effects: ReplicaEffect[] = [];
  wakeAtMs = Infinity;
  readonly #facts: ReplicaFacts;
  readonly #wanted: ReadonlyMap<string, WantedVersion>;
  /** An open, a load or an ending is under way: memory figures are in motion. */
  readonly #isBusy: boolean;

  constructor(set: ReplicaSet, facts: ReplicaFacts) {
    this.set = set;
    this.#facts = facts;
    this.#isBusy = [...set.versions.values()].some(isBusy);
    this.#wanted = new Map(
      facts.wanted.map((each) => [
        versionKey({ model: each.model, version: each.found.version }),
        each,
      ]),
    );
  }

  /** Takes a wanted version up, or notices that its files have changed. */
  meet(wanted: WantedVersion): void {
    const { model, found, isServing, isLeft } = wanted;
    const known = this.set.versions.get(versionKey({ model, version: found.version }));
    if (known === undefined) {
      if (!this.#facts.draining) this.#put(foundVersion(model, found));
      return;
    }
    const held = known.isLeft === isLeft ? known : { ...known, isLeft };
    this.#put(held);
    if (held.stamp === found.stamp) return;
    const fresh = foundVersion(model, found);
    if (held.life.phase === "failed" || held.life.phase === "found") this.#put(fresh);
    // A serving version stays as it was read: its directory should never have been touched.
    if (held.life.phase === "open" && !isServing) {
      this.#close({ ...held, ...fresh, replicas: held.replicas }, "found");
    }
  }

  /** Moves one version on along its life. */
  follow(held: HeldVersion): void {
    const isWanted = this.#wanted.has(versionKey(held));
    switch (held.life.phase) {
      case "found":
      case "failed":
        if (!isWanted) this.set = withoutVersion(this.set, versionKey(held));
        return;
      case "opening":
      case "closing":
        return;
      case "open":
        if (isWanted || this.#facts.draining) this.#followOpen(held, held.life.opened);
        else this.#beginUnload(held, held.life.opened);
        return;
      case "unloading":
        if (this.#isBack(held))
          this.#put({ ...held, life: { phase: "open", opened: held.life.opened } });
        else if (!hasComingSuccessor(held, this.set, this.#facts))
          this.#endUnload(held, held.life.sinceMs);
    }
  }

  /** Its directory is there again, as it was read or while the version serves as it was read. */
  #isBack(held: HeldVersion): boolean {
    const wanted = this.#wanted.get(versionKey(held));
    return wanted !== undefined && (wanted.isServing || wanted.found.stamp === held.stamp);
  }

  /** Starts the most important opens and loads that may begin now. */
  startJobs(): void {
    for (;;) {
      const { job, wakeAtMs } = nextJob(this.set, this.#facts);
      this.#wakeBy(wakeAtMs);
      if (job === undefined) return;
      const { held } = job;
      const key = versionKey(held);
      if (job.kind === "open") {
        this.#put({ ...held, life: { phase: "opening" } });
        this.effects.push({ kind: "open", key, directory: held.directory });
      } else {
        this.#put(withReplica(held, job.replica, { phase: "loading" }));
        this.effects.push({ kind: "load", key, replica: job.replica });
      }
    }
  }

  #followOpen(held: HeldVersion, opened: OpenedVersion): void {
    const { trouble, corruptSinceMs } = held;
    if (corruptSinceMs !== undefined) {
      this.#whenDue(corruptSinceMs + CORRUPT_KEPT_MS, () => this.#close(held, "failed"));
      return;
    }
    if (trouble !== undefined && !held.wasComplete && trouble.retryAtMs > this.#facts.nowMs) {
      this.#close(held, "failed");
      return;
    }
    const share = new VersionShare(held, opened, this.#facts);
    let changed: Map<number, Replica> | undefined;
    for (const [key, replica] of held.replicas) {
      const next = this.#followReplica(held, { key, replica, share });
      if (next !== replica) changed = (changed ?? new Map(held.replicas)).set(key, next);
    }
    const followed = changed === undefined ? held : { ...held, replicas: changed };
    this.#put(this.#admitted(followed, share));
  }

  /** Gives a replica up, takes it back, or frees it. */
  #followReplica(held: HeldVersion, at: ReplicaAt): Replica {
    const { key, replica } = at;
    const { nowMs, grace, draining, placed } = this.#facts;
    if (replica.phase === "misread") {
      this.effects.push({ kind: "release", key: versionKey(held), replica: key });
      return { phase: "releasing" };
    }
    if (replica.phase !== "ready" && replica.phase !== "retiring") return replica;
    const { loaded } = replica;
    const isNeeded = draining || !placed || this.#isNeeded(at, loaded.shares);
    if (isNeeded) return replica.phase === "ready" ? replica : { phase: "ready", loaded };
    const sinceMs = replica.phase === "ready" ? nowMs : replica.sinceMs;
    if (nowMs >= sinceMs + grace.replicaGraceMs) {
      this.effects.push({ kind: "release", key: versionKey(held), replica: key });
      return { phase: "releasing" };
    }
    this.#wakeBy(sinceMs + grace.replicaGraceMs);
    return replica.phase === "ready" ? { phase: "retiring", loaded, sinceMs } : replica;
  }

  /** Intended here, or not yet announced as the same by all who are to have it instead. */
  #isNeeded({ key, share }: ReplicaAt, shares: readonly number[]): boolean {
    const owners = share.ownersOf(key);
    if (owners.length === 0 || owners.includes(this.#facts.workerId)) return true;
    const { table, partition } = replicaOfKey(key);
    const holders = this.#facts.announcedHolders(share.key, table).get(partition);
    return !owners.every((owner) => {
      const theirs = holders?.get(owner);
      return theirs !== undefined && haveEqualShares(theirs, shares);
    });
  }

  /** Refuses what memory does not admit, and notes a share that is complete. */
  #admitted(held: HeldVersion, share: VersionShare): HeldVersion {
    if (this.#isBusy || !this.#facts.placed) return held;
    const missing = share.missing(held);
    if (missing.length === 0) {
      if (held.isDoubted) return held;
      if (held.wasComplete && held.refusal === undefined && held.trouble === undefined) return held;
      return { ...held, refusal: undefined, trouble: undefined, wasComplete: true };
    }
    const neededBytes = occupiedBytesOf(this.set, held, missing);
    const { freeBytes, workerId } = this.#facts;
    if (neededBytes > freeBytes) {
      return { ...held, refusal: refusalOf(held, { neededBytes, freeBytes, workerId }) };
    }
    return held.refusal === undefined ? held : { ...held, refusal: undefined };
  }

  #beginUnload(held: HeldVersion, opened: OpenedVersion): void {
    const sinceMs = this.#facts.nowMs;
    this.#put({ ...held, life: { phase: "unloading", opened, sinceMs } });
    this.#wakeBy(sinceMs + this.#facts.grace.versionGraceMs);
  }

  #endUnload(held: HeldVersion, sinceMs: number): void {
    this.#whenDue(sinceMs + this.#facts.grace.versionGraceMs, () => this.#close(held, "gone"));
  }

  /** Closes a version, unless it is being loaded: the end of each load leads to another plan. */
  #close(held: HeldVersion, next: AfterClose): void {
    if (isLoading(held)) return;
    this.#put({ ...held, life: { phase: "closing", next } });
    this.effects.push({ kind: "close", key: versionKey(held) });
  }

  #put(held: HeldVersion): void {
    if (this.set.versions.get(versionKey(held)) !== held) this.set = withVersion(this.set, held);
  }

  #whenDue(dueMs: number, act: () => void): void {
    if (this.#facts.nowMs >= dueMs) act();
    else this.#wakeBy(dueMs);
  }

  #wakeBy(timeMs: number): void {
    this.wakeAtMs = Math.min(this.wakeAtMs, timeMs);
  }
}

interface ReplicaAt {
  readonly key: number;
  readonly replica: Replica;
  readonly share: VersionShare;
}

/** Longer than the slowest membership store takes to tell of an announcement. */
const CORRUPT_KEPT_MS = 5000;
