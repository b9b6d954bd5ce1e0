// How long a worker in drain keeps answering before it sends its routers away: until each of its partitions
// that another worker is intended to hold is held by another worker that is not in drain. This hold, not a
// PodDisruptionBudget, protects coverage when several workers are stopped at once.
//
// A content whose directory is gone or has been replaced cannot be loaded by another worker. A worker that
// holds it must answer until another version serves, and for the grace period in which routers learn of that.
//
// An announcement may be out of date: a worker that was killed stays announced until its lease runs out.
// Coverage therefore counts once it has lasted without a break for longer than a lease, which is also long
// enough for routers to connect to a worker that has just started.
//
// A version that shares memory with the one that it is to replace (`version-swaps.ts`) is loaded by the others only when
// nobody is in drain any more, so nobody waits for that.
//
// A worker that answers for no version yet, or for which none is intended, has nothing to wait for.

import type { Announcement } from "@winnow/cluster";
import type { VersionHolding } from "@winnow/cluster";
import { haveEqualShares } from "@winnow/cluster";
import { sleep } from "@winnow/core";
import type { Clock, Fingerprint, VersionKey, WorkerId } from "@winnow/core";

import type { Holders } from "../cluster-view.ts";

/** What the decision is made from. */
export interface DrainFacts {
  readonly nowMs: number;
  readonly startedAtMs: number;
  readonly settings: DrainSettings;
  /** Announcements of the other workers. */
  readonly others: readonly Announcement[];
  /** Workers that partitions are placed on and that are not announced: they may come back. */
  readonly absent: ReadonlySet<WorkerId>;
  /** Since when every look has found all partitions covered; `undefined`: the last look did not. */
  readonly coveredSinceMs: number | undefined;
  /** What this worker holds. */
  readonly holdings: readonly VersionHolding[];
  /** Intended owners of each partition of a table, as of now. */
  ownersOf(version: VersionKey, table: number): readonly (readonly WorkerId[])[];
  /** Other workers, not in drain, that answer for each partition and go on doing so until another version serves. */
  answerersOf(version: VersionKey, table: number): Holders;
  /** As `answerersOf`, with other workers that still answer but are giving the version up. */
  lastAnswerersOf(version: VersionKey, table: number): Holders;
  /** Whether a version was the default a short time ago: requests for it may be under way. */
  servedLately(version: VersionKey): boolean;
  /** Whether every worker not in drain holds its assignment of a version, with as many replicas as a new default needs. */
  isComplete(version: VersionKey): boolean;
  /** Whether a version shares memory with the default one, which it is to replace. */
  isFollower(version: VersionKey): boolean;
}

/** Bounds of the hold. */
export interface DrainSettings {
  /** How long coverage must have lasted: longer than a dead worker stays announced. */
  readonly drainSettleMs: number;
  /**
   * If all other workers are in drain or absent, absent ones are waited for this long: one may be cut off
   * from the membership store for as long as a failover of the store takes, and come back.
   */
  readonly drainAbsentMs: number;
  /** The hold ends after this long, even if partitions are not covered. */
  readonly drainHoldMsMax: number;
}

/** The result of a look at the hold. */
export interface DrainHold {
  readonly isOver: boolean;
  /** Partitions that are not covered yet. */
  readonly uncovered: number;
  /** To be passed to the next look. */
  readonly coveredSinceMs: number | undefined;
}

/** Whether the hold is over, and how many partitions are not covered yet. */
export function drainHold(facts: DrainFacts): DrainHold {
  const { nowMs, startedAtMs, settings, absent } = facts;
  const { drainSettleMs, drainAbsentMs, drainHoldMsMax } = settings;
  if (!facts.holdings.some((each) => isAnswered(each))) {
    return { isOver: true, uncovered: 0, coveredSinceMs: undefined };
  }
  const successors = new Set(
    facts.others.filter(({ state }) => state !== "draining").map(({ workerId }) => workerId),
  );
  if (successors.size === 0) {
    // If nobody can take over (this is the only worker, or all of them stop), waiting would cover nothing.
    const waitMs = Math.min(drainAbsentMs, drainHoldMsMax);
    const isOver = absent.size === 0 || nowMs >= startedAtMs + waitMs;
    return { isOver, uncovered: 0, coveredSinceMs: undefined };
  }
  const uncovered = uncoveredPartitions(facts, new Set([...successors, ...absent]));
  const coveredSinceMs = uncovered === 0 ? (facts.coveredSinceMs ?? nowMs) : undefined;
  const isCovered = coveredSinceMs !== undefined && nowMs >= coveredSinceMs + drainSettleMs;
  return { isOver: isCovered || nowMs >= startedAtMs + drainHoldMsMax, uncovered, coveredSinceMs };
}

/** Whether routers may need this worker for a version: not one that it has only seen, or that it refuses. */
function isAnswered({ state, tables }: VersionHolding): boolean {
  return state === "ready" || tables.some(({ held }) => held.length > 0);
}

/** A holding whose content is known. */
type KnownHolding = VersionHolding & { readonly fingerprint: Fingerprint };

/** Another worker's state of this content or, failing that, of a directory of its number that is not opened yet. */
function stateOn({ versions }: Announcement, { model, version, fingerprint }: KnownHolding) {
  const ofNumber = versions.filter((each) => each.model === model && each.version === version);
  const same = ofNumber.find((each) => each.fingerprint === fingerprint);
  return (same ?? ofNumber.find((each) => each.fingerprint === undefined))?.state;
}

/**
 * How long the partitions of a version must be answered for: until others hold them for good, or while
 * requests may still ask for them; `undefined`: no longer. A worker in drain unloads nothing, so it may hold
 * versions that every other worker has given up.
 */
function needOf(holding: KnownHolding, facts: DrainFacts): "good" | "while asked" | undefined {
  const staying = facts.others.filter(({ state }) => state !== "draining");
  if (holding.serving === true) {
    const isFollowed = staying.some((other) => wantedBesides(holding, other).length > 0);
    return holding.state !== "unloading" || isFollowed ? "good" : undefined;
  }
  if (facts.isFollower(holding)) return undefined;
  const isReplaced = staying.some((other) =>
    wantedBesides(holding, other).some(
      (each) =>
        each.version === holding.version && each.serving !== true && !facts.isComplete(each),
    ),
  );
  if (isReplaced || facts.servedLately(holding)) return "while asked";
  if (holding.state === "unloading") return undefined;
  const isHeld = staying.some((other) => {
    const state = stateOn(other, holding);
    return state !== undefined && state !== "unloading";
  });
  return isHeld ? "good" : undefined;
}

/** Other contents of the model that a worker holds or is loading and does not give up. */
function wantedBesides(holding: KnownHolding, { versions }: Announcement): KnownHolding[] {
  return versions.filter(
    (each): each is KnownHolding =>
      each.model === holding.model &&
      each.fingerprint !== undefined &&
      each.fingerprint !== holding.fingerprint &&
      (each.state === "ready" || each.state === "loading"),
  );
}

/** Workers that could not load a version. The drain waits for them only if the version is the default. */
function failedOwners(holding: KnownHolding, { others }: DrainFacts): ReadonlySet<WorkerId> {
  if (holding.serving === true) return new Set();
  const failed = others.filter((other) => stateOn(other, holding) === "failed");
  return new Set(failed.map(({ workerId }) => workerId));
}

const CHECK_INTERVAL_MS = 50;

/** Looks every 50 ms until the hold is over or `look` gives nothing. Gives the result of the last look. */
export async function waitForHold(
  clock: Clock,
  look: () => DrainHold | undefined,
): Promise<DrainHold | undefined> {
  for (;;) {
    const hold = look();
    if (hold === undefined || hold.isOver) return hold;
    await sleep(clock, CHECK_INTERVAL_MS);
  }
}

function uncoveredPartitions(facts: DrainFacts, successors: ReadonlySet<WorkerId>): number {
  let uncovered = 0;
  for (const holding of facts.holdings) {
    if (!isKnown(holding)) continue;
    const need = needOf(holding, facts);
    if (need === undefined) continue;
    const failed = failedOwners(holding, facts);
    const isSuccessor = (owner: WorkerId): boolean => successors.has(owner) && !failed.has(owner);
    for (const { table, held } of holding.tables) {
      const owners = facts.ownersOf(holding, table);
      const answerers =
        need === "good" ? facts.answerersOf(holding, table) : facts.lastAnswerersOf(holding, table);
      uncovered += held.filter(({ partition, shares }) => {
        const isToBeTaken = owners[partition]?.some(isSuccessor) === true;
        const answered = [...(answerers.get(partition)?.values() ?? [])];
        return isToBeTaken && !answered.some((others) => haveEqualShares(others, shares));
      }).length;
    }
  }
  return uncovered;
}

function isKnown(holding: VersionHolding): holding is KnownHolding {
  return holding.fingerprint !== undefined;
}
