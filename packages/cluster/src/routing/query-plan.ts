// Which replica of each partition answers a search: several plans, used in rotation. In each plan the busiest
// worker scans as few partitions as possible, and as few workers as this allows are asked. Over all plans
// every worker scans as much as the others, as far as the replicas allow.
//
// One plan is an optimal semi-matching (Harvey, Ladner, Lovász, Tamir 2003): each partition is given to the
// least loaded worker that an alternating path reaches; the partitions along the path move on.
//
//   p2 ─▶ w0 (2) ─ gives p0 ─▶ w1 (1)      p2 may lie on w0 only, but p0 lies on w0 and w1:
//                                          w0 keeps 2, w1 gets 2
//
// Then workers with few partitions hand all of them to others, where that makes no worker busier than the
// busiest. Four partitions that lie on each of three workers are scanned as {2, 2, 0}, {0, 2, 2}, {2, 0, 2}
// in turn. In the end partitions move along such paths from the workers with the highest loads over all plans
// to those with lower ones.
//
// Workers that share a machine's processors are planned as one worker with all their replicas, because two of
// them scan no faster than one. The partitions that the machine gets go to as few of its workers as hold them,
// in every plan to the same ones.

import type { WorkerId } from "@winnow/core";

/** The replica to ask, by partition; `undefined` where there is none. */
export type QueryPlan = readonly (WorkerId | undefined)[];

/** Partitions per worker over all plans: with this many, one more or less is 5 % of the worker's load. */
const EVEN_PARTITIONS = 20;
/** Plans × partitions, at most: plans are made for every routing table, on the event loop. */
const PARTITIONS_PLANNED_MAX = 4096;
/** Moves that even out the plans of a table, at most. */
const MOVES_MAX = 256;

/** The machine that a worker shares with others; absent: it has processors of its own. */
export type Machines = ReadonlyMap<WorkerId, string>;

/**
 * The plans of a table, to be used in rotation; at least one. They depend only on the replicas and the
 * machines, and not on the order of the replicas of one partition.
 */
export function planQueries(
  replicas: readonly (readonly WorkerId[])[],
  machines: Machines = new Map(),
): readonly [QueryPlan, ...QueryPlan[]] {
  if (machines.size === 0) return planWorkers(replicas);
  // The worker with the lowest id stands for its machine.
  const standIns = new Map<string, WorkerId>();
  for (const worker of [...new Set(replicas.flat())].toSorted((a, b) => (a < b ? -1 : 1))) {
    const machine = machines.get(worker);
    if (machine !== undefined && !standIns.has(machine)) standIns.set(machine, worker);
  }
  const standInOf = (worker: WorkerId): WorkerId =>
    standIns.get(machines.get(worker) ?? "") ?? worker;
  const [first, ...others] = planWorkers(replicas.map((of) => [...new Set(of.map(standInOf))]));
  const sharedOut = (plan: QueryPlan): QueryPlan =>
    shareOut(
      plan,
      replicas.map((of, at) => of.filter((worker) => standInOf(worker) === plan[at])),
    );
  return [sharedOut(first), ...others.map(sharedOut)];
}

/**
 * Gives the partitions of each machine to as few of its workers as hold them: the one that holds most of those
 * left, of equals the one with the lowest id (Chvátal's greedy cover, 1979).
 */
function shareOut(plan: QueryPlan, holders: readonly (readonly WorkerId[])[]): QueryPlan {
  const chosen: (WorkerId | undefined)[] = plan.map(() => undefined);
  const left = new Set([...holders.keys()].filter((partition) => holders[partition]!.length > 0));
  while (left.size > 0) {
    const counts = new Map<WorkerId, number>();
    for (const partition of left) {
      for (const worker of holders[partition]!) counts.set(worker, (counts.get(worker) ?? 0) + 1);
    }
    const [taker] = [...counts].reduce((best, each) =>
      each[1] > best[1] || (each[1] === best[1] && each[0] < best[0]) ? each : best,
    );
    for (const partition of left) {
      if (!holders[partition]!.includes(taker)) continue;
      chosen[partition] = taker;
      left.delete(partition);
    }
  }
  return chosen;
}

/** Plans of workers that each have processors of their own. */
function planWorkers(
  replicas: readonly (readonly WorkerId[])[],
): readonly [QueryPlan, ...QueryPlan[]] {
  const workers = [...new Set(replicas.flat())].toSorted((a, b) => (a < b ? -1 : 1));
  const numbers = new Map(workers.map((worker, number) => [worker, number]));
  const options = replicas.map((of) =>
    of.map((worker) => numbers.get(worker)!).toSorted((a, b) => a - b),
  );
  const totals = workers.map(() => 0);
  const plans = Array.from({ length: plansOf(replicas.length, workers.length) }, (_, number) =>
    planOnce(options, totals, number),
  );
  evenOut(plans, totals);
  const [first, ...others] = plans.map(({ chosen }) => chosen.map((number) => workers[number]));
  return [first!, ...others];
}

/** The number of plans that makes the workers' loads even, within bounds. */
function plansOf(partitions: number, workers: number): number {
  if (partitions <= 1) return Math.max(1, workers);
  const even = Math.ceil((EVEN_PARTITIONS * workers) / partitions);
  const rounds = even > workers ? workers * Math.ceil(even / workers) : even;
  return Math.max(1, Math.min(rounds, Math.floor(PARTITIONS_PLANNED_MAX / partitions)));
}

interface Plan {
  /** Workers that hold each partition, by number. */
  readonly options: readonly (readonly number[])[];
  /** The worker each partition is given to; -1: none yet. */
  readonly chosen: number[];
  /** Partitions given to each worker. */
  readonly assigned: readonly Set<number>[];
  /** Partitions of each worker in previous plans; of equal loads the lower total is chosen. */
  readonly totals: readonly number[];
  /** Partitions that have a replica ÷ workers, rounded up: the busiest worker has no fewer. */
  readonly meanLoad: number;
  /** Partitions of the busiest worker. */
  loadMax: number;
}

/** Makes one more plan and adds its loads to `totals`. */
function planOnce(options: readonly (readonly number[])[], totals: number[], number: number): Plan {
  const plan: Plan = {
    options,
    chosen: Array.from({ length: options.length }, () => -1),
    assigned: totals.map(() => new Set()),
    totals,
    meanLoad: Math.ceil(options.filter(({ length }) => length > 0).length / totals.length),
    loadMax: 0,
  };
  // Each plan begins at another partition, because the first partitions have the widest choice.
  for (const index of options.keys()) assign(plan, (index + number) % options.length);
  plan.loadMax = Math.max(0, ...plan.assigned.map(({ size }) => size));
  askFewer(plan);
  for (const [worker, { size }] of plan.assigned.entries()) totals[worker]! += size;
  return plan;
}

/** Assigns one more partition, moving others along the path to the least loaded worker. */
function assign(plan: Plan, partition: number): void {
  const { target, received } = reachLeastLoaded(plan, partition);
  for (let taker = target; taker >= 0;) {
    const moved = received.get(taker)!;
    const giver = plan.chosen[moved]!;
    give(plan, moved, taker);
    taker = giver;
  }
}

function give({ chosen, assigned }: Plan, partition: number, taker: number): void {
  const giver = chosen[partition]!;
  chosen[partition] = taker;
  assigned[taker]!.add(partition);
  if (giver >= 0) assigned[giver]!.delete(partition);
}

interface Reach {
  /** The least loaded worker found; -1: the partition has no replica. */
  readonly target: number;
  /** Workers found, breadth first, each with the partition it would receive. */
  readonly received: ReadonlyMap<number, number>;
}

/** Searches until no less loaded worker can exist: with even loads that takes a step or two. */
function reachLeastLoaded(plan: Plan, partition: number): Reach {
  const received = new Map<number, number>();
  const waiting = [partition];
  const leastLoad = plan.assigned.reduce((least, { size }) => Math.min(least, size), Infinity);
  // The busiest worker scans `meanLoad` or more anyway, so any worker below `meanLoad` will do.
  const enough = Math.max(leastLoad, plan.meanLoad - 1);
  let target = -1;
  for (let next = 0; next < waiting.length; next += 1) {
    if (target >= 0 && plan.assigned[target]!.size <= enough) break;
    const moved = waiting[next]!;
    for (const worker of plan.options[moved]!) {
      if (received.has(worker)) continue;
      received.set(worker, moved);
      if (target < 0 || isLessLoaded(plan, worker, target)) target = worker;
      waiting.push(...plan.assigned[worker]!);
    }
  }
  return { target, received };
}

function isLessLoaded({ assigned, totals }: Plan, a: number, b: number): boolean {
  const sizes = assigned[a]!.size - assigned[b]!.size;
  return sizes < 0 || (sizes === 0 && totals[a]! < totals[b]!);
}

/** Leaves out workers whose partitions others can scan within `loadMax`. */
function askFewer(plan: Plan): void {
  const { assigned, totals, loadMax } = plan;
  const asked = [...assigned.keys()].filter((worker) => assigned[worker]!.size > 0);
  asked.sort((a, b) => assigned[a]!.size - assigned[b]!.size || totals[b]! - totals[a]!);
  for (const worker of asked) {
    if (assigned[worker]!.size < loadMax) leaveOut(plan, worker);
  }
}

/** Moves all partitions of a worker to others that are asked anyway; none if not all can move. */
function leaveOut(plan: Plan, worker: number): void {
  const { assigned, options, loadMax } = plan;
  const partitions = [...assigned[worker]!];
  const moved: number[] = [];
  for (const partition of partitions) {
    let taker = -1;
    for (const other of options[partition]!) {
      const { size } = assigned[other]!;
      if (other === worker || size === 0 || size >= loadMax) continue;
      if (taker < 0 || isLessLoaded(plan, other, taker)) taker = other;
    }
    if (taker < 0) break;
    give(plan, partition, taker);
    moved.push(partition);
  }
  if (moved.length < partitions.length) for (const back of moved) give(plan, back, worker);
}

/** One partition of one plan that moves to another worker. */
interface Step {
  readonly plan: Plan;
  readonly partition: number;
  readonly giver: number;
}

/** Moves partitions from the workers with the highest totals to those with lower ones. */
function evenOut(plans: readonly Plan[], totals: number[]): void {
  const byTotal = (): number[] => [...totals.keys()].toSorted((a, b) => totals[b]! - totals[a]!);
  let moves = 0;
  for (let [busiest, ...others] = byTotal(); busiest !== undefined;) {
    if (moves < MOVES_MAX && relieve(plans, totals, busiest)) {
      moves += 1;
      [busiest, ...others] = byTotal();
    } else [busiest, ...others] = others;
  }
}

/** Takes one partition from a worker, along the shortest path to one with at least two fewer. */
function relieve(plans: readonly Plan[], totals: number[], from: number): boolean {
  const steps = new Map<number, Step>();
  const waiting = [from];
  for (const giver of waiting) {
    for (const plan of plans) {
      for (const partition of plan.assigned[giver]!) {
        for (const taker of plan.options[partition]!) {
          if (taker === from || steps.has(taker) || !mayTake(plan, taker, giver)) continue;
          steps.set(taker, { plan, partition, giver });
          if (totals[taker]! + 1 < totals[from]!) return take(steps, totals, { from, to: taker });
          waiting.push(taker);
        }
      }
    }
  }
  return false;
}

/** Whether the move keeps `loadMax` and asks no more workers than before. */
function mayTake({ assigned, loadMax }: Plan, taker: number, giver: number): boolean {
  const { size } = assigned[taker]!;
  return size < loadMax && (size > 0 || assigned[giver]!.size === 1);
}

/**
 * Moves the partitions of a path, from its end to its start, until a step made before has ruled out
 * the next one of the same plan. `false` if nothing moved.
 */
function take(
  steps: ReadonlyMap<number, Step>,
  totals: number[],
  { from, to }: { readonly from: number; readonly to: number },
): boolean {
  for (let taker = to; taker !== from;) {
    const { plan, partition, giver } = steps.get(taker)!;
    if (!mayTake(plan, taker, giver)) return taker !== to;
    give(plan, partition, taker);
    totals[taker]! += 1;
    totals[giver]! -= 1;
    taker = giver;
  }
  return true;
}
