// What to do next, decided from what is held (`replica-set.ts`) and from the facts (`replica-facts.ts`). A
// pure function, called again after every change: it gives the effects to start and the time at which it must
// be called again even if nothing changes.
//
// Rules:
//  - one open at a time, or loads of one version (`replica-jobs.ts`); the serving version before
//    every other one;
//  - partitions that nobody else answers for come first, so that coverage comes early;
//  - an assignment that does not fit into memory is refused before anything is read, or waits where other versions
//    are about to give up enough (`shared-memory.ts`);
//  - a replica is given up only when it is neither intended here nor an extra one
//    (`extra-replicas.ts`) and every intended owner announces it with the same content and has said so
//    itself when it was asked (`holder-questions.ts`), and freed only when no router can still have
//    it in its table;
//  - a version whose shares do not add up is closed once the other workers have seen them;
//  - a content is given up only when it is neither wanted nor needed until its successor can answer
//    (`version-succession.ts`), and freed after a grace period that begins then.

import { haveEqualShares } from "@winnow/cluster";
import { groupedByModel } from "@winnow/core";
import type { WorkerId } from "@winnow/core";

import type {
  ContentHandle,
  LoadedReplica,
  OpenedVersion,
  VersionDirectory,
} from "../../compute/compute.ts";
import { updateBytesOf } from "../../models/growing-file.ts";
import type { Holders } from "../cluster-view.ts";
import {
  contentsOf,
  heldAs,
  isHeldAs,
  loadedOf,
  openedOf,
  replicaOfKey,
  withFound,
  withReplica,
  withVersion,
  withoutVersion,
} from "../replica-set.ts";
import type { AfterClose, HeldVersion, Replica, ReplicaSet } from "../replica-set.ts";
import { extraReplicas } from "./extra-replicas.ts";
import type { ExtraReplicas } from "./extra-replicas.ts";
import { nextJob } from "./replica-jobs.ts";
import {
  Assignment,
  isBusy,
  isLoading,
  occupiedBytesOf,
  refusalOf,
  rowsHeldBy,
} from "../assignment.ts";
import { expectedBytes, waitingFor } from "./shared-memory.ts";
import { isNeededUntilFollowed, replacementOf } from "./version-succession.ts";
import type { ReplicaFacts, WantedVersion } from "./replica-facts.ts";

/** Work to start; `id` names the content. */
export type ReplicaEffect = { readonly id: string } & (
  | {
      readonly kind: "open";
      readonly from: VersionDirectory;
      /** Stamp of the files as they were found; `undefined` where the files keep changing. */
      readonly stamp: string | undefined;
      readonly siblings: readonly ContentHandle[];
    }
  | {
      readonly kind: "load";
      readonly handle: ContentHandle;
      readonly replica: number;
      /** A content that has loaded the same rows. */
      readonly rowsOf: ContentHandle | undefined;
    }
  | { readonly kind: "release"; readonly handle: ContentHandle; readonly replica: number }
  | { readonly kind: "close"; readonly handle: ContentHandle }
);

/** A decision. */
export interface ReplicaPlan {
  readonly set: ReplicaSet;
  readonly effects: readonly ReplicaEffect[];
  /** Workers to ask what they hold: replicas would be given up if these had said what is announced of them. */
  readonly unheard: ReadonlySet<WorkerId>;
  /** When to decide again at the latest; `Infinity`: only after a change. */
  readonly wakeAtMs: number;
}

/** Decides what to do next. */
export function planReplicas(set: ReplicaSet, facts: ReplicaFacts): ReplicaPlan {
  const planner = new Planner(set, facts);
  if (!facts.draining) planner.takeUp();
  for (const held of planner.set.versions.values()) planner.follow(held);
  planner.startJobs();
  const { effects, unheard, wakeAtMs } = planner;
  return { set: planner.set, effects, unheard, wakeAtMs };
}

/** Collects the effects of one decision; lives only within `planReplicas`. */
class Planner {
  set: ReplicaSet;
  readonly effects: ReplicaEffect[] = [];
  readonly unheard = new Set<WorkerId>();
  wakeAtMs = Infinity;
  readonly #facts: ReplicaFacts;
  /** Whether an open, a load or a close is under way, so that figures of used memory are not final. */
  readonly #isBusy: boolean;
  readonly #extras: ExtraReplicas;
  readonly #wanted: ReadonlyMap<string, readonly WantedVersion[]>;

  constructor(set: ReplicaSet, facts: ReplicaFacts) {
    this.set = set;
    this.#facts = facts;
    this.#wanted = groupedByModel(facts.wanted);
    this.#isBusy = [...set.versions.values()].some(isBusy);
    const mayHoldMore = facts.placed && !facts.draining;
    this.#extras = mayHoldMore ? extraReplicas(set, facts) : new Map();
  }

  /** Adds contents that are wanted and not known yet, of new directories and of replaced ones. */
  takeUp(): void {
    for (const { model, found } of this.#facts.wanted) {
      if (heldAs(this.set, { model, ...found }) === undefined) {
        this.set = withFound(this.set, { model, ...found });
      }
    }
    for (const { model, found } of this.#facts.copying) {
      // Files that changed for too long are opened as they are. Their content is not added a second time.
      const isKnown = contentsOf(this.set, { model, ...found }).some(
        (held) => held.life.phase === "copying" || isHeldAs(held, { model, ...found }),
      );
      if (!isKnown) this.set = withFound(this.set, { model, ...found }, { phase: "copying" });
    }
  }

  /** Takes one content the next step through its life. */
  follow(before: HeldVersion): void {
    const wanted = this.#wantedAs(before);
    const isLeft = wanted?.isLeft === true;
    const held = before.isLeft === isLeft ? before : { ...before, isLeft };
    this.#put(held);
    const { life } = held;
    if ("opened" in life) this.#followOpened(held, life.opened, wanted !== undefined);
    else if (life.phase === "copying" && wanted !== undefined) {
      this.#put({ ...held, life: { phase: "found" } }); // The files have stopped changing.
    } else if (!this.#isAwaited(held, wanted)) this.set = withoutVersion(this.set, held.id);
    else if (life.phase === "copying") this.#put(this.#asLastSeen(held));
  }

  /** A content that is being copied, with the stamp that the last look saw. */
  #asLastSeen(held: HeldVersion): HeldVersion {
    const { stamp = held.stamp } = this.#copyingOf(held)?.found ?? {};
    return stamp === held.stamp ? held : { ...held, stamp };
  }

  /** Whether a content that is not open is kept: it is being copied, opened or closed, or it is wanted. */
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

  /** The wanted version whose files are the ones of this content, if there is one. */
  #wantedAs(held: HeldVersion): WantedVersion | undefined {
    const ofModel = this.#wanted.get(held.model);
    return ofModel?.find(({ model, found }) => isHeldAs(held, { model, ...found }));
  }

  #isCopying(held: HeldVersion): boolean {
    return this.#copyingOf(held) !== undefined;
  }

  #copyingOf({ model, version }: HeldVersion): ReplicaFacts["copying"][number] | undefined {
    return this.#facts.copying.find(
      (copying) => copying.model === model && copying.found.version === version,
    );
  }

  /**
   * Whether a content that is not wanted is to leave. It stays until the files that replaced its own have
   * been opened, because they may hold the same content.
   */
  #isToLeave(held: HeldVersion): boolean {
    if (this.#facts.draining) return false;
    const wanted = replacementOf(held, this.#facts);
    if (wanted === undefined) return true;
    const next = heldAs(this.set, { model: held.model, ...wanted.found });
    return next !== undefined && openedOf(next) !== undefined;
  }

  /** Keeps a content until its successor can answer, and for a grace period from then on. */
  #leave(held: HeldVersion, opened: OpenedVersion): void {
    const { nowMs } = this.#facts;
    if (isNeededUntilFollowed(held, opened, { set: this.set, facts: this.#facts })) {
      if (held.life.phase !== "leaving") this.#put({ ...held, life: { phase: "leaving", opened } });
      return;
    }
    const sinceMs = held.life.phase === "unloading" ? held.life.sinceMs : nowMs;
    if (held.life.phase !== "unloading") {
      this.#put({ ...held, life: { phase: "unloading", opened, sinceMs } });
    }
    this.#whenDue(sinceMs + this.#graceMsOf(held), () => this.#close(held, opened, "gone"));
  }

  /** A version that gives way to the default one was never the default: it is not kept for rollbacks. */
  #graceMsOf({ id, model }: HeldVersion): number {
    const { replicaGraceMs, versionGraceMs } = this.#facts.grace;
    const givesWay = this.set.swaps.get(model)?.followers.has(id) === true;
    return givesWay ? replicaGraceMs : versionGraceMs;
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
          from: {
            model,
            version,
            directory,
            updateBytes: stamp === undefined ? undefined : updateBytesOf(stamp),
          },
          stamp,
          siblings,
        });
      } else {
        const { replica, handle } = job;
        const rowsOf = rowsHeldBy(this.set, held, replica)?.handle;
        this.#put(withReplica(held, replica, { phase: "loading" }));
        this.effects.push({ kind: "load", id, handle, replica, rowsOf });
      }
    }
  }

  #followOpen(held: HeldVersion, opened: OpenedVersion): void {
    const { trouble, status } = held;
    if (status.kind === "doubted" && status.corruptSinceMs !== undefined) {
      const dueMs = status.corruptSinceMs + CORRUPT_KEPT_MS;
      this.#whenDue(dueMs, () => this.#close(held, opened, "failed"));
      return;
    }
    const isRetriedLater = trouble !== undefined && trouble.retryAtMs > this.#facts.nowMs;
    if (isRetriedLater && status.kind !== "complete") {
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
    // A content whose files were replaced cannot load any more.
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
    const isNeeded = draining || !placed || this.#isNeeded(held, at, loaded);
    if (isNeeded) return replica.phase === "ready" ? replica : { phase: "ready", loaded };
    const sinceMs = replica.phase === "ready" ? nowMs : replica.sinceMs;
    if (nowMs >= sinceMs + grace.replicaGraceMs) {
      this.effects.push({ kind: "release", id: held.id, handle, replica: key });
      return { phase: "releasing" };
    }
    this.#wakeBy(sinceMs + grace.replicaGraceMs);
    return replica.phase === "ready" ? { phase: "retiring", loaded, sinceMs } : replica;
  }

  /**
   * Whether a replica is intended here, is an extra one, or is not yet announced with equal checksum shares
   * by every intended owner. One that answers is also needed until each of them has confirmed that it holds it.
   */
  #isNeeded(held: HeldVersion, at: ReplicaAt, { shares }: LoadedReplica): boolean {
    const { key, replica, assignment } = at;
    if (this.#extras.get(held.id)?.has(key) === true) return true;
    const owners = assignment.ownersOf(key);
    if (owners.length === 0 || owners.includes(this.#facts.workerId)) return true;
    const { table, partition } = replicaOfKey(key);
    const without = (holders: Holders): WorkerId[] =>
      owners.filter((owner) => {
        const theirs = holders.get(partition)?.get(owner);
        return theirs === undefined || !haveEqualShares(theirs, shares);
      });
    if (without(this.#facts.announcedHolders(assignment.key, table)).length > 0) return true;
    if (replica.phase === "retiring") return false;
    const unheard = without(this.#facts.heardHolders(assignment.key, table));
    for (const owner of unheard) this.unheard.add(owner);
    return unheard.length > 0;
  }

  /**
   * What is left of a failure once the whole assignment is loaded: an extra replica may have failed. It is not
   * read again before its pause is over, and does not make the content a failed one. The failure is told until
   * the extra replicas are loaded.
   */
  #extraTrouble({ id, trouble, replicas }: HeldVersion): HeldVersion["trouble"] {
    if (trouble === undefined) return undefined;
    const extras = [...(this.#extras.get(id) ?? [])];
    const isAwaited = extras.some((key) => loadedOf(replicas.get(key)) === undefined);
    if (trouble.retryAtMs <= this.#facts.nowMs && !isAwaited) return undefined;
    const isFirst = trouble.attempts === 0 && !trouble.isLasting;
    return isFirst ? trouble : { ...trouble, attempts: 0, isLasting: false };
  }

  /** Refuses an assignment that does not fit into free memory, and notes one that is complete. */
  #admitted(held: HeldVersion, assignment: Assignment): HeldVersion {
    if (this.#isBusy || !this.#facts.placed) return held;
    const missing = assignment.missing(held);
    if (missing.length === 0) {
      const { status, refusal, trouble } = held;
      if (status.kind === "doubted") return held;
      const isNoted = status.kind === "complete";
      const left = isNoted ? this.#extraTrouble(held) : undefined;
      if (isNoted && refusal === undefined && left === trouble) return held;
      const complete = { ...status, kind: "complete" } as const;
      return { ...held, refusal: undefined, trouble: left, status: complete };
    }
    return this.#withRefusal(held, missing);
  }

  /** A content that lacks replicas, with the reason if they may not be loaded yet. */
  #withRefusal(held: HeldVersion, missing: readonly number[]): HeldVersion {
    const neededBytes = occupiedBytesOf(this.set, held, missing);
    const { freeBytes, workerId } = this.#facts;
    const bytes = { neededBytes, freeBytes, workerId };
    const isHeldBack = this.set.swaps.get(held.model)?.last.has(held.id) === true;
    if (neededBytes <= freeBytes && !isHeldBack) {
      return held.refusal === undefined ? held : { ...held, refusal: undefined };
    }
    const fitsSoon = neededBytes <= freeBytes + expectedBytes(this.set, held, this.#facts);
    const refusal = fitsSoon ? waitingFor(held, bytes) : refusalOf(held, bytes);
    return { ...held, refusal };
  }

  /**
   * Closes a content, unless it is being loaded, or a directory of its number is being opened, which may turn
   * out to hold this content. The end of each load and open leads to another plan.
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

/**
 * How long a corrupt version stays announced: longer than the slowest membership store takes to pass on an
 * announcement.
 */
const CORRUPT_KEPT_MS = 5000;
