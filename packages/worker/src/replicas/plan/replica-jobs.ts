// Which open or load comes next. Loads run two at a time, so that the accelerator builds the first partition
// while the second one is being read; one at a time, a load takes nearly the sum of both times. More of them run
// where their rows are few bytes.
//
//  - nothing begins beside a close, no load beside an open, and no open beside a load;
//  - opens are done one after the other, but where they are quick several are asked for at once, of different models,
//    for each plan goes through all versions; those that would begin late are put off, and what is open is loaded first;
//    versions of an object store are opened beside each other, because most of an open is a wait for the store;
//  - a further load is the most important one, of the version that is being loaded, or small and of another model, and
//    begins only if memory certainly suffices: figures of used memory are not final during a load, and an assignment
//    that does not fit must be refused before it is read;
//  - replicas beyond the intended ones come last, when there is nothing else to do.

import { isObjectUrl } from "@winnow/core";
import type { ContentHandle, OpenedVersion } from "../../compute/compute.ts";
import { heldAs, openedOf, replicaOfKey } from "../replica-set.ts";
import type { HeldVersion, ReplicaSet } from "../replica-set.ts";
import { Assignment, loadingOf, occupiedBytesOf } from "../assignment.ts";
import type { ExtraReplicas } from "./extra-replicas.ts";
import type { ReplicaFacts } from "./replica-facts.ts";

/** Loads under way at most. The benchmark of loading runs as many. */
const LOADS_AT_ONCE = 2;
/** Of small ones, each end of which asks for a plan, which costs more than the load. */
const SMALL_LOADS_AT_ONCE = 16;

/** Opens of versions of an object store. */
const STORE_OPENS_AT_ONCE = 8;

/** Something to start. */
type Job = { readonly kind: "open"; readonly held: HeldVersion } | LoadJob;

interface LoadJob {
  readonly kind: "load";
  readonly held: HeldVersion;
  readonly handle: ContentHandle;
  readonly replica: number;
  /** Most bytes that this load, the loads under way and those that follow may still take. */
  readonly bytesMax: number;
}

/** The next job, if one may start now. */
export interface NextJob {
  readonly job: Job | undefined;
  /** Earliest retry of the failed versions that were skipped; `Infinity`: none were. */
  readonly wakeAtMs: number;
}

/** The most important open or load that may start now. */
export function nextJob(set: ReplicaSet, facts: ReplicaFacts, extras: ExtraReplicas): NextJob {
  const versions = [...set.versions.values()];
  const isClosing = versions.some(({ life }) => life.phase === "closing");
  // Nothing starts before the other workers are known: a restarted worker must first learn which version serves.
  if (facts.draining || !facts.placed || isClosing) return { job: undefined, wakeAtMs: Infinity };
  const { job = extraJob(set, facts, extras), wakeAtMs } = mostImportantJob(set, facts);
  return { job: job && mayStart(job, set, facts) ? job : undefined, wakeAtMs };
}

function mayStart(job: Job, set: ReplicaSet, facts: ReplicaFacts): boolean {
  const versions = [...set.versions.values()];
  const opening = versions.filter(({ life }) => life.phase === "opening");
  const loading = versions.filter((held) => loadingOf(held).length > 0);
  if (job.kind === "load") return opening.length === 0 && mayJoin(job, loading, { set, facts });
  if (loading.length > 0) return false;
  // A version may turn out to have the content of another one of its model, which must be open by then.
  const isOfModel = opening.some(({ model }) => model === job.held.model);
  const isInStore = isObjectUrl(job.held.directory);
  const most = isInStore ? STORE_OPENS_AT_ONCE : facts.opensAtOnce;
  return opening.length === 0 || (!isOfModel && opening.length < most);
}

function mostImportantJob(set: ReplicaSet, facts: ReplicaFacts): NextJob {
  let wakeAtMs = Infinity;
  for (const { model, found } of facts.wanted) {
    const held = heldAs(set, { model, ...found });
    if (held === undefined) continue;
    const retryAtMs = held.trouble?.retryAtMs ?? 0;
    if (retryAtMs > facts.nowMs) {
      wakeAtMs = Math.min(wakeAtMs, retryAtMs);
      continue;
    }
    const job = jobOf(held, set, facts);
    if (job !== undefined) return { job, wakeAtMs };
  }
  return { job: undefined, wakeAtMs };
}

function jobOf(held: HeldVersion, set: ReplicaSet, facts: ReplicaFacts): Job | undefined {
  const { life } = held;
  if (life.phase === "found" || life.phase === "failed") return { kind: "open", held };
  if (life.phase !== "open" || held.refusal !== undefined) return undefined;
  const assignment = new Assignment(held, life.opened, facts);
  const missing = assignment.missing(held);
  const replica = firstOf(missing, life.opened, { assignment, facts });
  if (replica === undefined) return undefined;
  // Loads under way count twice: their memory may not be taken yet, and building needs more than the result.
  const underWay = loadingOf(held);
  const bytes = occupiedBytesOf(set, held, [...missing, ...underWay, ...underWay]);
  return { kind: "load", held, handle: life.opened.handle, replica, bytesMax: bytes };
}

/** The load of an extra replica that is not held yet and that fits. */
function extraJob(
  set: ReplicaSet,
  { freeBytes }: ReplicaFacts,
  extras: ExtraReplicas,
): Job | undefined {
  for (const [id, keys] of extras) {
    const held = set.versions.get(id);
    if (held?.life.phase !== "open") continue;
    const replica = [...keys].find((key) => !held.replicas.has(key));
    if (replica === undefined) continue;
    const underWay = loadingOf(held);
    const bytesMax = occupiedBytesOf(set, held, [replica, ...underWay, ...underWay]);
    if (bytesMax > freeBytes) continue;
    return { kind: "load", held, handle: held.life.opened.handle, replica, bytesMax };
  }
  return undefined;
}

/**
 * The missing replica that the fewest other workers hold; of equals, one whose list of owners has this worker
 * early.
 */
function firstOf(
  missing: readonly number[],
  opened: OpenedVersion,
  { assignment, facts }: { readonly assignment: Assignment; readonly facts: ReplicaFacts },
): number | undefined {
  const holders = opened.tables.map((_, table) => facts.announcedHolders(assignment.key, table));
  let best: number | undefined;
  let bestRank = Infinity;
  for (const key of missing) {
    const { table, partition } = replicaOfKey(key);
    const choice = assignment.ownersOf(key).indexOf(facts.workerId);
    const rank = (holders[table]?.get(partition)?.size ?? 0) * CHOICES_MAX + choice;
    if (rank < bestRank) [best, bestRank] = [key, rank];
  }
  return best;
}

/** Whether a load may start beside those that are under way. */
function mayJoin(
  job: LoadJob,
  loading: readonly HeldVersion[],
  { set, facts }: { readonly set: ReplicaSet; readonly facts: ReplicaFacts },
): boolean {
  if (loading.length === 0) return true;
  const underWay = loading.flatMap((held) => loadingOf(held).map((key) => bytesOf(held, key)));
  const bytes = underWay.reduce((sum, each) => sum + each, bytesOf(job.held, job.replica));
  const isSmall = bytes <= facts.smallLoadsBytes;
  if (underWay.length >= (isSmall ? SMALL_LOADS_AT_ONCE : LOADS_AT_ONCE)) return false;
  const others = loading.filter(({ id }) => id !== job.held.id);
  // Versions of one model may share rows, which must be held by then.
  const isApart = others.every(({ model }) => model !== job.held.model);
  if (others.length > 0 && !(isSmall && isApart)) return false;
  const othersBytes = others.map((held) => {
    const keys = loadingOf(held);
    return occupiedBytesOf(set, held, [...keys, ...keys]);
  });
  return othersBytes.reduce((sum, each) => sum + each, job.bytesMax) <= facts.freeBytes;
}

/** Bytes of a replica's rows, as the version states them. */
function bytesOf(held: HeldVersion, replica: number): number {
  const { table, partition } = replicaOfKey(replica);
  return openedOf(held)?.tables[table]?.partitionBytes[partition] ?? Infinity;
}

/** More intended owners than any partition has. */
const CHOICES_MAX = 4096;
