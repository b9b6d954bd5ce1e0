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
  const reached = reach(plan, partition);
  let target = -1;
  for (const worker of reached.keys()) {
    const load = plan.assigned[worker]!.size;
    const best = target < 0 ? Infinity : plan.assigned[target]!.size;
    if (load < best || (load === best && worker < target)) target = worker;
  }
  while (target >= 0) {
    const moved = reached.get(target)!;
    const giver = plan.chosen[moved]!;
    plan.chosen[moved] = target;
    plan.assigned[target]!.add(moved);
    if (giver >= 0) plan.assigned[giver]!.delete(moved);
    target = giver;
  }
}

/** Workers reachable from a partition, breadth first, each with the partition it would receive. */
function reach(plan: Plan, partition: number): ReadonlyMap<number, number> {
  const reached = new Map<number, number>();
  const waiting = [partition];
  for (let next = 0; next < waiting.length; next += 1) {
    const moved = waiting[next]!;
    for (const worker of plan.options[moved]!) {
      if (reached.has(worker)) continue;
      reached.set(worker, moved);
      waiting.push(...plan.assigned[worker]!);
    }
  }
  return reached;
}
