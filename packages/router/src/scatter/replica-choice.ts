// Which worker is asked for which partitions. While all is well, the table's plans, used in rotation, spread
// searches evenly: the plan of the rotation is used, or the next one whose workers can all be asked and are
// trusted. If there is no such plan, or few partitions are wanted, the replica with the least work is chosen:
// fewest partitions of this query, then fewest questions under way, then at random. Latency does not decide,
// because it would send everything to one worker. Of workers that share a machine's processors only the first
// trusted one is considered, because two would scan no faster. Untrusted workers come last and are never left
// out, so the last replica is always asked. A worker that has started anew since the table was made counts as
// another worker, which only a later table may ask.

import type { WorkerId } from "@winnow/core";
import type { RoutedTable, RoutingTable } from "@winnow/cluster";
import type { WorkerPeer } from "../workers/worker-peer.ts";

/** The workers as they are at present, and a source of random numbers. */
export interface ReplicaChoiceParts {
  readonly peers: ReadonlyMap<WorkerId, WorkerPeer>;
  readonly random: () => number;
}

/** The partitions for which workers are wanted. */
export interface ReplicaChoiceQuestion {
  readonly table: RoutedTable;
  /** The workers' incarnations as the table has them. */
  readonly lives: RoutingTable["workers"];
  /** Ascending. */
  readonly partitions: readonly number[];
  /** Workers that have been asked already. */
  readonly avoided: ReadonlySet<WorkerId>;
  /** Whether to use the workers of a plan, if they are trusted. */
  readonly planned: boolean;
  /** Number of the plan that is tried first, and then those after it. */
  readonly plan: number;
}

/** Which worker is asked for which partitions. */
export interface ReplicaChoice {
  /** Ascending partitions, by worker. */
  readonly groups: ReadonlyMap<WorkerPeer, readonly number[]>;
  /** Partitions for which no worker can be asked. */
  readonly lost: readonly number[];
}

/** Chooses for each partition a worker that holds it. */
export function chooseReplicas(
  parts: ReplicaChoiceParts,
  question: ReplicaChoiceQuestion,
): ReplicaChoice {
  const planned = new Map<WorkerPeer, readonly number[]>();
  const trusted = new Map<WorkerPeer, boolean>();
  if (followsPlan({ parts, question, groups: planned, trusted })) {
    return { groups: planned, lost: [] };
  }
  const groups = new Map<WorkerPeer, number[]>();
  const lost: number[] = [];
  for (const partition of question.partitions) {
    const peer = chooseReplica(partition, { parts, question, groups, trusted });
    if (peer === undefined) lost.push(partition);
    else add(groups, peer, partition);
  }
  return { groups, lost };
}

type PlanGroups = ReadonlyMap<WorkerId | undefined, readonly number[]>;

/** The partitions of each worker in each plan of a table, made once per table. */
const groupsOfTables = new WeakMap<RoutedTable, readonly PlanGroups[]>();

function groupsOf(table: RoutedTable): readonly PlanGroups[] {
  let plans = groupsOfTables.get(table);
  if (plans === undefined) {
    plans = table.plans.map((plan) => {
      const groups = new Map<WorkerId | undefined, number[]>();
      for (const [partition, id] of plan.entries()) add(groups, id, partition);
      return groups;
    });
    groupsOfTables.set(table, plans);
  }
  return plans;
}

/** The usual case: the whole table is wanted, and every worker of some plan is trusted. */
function followsPlan(state: ChoiceState): boolean {
  const { table, partitions, planned, avoided, plan: number } = state.question;
  if (!planned || avoided.size > 0 || partitions.length !== table.replicas.length) return false;
  const plans = groupsOf(table);
  return plans.some((_, step) => follows(plans[(number + step) % plans.length]!, state));
}

function follows(plan: PlanGroups, state: ChoiceState): boolean {
  state.groups.clear();
  for (const [id, group] of plan) {
    const peer = askable(id, state);
    if (peer === undefined || !isTrusted(peer, state)) return false;
    state.groups.set(peer, group);
  }
  return true;
}

function add<Key>(groups: Map<Key, number[]>, key: Key, partition: number): void {
  const group = groups.get(key);
  if (group === undefined) groups.set(key, [partition]);
  else group.push(partition);
}

interface ChoiceState {
  readonly parts: ReplicaChoiceParts;
  readonly question: ReplicaChoiceQuestion;
  readonly groups: Map<WorkerPeer, readonly number[]>;
  /** Whether each worker is trusted, determined once per query. */
  readonly trusted: Map<WorkerPeer, boolean>;
}

function chooseReplica(partition: number, state: ChoiceState): WorkerPeer | undefined {
  const { table, planned, plan: number } = state.question;
  const plan = planned ? table.plans[number % table.plans.length] : undefined;
  const favourite = askable(plan?.[partition], state);
  if (favourite !== undefined && isTrusted(favourite, state)) return favourite;
  const peers = (table.replicas[partition] ?? []).flatMap((id) => askable(id, state) ?? []);
  return leastBusy(table.machines.size === 0 ? peers : onePerMachine(peers, state), state);
}

/** Of each machine the first worker that is trusted, or the first one where none is. */
function onePerMachine(peers: readonly WorkerPeer[], state: ChoiceState): readonly WorkerPeer[] {
  const { machines } = state.question.table;
  const first = new Map<string, WorkerPeer>();
  for (const peer of [...peers.filter((each) => isTrusted(each, state)), ...peers]) {
    const machine = machines.get(peer.id);
    if (machine !== undefined && !first.has(machine)) first.set(machine, peer);
  }
  return peers.filter((peer) => {
    const machine = machines.get(peer.id);
    return machine === undefined || first.get(machine) === peer;
  });
}

/** The best worker by `compare`; chance decides between equals. */
function leastBusy(peers: readonly WorkerPeer[], state: ChoiceState): WorkerPeer | undefined {
  let best = peers[0];
  let ties = 1;
  for (const peer of peers.slice(1)) {
    const order = compare(peer, best!, state);
    if (order > 0) continue;
    ties = order === 0 ? ties + 1 : 1;
    if (order < 0 || state.parts.random() * ties < 1) best = peer;
  }
  return best;
}

function askable(id: WorkerId | undefined, state: ChoiceState): WorkerPeer | undefined {
  if (id === undefined || state.question.avoided.has(id)) return undefined;
  const peer = state.parts.peers.get(id);
  return peer?.askable === true && isSameLife(peer, state) ? peer : undefined;
}

/**
 * Whether a worker is the process that the table was made of. A process that has started since answers as
 * soon as it has read its rows, but only a table that has its checksums can tell whether they are right.
 */
function isSameLife({ id, announcement }: WorkerPeer, { question }: ChoiceState): boolean {
  return announcement?.incarnation === question.lives.get(id)?.incarnation;
}

/** Negative if `a` is to be preferred to `b`. */
function compare(a: WorkerPeer, b: WorkerPeer, state: ChoiceState): number {
  const trust = Number(isTrusted(b, state)) - Number(isTrusted(a, state));
  if (trust !== 0) return trust;
  // A search loads a worker by its number of partitions. For a few keys it is better to share a frame that is
  // already begun.
  const size = (peer: WorkerPeer): number => state.groups.get(peer)?.length ?? 0;
  const load = state.question.planned ? size(a) - size(b) : Math.sign(size(b)) - Math.sign(size(a));
  return load !== 0 ? load : a.pending - b.pending;
}

function isTrusted(peer: WorkerPeer, { trusted }: ChoiceState): boolean {
  let answer = trusted.get(peer);
  if (answer === undefined) trusted.set(peer, (answer = peer.trusted));
  return answer;
}
