// How long a worker in drain keeps answering before it sends its routers away: until every partition
// it holds, and that somebody else is to hold, is held by another worker that is not in drain. This,
// not a PodDisruptionBudget, protects coverage when several workers are stopped at once.

import type { Announcement } from "@winnow/cluster";
import type { VersionHolding } from "@winnow/cluster";
import type { VersionKey, WorkerId } from "@winnow/core";

/** What the decision rests on. */
export interface DrainFacts {
  readonly nowMs: number;
  readonly startedAtMs: number;
  readonly settings: DrainSettings;
  /** Announcements of the other workers. */
  readonly others: readonly Announcement[];
  /** What this worker holds. */
  readonly holdings: readonly VersionHolding[];
  /** Intended owners of each partition of a table, as of now. */
  ownersOf(version: VersionKey, table: number): readonly (readonly WorkerId[])[];
  /** Other workers, not in drain, that announce each partition. */
  holdersOf(version: VersionKey, table: number): ReadonlyMap<number, ReadonlySet<WorkerId>>;
}

/** Bounds of the hold. */
export interface DrainSettings {
  /** The others get this long to notice the drain before coverage is judged. */
  readonly drainNoticeMs: number;
  /** The hold ends then, covered or not. */
  readonly drainHoldMsMax: number;
}

/** Whether the hold is over, and how many partitions are not covered yet. */
export function drainHold(facts: DrainFacts): {
  readonly isOver: boolean;
  readonly uncovered: number;
} {
  const heirs = new Set(
    facts.others.filter(({ state }) => state !== "draining").map(({ workerId }) => workerId),
  );
  // Nobody could take over (the only worker, or all of them stop): waiting would cover nothing.
  if (heirs.size === 0) return { isOver: true, uncovered: 0 };
  const uncovered = uncoveredPartitions(facts, heirs);
  const elapsedMs = facts.nowMs - facts.startedAtMs;
  const isCovered = uncovered === 0 && elapsedMs >= facts.settings.drainNoticeMs;
  return { isOver: isCovered || elapsedMs >= facts.settings.drainHoldMsMax, uncovered };
}

function uncoveredPartitions(facts: DrainFacts, heirs: ReadonlySet<WorkerId>): number {
  let uncovered = 0;
  for (const { model, version, fingerprint, state, tables } of facts.holdings) {
    if (fingerprint === undefined || state === "unloading") continue;
    for (const { table, held } of tables) {
      const owners = facts.ownersOf({ model, version, fingerprint }, table);
      const holders = facts.holdersOf({ model, version, fingerprint }, table);
      uncovered += held.filter(({ partition }) => {
        const isToBeTaken = owners[partition]?.some((owner) => heirs.has(owner)) === true;
        return isToBeTaken && !holders.has(partition);
      }).length;
    }
  }
  return uncovered;
}
