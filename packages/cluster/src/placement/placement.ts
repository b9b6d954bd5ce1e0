// Which workers should hold which partitions: a pure function of names, equal in every process. It
// only decides what workers load; which worker a router asks follows from what workers announce.
//
//   partition name ─ sha256 ─▶ place on the ring ─▶ workers in ring order ─▶ the first R with room
//
// Room: no worker gets more than `loadRatioMax` times the mean (consistent hashing with bounded
// loads, Mirrokni, Thorup, Zadimoghaddam 2018), so the fullest worker's memory is known beforehand.

import type { EvenCut, TableCut, WorkerId } from "@winnow/core";
import { Ring } from "./ring.ts";

/** How partitions are spread. */
export interface PlacementOptions {
  /** Replicas of each partition; at most one per worker. */
  readonly replication: number;
  /** Most replicas of one worker ÷ the mean. Default 1.1; a lower one moves more rows. */
  readonly loadRatioMax?: number;
}

const LOAD_RATIO_MAX = 1.1;

/**
 * The name by which a partition is placed. It does not contain the version: a newer version of the
 * table lies on the same workers as the older one, so a swap moves no rows between workers.
 */
export function partitionName(model: string, table: string, partition: number): string {
  return `${model}/${table}/p${partition}`;
}

/** The names of all partitions of one table, see `partitionName`. */
function partitionNames(
  model: string,
  table: { readonly name: string; readonly partitions: number },
): string[] {
  return Array.from({ length: table.partitions }, (_, partition) =>
    partitionName(model, table.name, partition),
  );
}

/** What of a table decides where its partitions lie. */
export interface PlacedTable extends Pick<TableCut, "partitions"> {
  readonly name: string;
  readonly original?: Pick<EvenCut, "partitions"> | undefined;
}

/**
 * The intended owners of each partition of a table. Added items move none of the model's partitions; theirs lie where
 * some of these do, so that a table that one worker holds is still searched by one.
 */
export function placeTable(
  { model, table }: { readonly model: string; readonly table: PlacedTable },
  workers: readonly WorkerId[],
  options: PlacementOptions,
): readonly (readonly WorkerId[])[] {
  const { name, partitions, original } = table;
  if (original === undefined) return place(partitionNames(model, table), workers, options);
  const own = place(partitionNames(model, { ...original, name }), workers, options);
  return Array.from({ length: partitions }, (_, at) => own[at % own.length]!);
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
  const ring = ringOf(workers);
  const preferences = partitions.map((name) => ring.preferenceOf(name));
  const replication = Math.min(options.replication, distinct.length);
  const mean = (partitions.length * replication) / distinct.length;
  const loadMax = Math.max(
    Math.ceil(mean),
    Math.floor((options.loadRatioMax ?? LOAD_RATIO_MAX) * mean),
  );
  const spread = new Spread(partitions.length, loadMax);
  for (let replica = 0; replica < replication; replica += 1) {
    for (const [partition, preference] of preferences.entries()) {
      spread.addOwner(partition, preference);
    }
  }
  return spread.owners;
}

/**
 * Rings by their lists of workers, which nobody changes: the tables of all models are placed one after the other on
 * the same list. A ring of a thousand workers takes megabytes, so each is kept only until memory is collected.
 */
const rings = new WeakMap<readonly WorkerId[], WeakRef<Ring>>();

function ringOf(workers: readonly WorkerId[]): Ring {
  const known = rings.get(workers)?.deref();
  if (known !== undefined) return known;
  const ring = new Ring([...new Set(workers)]);
  rings.set(workers, new WeakRef(ring));
  return ring;
}

/** The owners assigned so far; no worker has more than `loadMax` partitions. */
class Spread {
  readonly owners: WorkerId[][];
  readonly #loadMax: number;
  readonly #loads = new Map<WorkerId, number>();

  constructor(partitions: number, loadMax: number) {
    this.owners = Array.from({ length: partitions }, () => []);
    this.#loadMax = loadMax;
  }

  /** Gives a partition to the first worker that has room and does not hold it yet. */
  addOwner(partition: number, preference: Iterable<WorkerId>): void {
    const holders = this.owners[partition]!;
    let first: WorkerId | undefined;
    for (const worker of preference) {
      if (holders.includes(worker)) continue;
      first ??= worker;
      if (this.#hasRoom(worker)) return this.#give(partition, worker);
    }
    if (first === undefined) throw new RangeError("More replicas than workers");
    this.#makeRoom(first, preference);
    this.#give(partition, first);
  }

  #give(partition: number, owner: WorkerId): void {
    this.owners[partition]!.push(owner);
    this.#count(owner, 1);
  }

  /**
   * Moves one partition from `full` to a worker with room. A worker with room exists, because
   * `loadMax` is at least the mean. It holds fewer partitions than `full`, so `full` has one that
   * it lacks.
   */
  #makeRoom(full: WorkerId, workers: Iterable<WorkerId>): void {
    const roomy = [...workers].find((worker) => this.#hasRoom(worker));
    const given = this.owners.find(
      (holders) => holders.includes(full) && roomy !== undefined && !holders.includes(roomy),
    );
    if (roomy === undefined || given === undefined) throw new RangeError("More replicas than room");
    given[given.indexOf(full)] = roomy;
    this.#count(full, -1);
    this.#count(roomy, 1);
  }

  #hasRoom(worker: WorkerId): boolean {
    return (this.#loads.get(worker) ?? 0) < this.#loadMax;
  }

  #count(worker: WorkerId, replicas: number): void {
    this.#loads.set(worker, (this.#loads.get(worker) ?? 0) + replicas);
  }
}
