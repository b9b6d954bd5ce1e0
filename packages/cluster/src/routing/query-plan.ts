// Which replica of each partition answers TopK: the choice in which the busiest worker scans as few
// partitions as any choice allows. An optimal semi-matching (Harvey, Ladner, Lovász, Tamir 2003):
// each partition is given to the least loaded worker that an alternating path reaches, handing
// partitions on along the path.
//
//   p2 ─▶ w0 (2) ─ gives p0 ─▶ w1 (1)      p2 may lie on w0 only, but p0 lies on w0 and w1:
//                                          w0 keeps 2, w1 gets 2

import type { WorkerId } from "@winnow/core";

/**
 * The replica to ask, by partition; `undefined` where there is none. Depends on nothing but its
 * input, and not on the order of the replicas of one partition.
 */
export function planQueries(
  replicas: readonly (readonly WorkerId[])[],
): readonly (WorkerId | undefined)[] {
  const workers = [...new Set(replicas.flat())].toSorted((a, b) => (a < b ? -1 : 1));
  const numbers = new Map(workers.map((worker, number) => [worker, number]));
  const options = replicas.map((of) =>
    of.map((worker) => numbers.get(worker)!).toSorted((a, b) => a - b),
  );
  const plan: Plan = {
    options,
    chosen: Array.from({ length: replicas.length }, () => -1),
    assigned: workers.map(() => new Set()),
  };
  for (const partition of options.keys()) assign(plan, partition);
  return plan.chosen.map((number) => workers[number]);
}

interface Plan {
  /** Workers that hold each partition, by number. */
  readonly options: readonly (readonly number[])[];
  /** The worker each partition is given to; -1: none yet. */
  readonly chosen: number[];
  /** Partitions given to each worker. */
  readonly assigned: readonly Set<number>[];
}

/** Gives one more partition away, moving others along the path to the least loaded worker. */
function assign(plan: Plan, partition: number): void {
  const { target, received } = reachLeastLoaded(plan, partition);
  for (let taker = target; taker >= 0;) {
    const moved = received.get(taker)!;
    const giver = plan.chosen[moved]!;
    plan.chosen[moved] = taker;
    plan.assigned[taker]!.add(moved);
    if (giver >= 0) plan.assigned[giver]!.delete(moved);
    taker = giver;
  }
}

interface Reach {
  /** The least loaded worker found; -1: the partition has no replica. */
  readonly target: number;
  /** Workers found, breadth first, each with the partition it would receive. */
  readonly received: ReadonlyMap<number, number>;
}

/** Searches until nobody less loaded can exist: with even loads that is after a step or two. */
function reachLeastLoaded(plan: Plan, partition: number): Reach {
  const received = new Map<number, number>();
  const waiting = [partition];
  const leastLoad = plan.assigned.reduce((least, { size }) => Math.min(least, size), Infinity);
  let target = -1;
  let targetLoad = Infinity;
  for (let next = 0; next < waiting.length && targetLoad > leastLoad; next += 1) {
    const moved = waiting[next]!;
    for (const worker of plan.options[moved]!) {
      if (received.has(worker)) continue;
      received.set(worker, moved);
      const { size } = plan.assigned[worker]!;
      if (size < targetLoad) {
        target = worker;
        targetLoad = size;
      }
      waiting.push(...plan.assigned[worker]!);
    }
  }
  return { target, received };
}
