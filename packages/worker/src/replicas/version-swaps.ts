// Which versions share memory while one of them replaces another (`--swap-replicas`). Each worker decides for itself,
// from the directories and announcements that it sees at the moment, and two workers may see different ones.
//
//                      the default, vN              vN+1, which follows it
//   nothing follows    on all owners                -
//   a swap goes on     on fewer                     on fewer
//   it cannot go on    on all                       on fewer; gives way where vN lacks memory
//   vN+1 is default    unloading                    on all
//
// What makes differing views harmless: the fewer owners are some of all owners, the same ones in every view of one list
// of workers (`cluster/src/placement/fewer-owners.ts`). So they keep their replicas whatever they see, and any other
// owner gives its own up only once all of them have confirmed that they hold theirs (`plan/replica-plan.ts`).
//
// A swap cannot go on while a worker is absent or in drain, as the fewer replicas may be its own, and while the version
// that follows has failed or does not fit, here or on another worker. Where the default version lacks replicas, those
// that follow load nothing and give way; and a version that has failed elsewhere, to another one that follows. None
// gives way that serves somewhere.

import type { VersionHolding } from "@winnow/cluster";
import type { VersionKey, WorkerId } from "@winnow/core";

import { Assignment } from "./assignment.ts";
import type { ClusterView } from "./cluster-view.ts";
import { heldAs, heldContent, isRefused, openedOf } from "./replica-set.ts";
import type { HeldVersion, ReplicaSet, VersionSwap } from "./replica-set.ts";
import { wantedVersions } from "../models/version-policy.ts";
import type { FoundModel } from "../models/version-watch.ts";
import type { WantedVersion } from "./plan/replica-facts.ts";

/** What swaps are derived from. */
interface SwapFacts {
  readonly cluster: ClusterView;
  readonly models: readonly FoundModel[];
  /** Versions to hold, those that give way among them. */
  readonly wanted: readonly WantedVersion[];
  readonly workerId: WorkerId;
  readonly nowMs: number;
  readonly draining: boolean;
}

/** The set, with the swaps of all models derived again. */
export function withSwaps(set: ReplicaSet, facts: SwapFacts): ReplicaSet {
  const swaps = new Map<string, VersionSwap>();
  for (const found of facts.models) {
    const serving = set.serving.get(found.model);
    if (serving === undefined || !facts.cluster.hasFewerReplicas(found.model)) continue;
    const followers = isLeaving(serving, found) ? followersOf(serving, set, facts) : [];
    if (followers.length > 0) swaps.set(found.model, swapOf(serving, followers, { set, facts }));
  }
  return swaps.size === 0 && set.swaps.size === 0 ? set : { ...set, swaps };
}

/** Whether a content gives its replicas up, because a more important version of its model lacks memory. */
export function givesWay({ swaps }: ReplicaSet, { id, model, replicas }: HeldVersion): boolean {
  const swap = swaps.get(model);
  return swap?.isShort === true && swap.last.has(id) && replicas.size > 0;
}

/** Whether the policy does not name a default version that no version has failed in place of: it is to be replaced. */
function isLeaving(serving: VersionKey, { policy, versions }: FoundModel): boolean {
  const available = [...new Set(versions.map(({ version }) => version))];
  const choice = { available, failed: new Set<number>(), serving: undefined, servedElsewhere: [] };
  return !wantedVersions(policy, choice).includes(serving.version);
}

/**
 * Wanted contents that are newer than the default. A worker in drain keeps all of a version that is the default
 * elsewhere, until others hold it.
 */
function followersOf(serving: VersionKey, set: ReplicaSet, facts: SwapFacts): HeldVersion[] {
  return facts.wanted.flatMap(({ model, found }) => {
    if (model !== serving.model || found.version <= serving.version) return [];
    const held = heldAs(set, { model, ...found });
    if (held === undefined) return [];
    const isServed = facts.cluster.servedElsewhere(model).includes(found.version);
    return facts.draining && isServed ? [] : [held];
  });
}

function swapOf(
  key: VersionKey,
  followers: readonly HeldVersion[],
  { set, facts }: { readonly set: ReplicaSet; readonly facts: SwapFacts },
): VersionSwap {
  const { cluster, draining } = facts;
  const held = heldContent(set, key);
  const serving = held?.life.phase === "open" ? held : undefined;
  const mayGoOn = serving !== undefined && !draining && cluster.isUndisturbed;
  const newest = followers.find((each) => isHopeful(each, facts));
  const isReduced = mayGoOn && newest !== undefined;
  const first = firstOf(serving, newest, { isReduced, facts });
  const isLast = ({ id }: HeldVersion): boolean => first !== undefined && first.id !== id;
  return {
    serving: serving?.id,
    followers: new Set(followers.map(({ id }) => id)),
    isReduced,
    last: new Set(followers.filter((each) => isLast(each)).map(({ id }) => id)),
    isShort: first?.refusal !== undefined,
  };
}

/**
 * The content that comes before the others of its model: the default version while it lacks memory, or else the newest
 * one that may become the default, until it is loaded here.
 */
function firstOf(
  serving: HeldVersion | undefined,
  newest: HeldVersion | undefined,
  { isReduced, facts }: { readonly isReduced: boolean; readonly facts: SwapFacts },
): HeldVersion | undefined {
  const isShort = serving?.refusal !== undefined;
  if (isShort && lacksReplicas(serving, { isFewer: isReduced, facts })) return serving;
  const isLoaded = newest === undefined || !lacksReplicas(newest, { isFewer: true, facts });
  return isLoaded ? undefined : newest;
}

/**
 * Whether a content is open and may be complete some time, by what is known here. One whose shares did not add up is tried
 * again by all workers together; where they are not, it is not waited for.
 */
function isHopeful(held: HeldVersion, facts: SwapFacts): boolean {
  const { model, version, status, trouble } = held;
  if (held.life.phase !== "open" || isRefused(held)) return false;
  const isTriedLater = trouble !== undefined && trouble.retryAtMs > facts.nowMs;
  const isTriedOut = trouble?.isLasting === true && trouble.error.code !== "UNAVAILABLE";
  if (isTriedLater || (isTriedOut && status.kind === "complete")) return false;
  const elsewhere = facts.cluster.heldElsewhere(model, version);
  if (status.kind !== "doubted") return !elsewhere.some((each) => hasFailed(each));
  const isTriedAgain = status.corruptSinceMs === undefined;
  return isTriedAgain && elsewhere.every((each) => hasFailed(each) && isOpen(each));
}

function hasFailed({ state, error }: VersionHolding): boolean {
  return state === "failed" && error?.code !== "UNAVAILABLE";
}

function isOpen({ fingerprint, error }: VersionHolding): boolean {
  return fingerprint !== undefined && error?.code !== "RESOURCE_EXHAUSTED";
}

/** Whether a content lacks replicas that are intended here. */
function lacksReplicas(
  held: HeldVersion,
  { isFewer, facts }: { readonly isFewer: boolean; readonly facts: SwapFacts },
): boolean {
  const opened = openedOf(held);
  if (opened === undefined) return false;
  const { cluster, workerId } = facts;
  const assignment = new Assignment(held, opened, {
    workerId,
    intendedOwners: () => [],
    intendedReplicas: () => cluster.intendedOf(held.model, opened, isFewer),
  });
  return assignment.missing(held).length > 0;
}
