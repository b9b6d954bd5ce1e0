// Replicas beyond the intended ones. A table that is not cut is answered by one worker per query, so each
// further replica of it adds throughput, and every worker that has room holds one. Each worker decides for
// itself and announces what it holds; nobody counts on these replicas: a version is complete without them.
//
// Their memory is bounded by a part of the device's memory, and by what the next versions of all models held
// here will need, so that a swap never waits for an extra replica to be given up. Tables that are cut get
// none: their workers share the work of each query, and more replicas would not reduce it.

import type { VersionKey } from "@winnow/core";

import type { OpenedVersion } from "../../compute/compute.ts";
import { Assignment, occupiedBytesOf } from "../assignment.ts";
import type { ReplicaFacts } from "./replica-facts.ts";
import { heldAs, isServing, openedOf, replicaKey } from "../replica-set.ts";
import type { HeldVersion, ReplicaSet } from "../replica-set.ts";

/** What the decision is made from. */
export type ExtraFacts = Pick<
  ReplicaFacts,
  | "nowMs"
  | "workerId"
  | "intendedOwners"
  | "intendedReplicas"
  | "wanted"
  | "capacityBytes"
  | "extraMemoryRatio"
  | "hasExtras"
  | "isComplete"
>;

/** Replica keys by content id; contents without any are left out. */
export type ExtraReplicas = ReadonlyMap<string, ReadonlySet<number>>;

interface Candidate {
  readonly id: string;
  readonly key: number;
  readonly bytes: number;
}

/**
 * The extra replicas that this worker holds: of the most important versions first, of each the smallest
 * tables first, as far as memory goes. None while some version does not fit.
 */
export function extraReplicas(set: ReplicaSet, facts: ExtraFacts): ExtraReplicas {
  const extras = new Map<string, Set<number>>();
  const isShort = [...set.versions.values()].some(({ refusal }) => refusal !== undefined);
  if (isShort || facts.extraMemoryRatio === 0) return extras;
  let bytesLeft = bytesForExtras(set, facts);
  for (const { id, key, bytes } of candidatesOf(set, facts)) {
    if (bytes > bytesLeft) continue;
    bytesLeft -= bytes;
    extras.set(id, (extras.get(id) ?? new Set()).add(key));
  }
  return extras;
}

/** Bytes for extra replicas: their part of the device, or less if a swap of all models needs more. */
function bytesForExtras(set: ReplicaSet, facts: ExtraFacts): number {
  const byModel = new Map<string, number[]>();
  for (const { held, opened } of wantedContents(set, facts)) {
    const intended = new Assignment(held, opened, facts).intended();
    const bytes = occupiedBytesOf(set, held, intended);
    byModel.set(held.model, [...(byModel.get(held.model) ?? []), bytes]);
  }
  const neededBytes = Array.from(byModel.values(), (versions) => {
    const sum = versions.reduce((total, bytes) => total + bytes, 0);
    return Math.max(sum, 2 * Math.max(...versions));
  });
  const reservedBytes = neededBytes.reduce((total, bytes) => total + bytes, 0);
  const { capacityBytes, extraMemoryRatio } = facts;
  return Math.min(extraMemoryRatio * capacityBytes, capacityBytes - reservedBytes);
}

/** Tables that are not cut, with what is added to them, and not intended here, of contents that are the default or complete. */
function candidatesOf(set: ReplicaSet, facts: ExtraFacts): readonly Candidate[] {
  return wantedContents(set, facts).flatMap(({ held, opened }) => {
    if (!facts.hasExtras(held.model)) return [];
    const isDoubted = held.status.kind === "doubted";
    const isRetriedLater = (held.trouble?.retryAtMs ?? 0) > facts.nowMs;
    if (isDoubted || held.isLeft || isRetriedLater) return [];
    const assignment = new Assignment(held, opened, facts);
    if (!assignment.isLoaded(held) || !isSound(assignment.key, set, facts)) return [];
    const intended = new Set(assignment.intended());
    return opened.tables
      .flatMap(({ partitions, original = { partitions } }, table) => {
        if (original.partitions !== 1) return [];
        const keys = Array.from({ length: partitions }, (_, at) => replicaKey(table, at));
        return keys.filter((key) => !intended.has(key));
      })
      .map((key) => ({ id: held.id, key, bytes: occupiedBytesOf(set, held, [key]) }))
      .toSorted((a, b) => a.bytes - b.bytes || a.key - b.key);
  });
}

/** Whether a content is the default or complete. Before that, its checksums may turn out not to add up. */
function isSound(key: VersionKey, set: ReplicaSet, { isComplete }: ExtraFacts): boolean {
  return isServing(set, key) || isComplete(key);
}

/** Opened contents that are wanted, the most important first. */
function wantedContents(
  set: ReplicaSet,
  { wanted }: ExtraFacts,
): readonly { readonly held: HeldVersion; readonly opened: OpenedVersion }[] {
  return wanted.flatMap(({ model, found }) => {
    const held = heldAs(set, { model, ...found });
    if (held?.life.phase !== "open") return [];
    const opened = openedOf(held);
    return opened === undefined ? [] : [{ held, opened }];
  });
}
