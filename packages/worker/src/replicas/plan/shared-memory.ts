// Memory that other versions are about to give up, where versions share memory during a swap (`../version-swaps.ts`).
// An assignment that fits into it waits instead of being refused. What counts does not depend on whether the swap may
// go on at the moment, so two workers cannot stop each other for good by refusals of which each is due to the other.

import { WinnowError } from "@winnow/core";
import type { WorkerId } from "@winnow/core";

import { loadedOf, openedOf } from "../replica-set.ts";
import type { HeldVersion, ReplicaSet, VersionSwap } from "../replica-set.ts";
import type { ReplicaFacts } from "./replica-facts.ts";

/**
 * Bytes that a content may expect from others: those of versions that are being unloaded, of replicas that default
 * versions have beside the fewer ones of their swaps, and those of versions that come after the content.
 */
export function expectedBytes(set: ReplicaSet, held: HeldVersion, facts: ReplicaFacts): number {
  if (!facts.sharesMemory(held.model)) return 0;
  const others = [...set.versions.values()].filter((other) => other !== held);
  return others.reduce((sum, other) => sum + bytesGivenUp(other, held, { set, facts }), 0);
}

/** Why an assignment is not loaded yet, with the figures that decide it. */
export function waitingFor(
  { model, version }: HeldVersion,
  bytes: { readonly neededBytes: number; readonly freeBytes: number; readonly workerId: WorkerId },
): WinnowError {
  return new WinnowError(
    "UNAVAILABLE",
    `Version ${version} of model "${model}" waits for memory on worker "${bytes.workerId}": ` +
      `${bytes.neededBytes} bytes are still to load, ${Math.max(0, bytes.freeBytes)} are free; ` +
      "replicas of another version are given up once other workers hold them",
  );
}

function bytesGivenUp(
  other: HeldVersion,
  held: HeldVersion,
  { set, facts }: { readonly set: ReplicaSet; readonly facts: ReplicaFacts },
): number {
  // What is being released is free in a moment, but not counted any more.
  const isReleasing = [...other.replicas.values()].some(({ phase }) => phase === "releasing");
  if (isReleasing) return Infinity;
  const opened = openedOf(other);
  if (opened === undefined) return 0;
  const swap = set.swaps.get(other.model);
  if (isGivenUp(other, held, swap)) return bytesBeside([], other);
  return swap?.serving === other.id
    ? bytesBeside(facts.fewerReplicas(other.model, opened), other)
    : 0;
}

/** Whether a content is given up as a whole, or may be for another one of its model. */
function isGivenUp(other: HeldVersion, held: HeldVersion, swap: VersionSwap | undefined): boolean {
  if (other.life.phase === "unloading") return true;
  if (swap?.followers.has(other.id) !== true) return false;
  return swap.serving === held.id || swap.followers.has(held.id);
}

/** Bytes of a content's replicas that are not among those to be kept. */
function bytesBeside(keys: readonly number[], { replicas }: HeldVersion): number {
  const kept = new Set(keys);
  const bytes = [...replicas].map(([key, replica]) =>
    kept.has(key) ? 0 : (loadedOf(replica)?.bytes ?? 0),
  );
  return bytes.reduce((sum, each) => sum + each, 0);
}
