// Some of the intended owners of each partition, for as long as a version and the one that replaces it share the
// memory of workers. A pure function of the owners, and a part of them: whoever follows it gives up nothing that
// somebody else, who still goes by all owners, counts on.
//
//   owners, of two          of one
//   p0  w0 w1               p0  w0
//   p1  w0 w2      ──▶      p1  w2      w0 would have two of its three partitions: p1 is given to w2
//   p2  w1 w0               p2  w1
//   p3  w2 w1               p3  w2
//
// Room: a worker that has n of the partitions keeps at most n × replicas ÷ all replicas of them, rounded up. So a
// worker that holds two versions with half of the replicas holds as much as of one version with all, or one partition
// more. Such a choice exists, because each owner could keep that part of each of its partitions; that there is also one
// of whole partitions is the integrality of flows (Ford, Fulkerson 1956), whose augmenting paths find it here.

import type { WorkerId } from "@winnow/core";

type Owners = readonly (readonly WorkerId[])[];

/**
 * At most `replicas` of the owners of each partition, in their order; all of them where there are no more. `owners`
 * has as many for each partition, as `place` gives them.
 */
export function fewerOwners(owners: Owners, replicas: number): Owners {
  const all = owners[0]?.length ?? 0;
  if (replicas >= all) return owners;
  const choice = new Choice(owners, replicas / all);
  for (let replica = 0; replica < replicas; replica += 1) {
    for (const partition of owners.keys()) choice.addOwner(partition);
  }
  choice.level();
  return choice.chosen();
}

/** A step of a path: the partition is taken from `from`. */
interface Step {
  readonly partition: number;
  readonly from: WorkerId;
}

/** The owners chosen so far. */
class Choice {
  readonly #owners: Owners;
  readonly #chosen: readonly Set<WorkerId>[];
  readonly #loads = new Map<WorkerId, number>();
  readonly #loadsMax: ReadonlyMap<WorkerId, number>;

  /** `part`: how much of what it owns each worker should keep, 0…1. */
  constructor(owners: Owners, part: number) {
    this.#owners = owners;
    this.#chosen = owners.map(() => new Set());
    const owned = new Map<WorkerId, number>();
    for (const worker of owners.flat()) owned.set(worker, (owned.get(worker) ?? 0) + 1);
    // Two thirds of three are two, whatever their product is in floating point.
    const loadMax = (count: number): number => Math.ceil(count * part - 1e-9);
    this.#loadsMax = new Map([...owned].map(([worker, count]) => [worker, loadMax(count)]));
  }

  /** Chooses the first owner that has room, or else the first one. */
  addOwner(partition: number): void {
    const others = this.#owners[partition]!.filter((each) => !this.#chosen[partition]!.has(each));
    const owner = others.find((each) => this.#room(each) > 0) ?? others[0]!;
    this.#chosen[partition]!.add(owner);
    this.#count(owner, 1);
  }

  /** Moves partitions from owners that have too many, over others, to owners with room. */
  level(): void {
    for (const worker of this.#loadsMax.keys()) {
      while (this.#room(worker) < 0 && this.#relieve(worker));
    }
  }

  chosen(): Owners {
    return this.#owners.map((owners, partition) =>
      owners.filter((owner) => this.#chosen[partition]!.has(owner)),
    );
  }

  /** Takes one partition from a worker, along the shortest path to one with room. Gives whether there is a path. */
  #relieve(worker: WorkerId): boolean {
    const partitionsOf = new Map<WorkerId, number[]>();
    for (const [partition, chosen] of this.#chosen.entries()) {
      for (const each of chosen)
        partitionsOf.set(each, [...(partitionsOf.get(each) ?? []), partition]);
    }
    const reachedBy = new Map<WorkerId, Step | undefined>([[worker, undefined]]);
    for (const from of reachedBy.keys()) {
      if (this.#room(from) > 0) return this.#shift(from, reachedBy);
      for (const partition of partitionsOf.get(from) ?? []) {
        for (const owner of this.#owners[partition]!) {
          const isFree = !this.#chosen[partition]!.has(owner) && !reachedBy.has(owner);
          if (isFree) reachedBy.set(owner, { partition, from });
        }
      }
    }
    return false;
  }

  /** Hands partitions on along the path that ends at `last`. */
  #shift(last: WorkerId, reachedBy: ReadonlyMap<WorkerId, Step | undefined>): true {
    let to = last;
    for (let step = reachedBy.get(to); step !== undefined; step = reachedBy.get(to)) {
      this.#chosen[step.partition]!.delete(step.from);
      this.#chosen[step.partition]!.add(to);
      this.#count(step.from, -1);
      this.#count(to, 1);
      to = step.from;
    }
    return true;
  }

  #room(worker: WorkerId): number {
    return this.#loadsMax.get(worker)! - (this.#loads.get(worker) ?? 0);
  }

  #count(worker: WorkerId, partitions: number): void {
    this.#loads.set(worker, (this.#loads.get(worker) ?? 0) + partitions);
  }
}
