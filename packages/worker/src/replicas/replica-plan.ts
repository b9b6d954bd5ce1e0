// What to do next, decided from what is held (`replica-set.ts`) and what is known of the world. A
// pure function, run again after every change: it names the effects to start and the time at which
// it must be asked again even if nothing changes.
//
// Rules (reliability: placement, version pin and unload):
//  - one open at a time, or loads of one version (`replica-jobs.ts`); the serving version before
//    every other one;
//  - partitions that nobody else answers for come first, so that coverage comes early;
//  - a assignment that does not fit into memory is refused before anything is read;
//  - a replica is given up only when it is neither intended here nor an extra one
//    (`extra-replicas.ts`) and every intended owner announces it with the same content, and freed only
//    when no router can still have it in its table;
//  - a version that does not add up is let go once the others have seen its shares;
//  - a content is given up only when it is neither wanted nor needed until its successor can answer
//    (`version-succession.ts`), and freed after a grace that begins then.

import { haveEqualShares } from "@winnow/cluster";

import type { ContentHandle, OpenedVersion, VersionDirectory } from "../compute/compute.ts";
import {
  contentsOf,
  heldAs,
  isHeldAs,
  openedOf,
  replicaOfKey,
  withFound,
  withReplica,
  withVersion,
  withoutVersion,
} from "./replica-set.ts";
import type { AfterClose, HeldVersion, Replica, ReplicaSet } from "./replica-set.ts";
import { extraReplicas } from "./extra-replicas.ts";
import type { ExtraReplicas } from "./extra-replicas.ts";
import { nextJob } from "./replica-jobs.ts";
import { Assignment, isBusy, isLoading, occupiedBytesOf, refusalOf } from "./assignment.ts";
import { isNeededUntilFollowed, replacementOf } from "./version-succession.ts";
import type { ReplicaFacts, WantedVersion } from "./replica-facts.ts";

/** Work to start; `id` names the content. */
export type ReplicaEffect = { readonly id: string } & (
  | {
      readonly kind: "open";
      readonly from: VersionDirectory;
      /** Its files as they were found; `undefined` where they keep changing and are opened all the same. */
      readonly stamp: string | undefined;
      readonly siblings: readonly ContentHandle[];
    }
  | { readonly kind: "load"; readonly handle: ContentHandle; readonly replica: number }
  | { readonly kind: "release"; readonly handle: ContentHandle; readonly replica: number }
  | { readonly kind: "close"; readonly handle: ContentHandle }
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
  if (!facts.draining) planner.takeUp();
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
  /** An open, a load or an ending is under way: memory figures are in motion. */
  readonly #isBusy: boolean;
  readonly #extras: ExtraReplicas;

  constructor(set: ReplicaSet, facts: ReplicaFacts) {
    this.set = set;
    this.#facts = facts;
    this.#isBusy = [...set.versions.values()].some(isBusy);
    const mayHoldMore = facts.placed && !facts.draining;
    this.#extras = mayHoldMore ? extraReplicas(set, facts) : new Map();
  }

  /** Adds what is wanted and not known yet: a new directory, or one that holds something else now. */
  takeUp(): void {
    for (const { model, found } of this.#facts.wanted) {
      if (heldAs(this.set, { model, ...found }) === undefined) {
        this.set = withFound(this.set, { model, ...found });
      }
    }
    for (const { model, found } of this.#facts.copying) {
      // Files that have been changing for too long are opened as they are: those are not added again.
      const isKnown = contentsOf(this.set, { model, ...found }).some(
        (held) => held.life.phase === "copying" || isHeldAs(held, { model, ...found }),
      );
      if (!isKnown) this.set = withFound(this.set, { model, ...found }, { phase: "copying" });
    }
  }

  /** Moves one content on along its life. */
  follow(before: HeldVersion): void {
    const wanted = this.#wantedAs(before);
    const isLeft = wanted?.isLeft === true;
    const held = before.isLeft === isLeft ? before : { ...before, isLeft };
    this.#put(held);
    const { life } = held;
    if ("opened" in life) this.#followOpened(held, life.opened, wanted !== undefined);
    else if (life.phase === "copying" && wanted !== undefined) {
      this.#put({ ...held, life: { phase: "found" } }); // Its files are still as they were last seen.
    } else if (!this.#isAwaited(held, wanted)) this.set = withoutVersion(this.set, held.id);
  }

  /** Whether a content that is not open has something before it. */
  #isAwaited(held: HeldVersion, wanted: WantedVersion | undefined): boolean {
    const { phase } = held.life;
    if (phase === "copying") return this.#isCopying(held);
    return phase === "opening" || phase === "closing" || wanted !== undefined;
  }

  #followOpened(held: HeldVersion, opened: OpenedVersion, isWanted: boolean): void {
    if (held.life.phase === "open") {
      if (isWanted || !this.#isToLeave(held)) this.#followOpen(held, opened);
      else this.#leave(held, opened);
    } else if (isWanted) this.#put({ ...held, life: { phase: "open", opened } });
    else this.#leave(held, opened);
  }

  /** The directory holds this very content and is wanted. */
  #wantedAs(held: HeldVersion): WantedVersion | undefined {
    return this.#facts.wanted.find(({ model, found }) => isHeldAs(held, { model, ...found }));
  }

  #isCopying({ model, version }: HeldVersion): boolean {
    return this.#facts.copying.some(
      (copying) => copying.model === model && copying.found.version === version,
    );
  }

  /**
   * Whether a content that is not wanted goes: not while nobody has seen what the files hold that are
   * there in place of its own.
   */
  #isToLeave(held: HeldVersion): boolean {
    if (this.#facts.draining) return false;
    const wanted = replacementOf(held, this.#facts);
    if (wanted === undefined) return true;
    const next = heldAs(this.set, { model: held.model, ...wanted.found });
    return next !== undefined && openedOf(next) !== undefined;
  }

  /** Keeps a content until what follows it can answer, and for a grace from then on. */
  #leave(held: HeldVersion, opened: OpenedVersion): void {
    const { nowMs, grace } = this.#facts;
    if (isNeededUntilFollowed(held, opened, { set: this.set, facts: this.#facts })) {
      if (held.life.phase !== "leaving") this.#put({ ...held, life: { phase: "leaving", opened } });
      return;
    }
    const sinceMs = held.life.phase === "unloading" ? held.life.sinceMs : nowMs;
    if (held.life.phase !== "unloading") {
      this.#put({ ...held, life: { phase: "unloading", opened, sinceMs } });
    }
    this.#whenDue(sinceMs + grace.versionGraceMs, () => this.#close(held, opened, "gone"));
  }

  /** Starts the most important opens and loads that may begin now. */
  startJobs(): void {
    for (;;) {
      const { job, wakeAtMs } = nextJob(this.set, this.#facts, this.#extras);
      this.#wakeBy(wakeAtMs);
      if (job === undefined) return;
      const { held } = job;
      const { id, model, version, directory } = held;
      const stamp = this.#isCopying(held) ? undefined : held.stamp;
      if (job.kind === "open") {
        const siblings = contentsOf(this.set, held).flatMap((each) => openedOf(each)?.handle ?? []);
        this.#put({ ...held, life: { phase: "opening" } });
        this.effects.push({
          kind: "open",
          id,
          from: { model, version, directory },
          stamp,
          siblings,
        });
      } else {
        const { replica, handle } = job;
        this.#put(withReplica(held, replica, { phase: "loading" }));
        this.effects.push({ kind: "load", id, handle, replica });
      }
    }
  }

  #followOpen(held: HeldVersion, opened: OpenedVersion): void {
    const { trouble, corruptSinceMs } = held;
    if (corruptSinceMs !== undefined) {
      this.#whenDue(corruptSinceMs + CORRUPT_KEPT_MS, () => this.#close(held, opened, "failed"));
      return;
    }
    if (trouble !== undefined && !held.wasComplete && trouble.retryAtMs > this.#facts.nowMs) {
      this.#close(held, opened, "failed");
      return;
    }
    const assignment = new Assignment(held, opened, this.#facts);
    let changed: Map<number, Replica> | undefined;
    for (const [key, replica] of held.replicas) {
      const next = this.#followReplica(held, { key, replica, assignment, handle: opened.handle });
      if (next !== replica) changed = (changed ?? new Map(held.replicas)).set(key, next);
    }
    const followed = changed === undefined ? held : { ...held, replicas: changed };
    // Nothing more is loaded of a content whose files hold something else.
    this.#put(this.#wantedAs(held) === undefined ? followed : this.#admitted(followed, assignment));
  }

  /** Gives a replica up, takes it back, or frees it. */
  #followReplica(held: HeldVersion, at: ReplicaAt): Replica {
    const { key, replica, handle } = at;
    const { nowMs, grace, draining, placed } = this.#facts;
    if (replica.phase === "corrupt") {
      this.effects.push({ kind: "release", id: held.id, handle, replica: key });
      return { phase: "releasing" };
    }
    if (replica.phase !== "ready" && replica.phase !== "retiring") return replica;
    const { loaded } = replica;
    const isNeeded = draining || !placed || this.#isNeeded(held, at, loaded.shares);
    if (isNeeded) return replica.phase === "ready" ? replica : { phase: "ready", loaded };
    const sinceMs = replica.phase === "ready" ? nowMs : replica.sinceMs;
    if (nowMs >= sinceMs + grace.replicaGraceMs) {
      this.effects.push({ kind: "release", id: held.id, handle, replica: key });
      return { phase: "releasing" };
    }
    this.#wakeBy(sinceMs + grace.replicaGraceMs);
    return replica.phase === "ready" ? { phase: "retiring", loaded, sinceMs } : replica;
  }

  /** Intended here, an extra one, or not yet announced as the same by all who are to have it instead. */
  #isNeeded(held: HeldVersion, at: ReplicaAt, shares: readonly number[]): boolean {
    const { key, assignment } = at;
    if (this.#extras.get(held.id)?.has(key) === true) return true;
    const owners = assignment.ownersOf(key);
    if (owners.length === 0 || owners.includes(this.#facts.workerId)) return true;
    const { table, partition } = replicaOfKey(key);
    const holders = this.#facts.announcedHolders(assignment.key, table).get(partition);
    return !owners.every((owner) => {
      const theirs = holders?.get(owner);
      return theirs !== undefined && haveEqualShares(theirs, shares);
    });
  }

  /** Refuses what memory does not admit, and notes a assignment that is complete. */
  #admitted(held: HeldVersion, assignment: Assignment): HeldVersion {
    if (this.#isBusy || !this.#facts.placed) return held;
    const missing = assignment.missing(held);
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

  /**
   * Closes a content, unless it is being loaded or may turn out to be what is being opened: the end of
   * each load and open leads to another plan.
   */
  #close(held: HeldVersion, { handle }: OpenedVersion, next: AfterClose): void {
    const isOpening = contentsOf(this.set, held).some(({ life }) => life.phase === "opening");
    if (isOpening || isLoading(held)) return;
    this.#put({ ...held, life: { phase: "closing", next } });
    this.effects.push({ kind: "close", id: held.id, handle });
  }

  #put(held: HeldVersion): void {
    if (this.set.versions.get(held.id) !== held) this.set = withVersion(this.set, held);
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
  readonly assignment: Assignment;
  readonly handle: ContentHandle;
}

/** Longer than the slowest membership store takes to tell of an announcement. */
const CORRUPT_KEPT_MS = 5000;
