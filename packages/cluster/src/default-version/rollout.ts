// Which version of a model serves by default. Every router and worker derives it from the same
// announcements, so no record of the choice is needed and none can be lost.
//
//   nothing serves ──▶ the version that workers announce as serving
//                      └─▶ else the newest that is fully replicated
//                          └─▶ else one with a replica of each partition
//   vN serves ──▶ a newer vM that every worker is ready for and that is fully replicated
//             │   (or was, when the first worker moved on to it)
//             ├─▶ the version that workers have moved on to, while they unload vN: a process that
//             │   still reads an older announcement of some worker must not stay on vN alone
//             ├─▶ vN's directory holds another content: that content or a newer version, once it is
//             │   as complete; a lower version only if no worker loads or holds the new content any
//             │   more
//             └─▶ vN's directory is gone: the newest fully replicated version, vN until then
//
// "One ready replica of each partition" is not enough to move on: the next fault would hit it
// (reliability 2.7). One exception: where vN cannot be read again and only workers in drain hold
// some of it, it is lost when they go. Then one replica of each partition on workers that stay is
// better.
//
// Fully replicated means as many replicas as a swap is to have, where both versions are to have fewer
// meanwhile (`placement/replication.ts`): each worker holds what is intended on it all the same.
//
// Versions compare by number. Of two contents of one number the later is the one that workers want:
// a worker wants only what its directory holds.

import type { Fingerprint, VersionKey, WorkerId } from "@winnow/core";
import type { Announcement, VersionHolding } from "../announcement/announcement.ts";
import { holdingOf, holdingsOf, newestIncarnations } from "../announcement/announcement.ts";

/** What the choice of the default version depends on beside announcements. */
export interface RolloutContext {
  /** The version that serves in this process; `undefined` when it has just started. */
  readonly current: VersionKey | undefined;
  /** Replicas of each partition with which a version may become the default. */
  readonly replication: number;
  /** Versions that this process must not serve, even if workers are ready for them. */
  readonly refused?: ReadonlySet<Fingerprint>;
}

/** How far one version has come. Workers in drain load nothing new and are counted apart. */
export interface VersionRollout {
  readonly key: VersionKey;
  /** Workers not in drain: holding all their replicas; failed; not ready yet. */
  readonly ready: number;
  readonly failed: number;
  readonly waiting: number;
  /** Fewest replicas of any partition, counted on all workers; on workers not in drain. */
  readonly replicasMin: number;
  readonly lastingReplicasMin: number;
  /** Some worker not in drain still means to keep it (its directory is there). */
  readonly wanted: boolean;
  /** Some worker not in drain serves another version and keeps no replica of this one. */
  readonly leaving: boolean;
  /** Some worker announces it as the version that serves. */
  readonly serving: boolean;
  /** Every worker is ready and every partition has its full replication: it may take over. */
  readonly complete: boolean;
}

/**
 * The version of `model` that serves by default; `undefined` while none can. Pass the announcements
 * of all known workers: a worker that is left out is not waited for.
 *
 * A version that failed on any worker never takes over. It is used only where nothing serves and no
 * other version is loading; it is safe to use, because all of its replicas are checked as usual.
 */
export function servingVersion(
  model: string,
  announcements: readonly Announcement[],
  context: RolloutContext,
): VersionKey | undefined {
  const rollouts = rolloutsOf(model, announcements, context);
  const current = context.current ?? rollouts.find((rollout) => rollout.serving)?.key;
  if (current === undefined) return (newestComplete(rollouts) ?? firstGuess(rollouts))?.key;
  return rollouts.length === 0 ? current : successorOf(current, rollouts);
}

/** What serves next: `current` itself, unless a newer version is complete or it is gone. */
function successorOf(current: VersionKey, rollouts: readonly VersionRollout[]): VersionKey {
  const serving = rollouts.find((rollout) => isSameVersion(rollout.key, current));
  if (serving?.wanted === true) {
    const newer = rollouts.filter((rollout) => rollout.key.version > current.version);
    return takingOver(serving, newer)?.key ?? current;
  }
  const followers = followersOf(current, rollouts);
  const isLeaving = serving === undefined || serving.lastingReplicasMin === 0;
  const successor =
    takingOver(serving, followers) ?? (isLeaving ? followers.find(isHeldByAllWhoStay) : undefined);
  if (successor !== undefined) return successor.key;
  return isAnswerable(serving) ? current : (firstGuess(rollouts)?.key ?? current);
}

/** The newest version that may take over; otherwise, once workers leave `serving`, the one that they use. */
function takingOver(
  serving: VersionRollout | undefined,
  followers: readonly VersionRollout[],
): VersionRollout | undefined {
  const complete = followers.find(mayTakeOver);
  if (complete !== undefined || serving?.leaving !== true) return complete;
  return followers.find(hasTakenOver);
}

/**
 * What may follow a version that no worker wants: nothing lower while workers want another content
 * of its number.
 */
function followersOf(
  current: VersionKey,
  rollouts: readonly VersionRollout[],
): readonly VersionRollout[] {
  const others = rollouts.filter(({ key }) => !isSameVersion(key, current));
  const isReplaced = others.some(({ key, wanted }) => wanted && key.version === current.version);
  return isReplaced ? others.filter(({ key }) => key.version >= current.version) : others;
}

/**
 * The content to ask for a version number that is not the default: the one in use, until no worker
 * wants it and another content of the number is complete.
 */
export function contentInUse(inUse: VersionKey, rollouts: readonly VersionRollout[]): VersionKey {
  const isWanted = rollouts.some(({ key, wanted }) => wanted && isSameVersion(key, inUse));
  if (isWanted) return inUse;
  const next = rollouts.find(({ key, complete }) => complete && key.version === inUse.version);
  return next?.key ?? inUse;
}

/** All versions of a model whose content is known, newest first. */
export function rolloutsOf(
  model: string,
  announcements: readonly Announcement[],
  context: Omit<RolloutContext, "current">,
): readonly VersionRollout[] {
  const workers = newestIncarnations(announcements);
  const keys = new Map<string, VersionKey>();
  for (const { fingerprint, version } of workers.flatMap((worker) => holdingsOf(worker, model))) {
    if (fingerprint === undefined || context.refused?.has(fingerprint) === true) continue;
    keys.set(`${version}/${fingerprint}`, { model, version, fingerprint });
  }
  return [...keys.values()]
    .toSorted((a, b) => b.version - a.version || (a.fingerprint < b.fingerprint ? -1 : 1))
    .map((key) => rolloutOf(key, workers, context.replication));
}

/** Whether two keys name the same content under the same number. */
export function isSameVersion(a: VersionKey, b: VersionKey): boolean {
  return a.model === b.model && a.version === b.version && a.fingerprint === b.fingerprint;
}

function newestComplete(rollouts: readonly VersionRollout[]): VersionRollout | undefined {
  return rollouts.find((rollout) => rollout.complete);
}

/**
 * Whether a version is complete; or was for a worker that moved on to it, and since then only a
 * drain has removed replicas. In that case the other processes follow: the worker that moved on
 * unloads the former version, and with a fixed list of members the replicas do not come back before
 * the drain ends.
 */
function mayTakeOver(rollout: VersionRollout): boolean {
  return rollout.complete || (rollout.serving && isHeldByAllWhoStay(rollout));
}

/**
 * Whether some worker serves the version, so that it was complete for that worker, and its replicas
 * can answer. It may look incomplete here, because this process knows an older or a newer
 * announcement of a third worker.
 */
function hasTakenOver({ serving, failed, lastingReplicasMin }: VersionRollout): boolean {
  return serving && failed === 0 && lastingReplicasMin > 0;
}

/** Whether every worker not in drain holds its replicas, and these cover every partition. */
function isHeldByAllWhoStay({
  ready,
  failed,
  waiting,
  lastingReplicasMin,
}: VersionRollout): boolean {
  return ready > 0 && failed + waiting === 0 && lastingReplicasMin > 0;
}

function isAnswerable(rollout: VersionRollout | undefined): boolean {
  return rollout !== undefined && rollout.replicasMin > 0;
}

/** What to serve when nothing served before: the best replicated version that can answer. */
function firstGuess(rollouts: readonly VersionRollout[]): VersionRollout | undefined {
  const sound = rollouts.filter((rollout) => rollout.failed === 0);
  const answerable = sound.filter(isAnswerable);
  if (answerable.length === 0) {
    const isAwaited = sound.some((rollout) => rollout.wanted);
    return isAwaited ? undefined : rollouts.find(isAnswerable);
  }
  return answerable.reduce((best, next) => (isBetterGuess(next, best) ? next : best));
}

function isBetterGuess(next: VersionRollout, best: VersionRollout): boolean {
  if (next.replicasMin !== best.replicasMin) return next.replicasMin > best.replicasMin;
  return next.ready > best.ready;
}

function rolloutOf(
  key: VersionKey,
  workers: readonly Announcement[],
  replication: number,
): VersionRollout {
  const lasting = workers.filter((worker) => worker.state !== "draining");
  const states = lasting.map((worker) => stateOf(worker, key));
  const count = (state: string): number => states.filter((each) => each === state).length;
  const ready = count("ready");
  const failed = count("failed");
  const lastingReplicasMin = fewestReplicas(key, lasting);
  const wantedReplicas = Math.min(replication, lasting.length);
  return {
    key,
    ready,
    failed,
    waiting: lasting.length - ready - failed,
    replicasMin: fewestReplicas(key, workers),
    lastingReplicasMin,
    wanted: count("ready") + count("loading") > 0,
    leaving: lasting.some((worker, index) => !isKept(states[index]) && servesModel(worker, key)),
    serving: workers.some((worker) => holdingOf(worker, key)?.serving === true),
    complete:
      ready > 0 && ready === lasting.length && lastingReplicasMin >= Math.max(1, wantedReplicas),
  };
}

function isKept(state: VersionHolding["state"] | undefined): boolean {
  return state === "ready" || state === "loading" || state === "failed";
}

function servesModel(worker: Announcement, { model }: VersionKey): boolean {
  return holdingsOf(worker, model).some(({ serving }) => serving === true);
}

/** What a worker announces of this content; an unreadable directory counts for every content. */
function stateOf(worker: Announcement, key: VersionKey): VersionHolding["state"] | undefined {
  const holding = holdingOf(worker, key);
  if (holding !== undefined) return holding.state;
  const unread = holdingsOf(worker, key.model).some(
    (each) =>
      each.version === key.version && each.fingerprint === undefined && each.state === "failed",
  );
  return unread ? "failed" : undefined;
}

/** Fewest replicas of any partition; the number of holders for a version without tables. */
function fewestReplicas(key: VersionKey, workers: readonly Announcement[]): number {
  const counts = new Map<number, { readonly partitions: number; readonly counts: Uint16Array }>();
  const holders = new Set<WorkerId>();
  for (const worker of workers) {
    const holding = holdingOf(worker, key);
    if (holding === undefined) continue;
    if (holding.state !== "failed") holders.add(worker.workerId);
    for (const { table, partitions, held } of holding.tables) {
      const known = counts.get(table) ?? { partitions, counts: new Uint16Array(partitions) };
      counts.set(table, known);
      if (known.partitions !== partitions) continue;
      for (const { partition } of held) known.counts[partition]! += 1;
    }
  }
  if (counts.size === 0) return holders.size;
  return Math.min(...[...counts.values()].map((table) => Math.min(...table.counts)));
}
