// When a slow answer is worth asking another replica: after twice the time that the *other* replicas almost
// never exceed, because a slow worker drags its own percentile up and would never be helped ("The Tail at
// Scale", Dean and Barroso 2013; CASSANDRA-14293). A worker that is only as slow as the others is not hedged:
// on a busy machine a second question would make all of them slower. Nor is one that has just answered other
// questions, and is usually as quick. Of workers that share a machine one answers and the others rest: another one
// helps where the process hangs, not where the machine is busy.

import type { WorkerId } from "@winnow/core";
import type { RoutedTable } from "@winnow/cluster";
import type { RouterSettings } from "../../router-settings.ts";
import type { Slot } from "../slot.ts";
import type { LatencyWindow } from "../../workers/latency-window.ts";
import type { WorkerPeer } from "../../workers/worker-peer.ts";

/** An answer is slow for a reason of its own if it takes this many times the 99th percentile of the others. */
const RARE_RATIO = 2;
/** The longest delay grows with the load: it is at least this many times what one answer in twenty exceeds. */
const OFTEN_RATIO = 5;
/** Of fewer answers than this nobody knows what is rare. */
const KNOWN_FROM = 20;

/** What the hedge delay is computed from. */
export interface HedgeDelayParts {
  readonly settings: RouterSettings;
  readonly peers: ReadonlyMap<WorkerId, WorkerPeer>;
}

/** Ms until a slot is asked elsewhere too; `undefined` where no trusted replica could answer, or nothing is known. */
export function hedgeDelayMs(
  { settings, peers }: HedgeDelayParts,
  table: RoutedTable,
  slot: Slot,
): number | undefined {
  const own = slot.peer.latency;
  const delaysMs = othersOf(peers, table, slot).map((peer) =>
    // Workers that share a machine are as quick as each other.
    lateAfterMs(settings, own, sharesMachine(table, peer, slot.peer) ? undefined : peer.latency),
  );
  if (delaysMs.length === 0 || delaysMs.includes(undefined)) return undefined;
  return Math.max(settings.hedgeDelayMinMs, ...delaysMs.map((ms) => ms!));
}

/**
 * Ms after which an answer is late, beside what one other worker usually takes; `undefined` where neither has ever
 * answered: the first questions of new processes wait for compilers and caches, nobody knows yet how long they take.
 */
function lateAfterMs(
  { hedgeDelayMaxMs }: RouterSettings,
  own: LatencyWindow,
  theirs: LatencyWindow | undefined,
): number | undefined {
  if (own.isEmpty && (theirs?.isEmpty ?? true)) return undefined;
  const usual = theirs?.percentiles();
  const p95Ms = (usual ?? own.percentiles())?.p95Ms ?? 0;
  const longestMs = Math.max(hedgeDelayMaxMs, OFTEN_RATIO * p95Ms);
  const isKnown = usual !== undefined && usual.answers >= KNOWN_FROM && !own.isEmpty;
  return isKnown ? Math.min(longestMs, RARE_RATIO * usual.p99Ms) : longestMs;
}

/** A slot whose answer is late. */
interface LateSlot {
  readonly table: RoutedTable;
  /** How long it has waited, at least. */
  readonly delayMs: number;
  readonly nowMs: number;
}

function sharesMachine(
  { machines }: RoutedTable,
  a: Pick<WorkerPeer, "id">,
  b: Pick<WorkerPeer, "id">,
): boolean {
  const machine = machines.get(a.id);
  return machine !== undefined && machine === machines.get(b.id);
}

/**
 * Whether all workers that could answer instead are as late as the slot's own worker: each has a question
 * that has waited for `delayMs`, and has answered none since the slot was asked. Then the machine or the
 * network is slow, and a second question would wait as long as the first.
 */
export function areAllLate(
  slot: Slot,
  others: readonly Pick<WorkerPeer, "oldestAskedAtMs" | "answeredAtMs">[],
  { delayMs, nowMs }: Omit<LateSlot, "table">,
): boolean {
  return others.every(
    ({ oldestAskedAtMs, answeredAtMs }) =>
      oldestAskedAtMs !== undefined &&
      nowMs - oldestAskedAtMs >= delayMs &&
      answeredAtMs < slot.askedAtMs,
  );
}

/**
 * How long a slot should wait further, in ms, because its own worker is at work and as quick as the others: within its
 * median time it has answered another question for the table, asked when the slot was or later, and that median is at
 * most twice that of each of them on another machine. It was late because its machine had other work, and will answer
 * before a worker that would have to begin. `undefined`: it stands still, or is slow.
 */
export function waitForBusyMs(
  { askedAtMs, peer }: Slot,
  others: readonly Pick<WorkerPeer, "id" | "latency">[],
  { table, nowMs }: Omit<LateSlot, "delayMs">,
): number | undefined {
  const ownMs = peer.latency.percentiles()?.p50Ms;
  if (ownMs === undefined) return undefined;
  if (peer.tableAnsweredAtMs(table) < Math.max(askedAtMs, nowMs - ownMs)) return undefined;
  const isQuick = others.every((other) => {
    // Of one that has never answered nobody knows that it is quicker.
    if (sharesMachine(table, other, peer) || other.latency.isEmpty) return true;
    const usual = other.latency.percentiles();
    return usual !== undefined && ownMs <= RARE_RATIO * usual.p50Ms;
  });
  return isQuick ? ownMs : undefined;
}

/** The other trusted workers that could be asked for a slot. */
export function othersOf(
  peers: HedgeDelayParts["peers"],
  table: RoutedTable,
  slot: Slot,
): readonly WorkerPeer[] {
  const others: WorkerPeer[] = [];
  for (const id of table.replicas[slot.partitions[0]!] ?? []) {
    const peer = peers.get(id);
    if (peer !== undefined && peer !== slot.peer && peer.askable && peer.trusted) others.push(peer);
  }
  return others;
}
