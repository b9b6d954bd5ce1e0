// How long a worker in drain keeps answering before it sends its routers away: until every partition
// it holds, and that somebody else is to hold, is held by another worker that is not in drain. This,
// not a PodDisruptionBudget, protects coverage when several workers are stopped at once.
//
// What others announce may be the last words of a life that is over: a worker that was killed stays
// announced until its lease runs out. Coverage therefore counts once it has held without a break for
// longer than that, which is also the time in which routers connect to a worker that has just come.

import type { Announcement } from "@winnow/cluster";
import type { VersionHolding } from "@winnow/cluster";
import { haveEqualShares } from "@winnow/cluster";
import { sleep } from "@winnow/core";
import type { Clock, VersionKey, WorkerId } from "@winnow/core";

import type { Holders } from "./cluster-view.ts";

/** What the decision rests on. */
export interface DrainFacts {
  readonly nowMs: number;
  readonly startedAtMs: number;
  readonly settings: DrainSettings;
  /** Announcements of the other workers. */
  readonly others: readonly Announcement[];
  /** Workers that partitions are placed on and that nobody hears: they may be on their way back. */
  readonly absent: ReadonlySet<WorkerId>;
  /** Since when every look has found all covered; `undefined`: the last one did not. */
  readonly coveredSinceMs: number | undefined;
  /** What this worker holds. */
  readonly holdings: readonly VersionHolding[];
  /** Intended owners of each partition of a table, as of now. */
  ownersOf(version: VersionKey, table: number): readonly (readonly WorkerId[])[];
  /** Other workers, not in drain, that answer for each partition and go on until another serves. */
  answerersOf(version: VersionKey, table: number): Holders;
}

/** Bounds of the hold. */
export interface DrainSettings {
  /** Coverage must have held for so long; longer than a dead worker stays announced. */
  readonly drainSettleMs: number;
  /** The hold ends then, covered or not. */
  readonly drainHoldMsMax: number;
}

/** A look at the hold. */
export interface DrainHold {
  readonly isOver: boolean;
  /** Partitions that are not covered yet. */
  readonly uncovered: number;
  /** For the next look. */
  readonly coveredSinceMs: number | undefined;
}

/** Whether the hold is over, and how many partitions are not covered yet. */
export function drainHold(facts: DrainFacts): DrainHold {
  const { nowMs, startedAtMs, settings, absent } = facts;
  const { drainSettleMs, drainHoldMsMax } = settings;
  const heirs = new Set(
    facts.others.filter(({ state }) => state !== "draining").map(({ workerId }) => workerId),
  );
  if (heirs.size === 0) {
    // Nobody could take over (the only worker, or all of them stop): waiting would cover nothing.
    const isOver = absent.size === 0 || nowMs >= startedAtMs + drainSettleMs;
    return { isOver, uncovered: 0, coveredSinceMs: undefined };
  }
  const uncovered = uncoveredPartitions(facts, new Set([...heirs, ...absent]));
  const coveredSinceMs = uncovered === 0 ? (facts.coveredSinceMs ?? nowMs) : undefined;
  const isCovered = coveredSinceMs !== undefined && nowMs >= coveredSinceMs + drainSettleMs;
  return { isOver: isCovered || nowMs >= startedAtMs + drainHoldMsMax, uncovered, coveredSinceMs };
}

/** What another worker says of a version it may hold as well. */
function stateOn({ versions }: Announcement, { model, version }: VersionHolding) {
  return versions.find((each) => each.model === model && each.version === version)?.state;
}

/**
 * Whether others are to go on with a version: it serves, or one of them has it. A worker in drain
 * unloads nothing, so it may hold versions that everybody else has given up; nobody will cover those.
 */
function isToBeKept(holding: VersionHolding, { others }: DrainFacts): boolean {
  if (holding.state === "unloading") return false;
  if (holding.serving === true) return true;
  return others.some((other) => {
    const state = stateOn(other, holding);
    return other.state !== "draining" && state !== undefined && state !== "unloading";
  });
}

/** Those that could not load a version, which is waited for only where it serves. */
function failedOwners(holding: VersionHolding, { others }: DrainFacts): ReadonlySet<WorkerId> {
  if (holding.serving === true) return new Set();
  const failed = others.filter((other) => stateOn(other, holding) === "failed");
  return new Set(failed.map(({ workerId }) => workerId));
}

const CHECK_INTERVAL_MS = 50;

/** Looks again and again until the hold is over, or `look` gives none; gives the last look. */
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

function uncoveredPartitions(facts: DrainFacts, heirs: ReadonlySet<WorkerId>): number {
  let uncovered = 0;
  for (const holding of facts.holdings) {
    const { model, version, fingerprint, tables } = holding;
    if (fingerprint === undefined || !isToBeKept(holding, facts)) continue;
    const failed = failedOwners(holding, facts);
    const isHeir = (owner: WorkerId): boolean => heirs.has(owner) && !failed.has(owner);
    for (const { table, held } of tables) {
      const owners = facts.ownersOf({ model, version, fingerprint }, table);
      const answerers = facts.answerersOf({ model, version, fingerprint }, table);
      uncovered += held.filter(({ partition, shares }) => {
        const isToBeTaken = owners[partition]?.some(isHeir) === true;
        const answered = [...(answerers.get(partition)?.values() ?? [])];
        return isToBeTaken && !answered.some((others) => haveEqualShares(others, shares));
      }).length;
    }
  }
  return uncovered;
}
