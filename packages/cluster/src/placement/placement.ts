// Which workers should hold which partitions: a pure function of names, equal in every process. It
// states intent, for memory; who is asked follows from what workers announce.
//
//   partition name ─ sha256 ─▶ place on the ring ─▶ workers in ring order ─▶ the first R with room
//
// Room: no worker gets more than `loadRatioMax` times the mean (consistent hashing with bounded
// loads, Mirrokni, Thorup, Zadimoghaddam 2018), so the fullest worker's memory is known beforehand.

import type { WorkerId } from "@winnow/core";
import { Ring } from "./ring.ts";

/** How partitions are spread. */
export interface PlacementOptions {
  /** Replicas of each partition; at most one per worker. */
  readonly replication: number;
  /** Most replicas of one worker ÷ the mean. Default 1.1: less moves more rows. */
  readonly loadRatioMax?: number;
}

const LOAD_RATIO_MAX = 1.1;

/**
 * The name a partition is placed by. Without the version: a newer version of the same table lies
 * where the older one does, so a swap moves no rows between workers.
 */
export function partitionName(model: string, table: string, partition: number): string {
  return `${model}/${table}/p${partition}`;
}

/** The names of all partitions of one table, see `partitionName`. */
export function partitionNames(
  model: string,
  table: { readonly name: string; readonly partitions: number },
): string[] {
  return Array.from({ length: table.partitions }, (_, partition) =>
    partitionName(model, table.name, partition),
  );
}

/**
 * The intended owners of each partition, by position in `partitions`: min(replication, workers)
 * distinct workers, whatever the order of `workers`; none if there are no workers.
 */
export function place(
  partitions: readonly string[],
  workers: readonly WorkerId[],
  options: PlacementOptions,
): readonly (readonly WorkerId[])[] {
  const distinct = [...new Set(workers)];
  if (distinct.length === 0) return partitions.map(() => []);
  const ring = new Ring(distinct);
  const preferences = partitions.map((name) => ring.preferenceOf(name));
  const replication = Math.min(options.replication, distinct.length);
  const mean = (partitions.length * replication) / distinct.length;
  const loadMax = Math.max(
    Math.ceil(mean),
    Math.floor((options.loadRatioMax ?? LOAD_RATIO_MAX) * mean),
  );
  const loads = new Map<WorkerId, number>();
  const owners: WorkerId[][] = partitions.map(() => []);
  for (let replica = 0; replica < replication; replica += 1) {
    for (const [partition, preference] of preferences.entries()) {
      const owner = nextOwner(preference, owners[partition]!, (worker) => {
        return (loads.get(worker) ?? 0) < loadMax;
      });
      owners[partition]!.push(owner);
      loads.set(owner, (loads.get(owner) ?? 0) + 1);
    }
  }
  return owners;
}

/** The first worker that has room and does not hold it; if none has room, the first that does not. */
function nextOwner(
  preference: readonly WorkerId[],
  holders: readonly WorkerId[],
  hasRoom: (worker: WorkerId) => boolean,
): WorkerId {
  const others = preference.filter((worker) => !holders.includes(worker));
  const owner = others.find((worker) => hasRoom(worker)) ?? others[0];
  if (owner === undefined) throw new RangeError("More replicas than workers");
  return owner;
}
