// Some partitions of a query and the workers asked for them. A slot is answered by its own worker or by all
// of its successors, never by a mixture, so every partition is answered once.
//
//   {0…5 → w0}   ──reply──▶ settled
//   {6…10 → w1}  ──slow───▶ {6,7 → w0} and {8…10 → w2}    hedge, timeout: w1 or both of these
//   {11…15 → w2} ──failed─▶ {11 → w0} and {12…15 → w1}    retry: both of these

import type { GraceTimer, TraceSpan, WorkerId } from "@winnow/core";
import type { WorkerAnswer } from "@winnow/cluster";
import type { WorkerPeer } from "../workers/worker-peer.ts";

/** One worker's answer for some partitions. */
export interface PartialAnswer {
  readonly partitions: readonly number[];
  readonly answer: WorkerAnswer;
}

/** Partitions that one worker was asked for. */
export interface Slot {
  readonly partitions: readonly number[];
  readonly peer: WorkerPeer;
  readonly parent: Slot | undefined;
  askedAtMs: number;
  /** Whether its own worker may still answer. */
  waiting: boolean;
  /** Whether nothing can change any more. */
  settled: boolean;
  /** The answers; they cover all partitions, or the slot has failed. */
  partials: readonly PartialAnswer[];
  successors: readonly Slot[];
  cancel: () => void;
  timer: GraceTimer | undefined;
  /** The span of its worker's work; `undefined` where nothing is recorded. */
  span: TraceSpan | undefined;
}

/** Makes a slot whose worker is about to be asked. */
export function openSlot(
  peer: WorkerPeer,
  partitions: readonly number[],
  parent: Slot | undefined,
): Slot {
  return {
    partitions,
    peer,
    parent,
    askedAtMs: 0,
    waiting: true,
    settled: false,
    partials: [],
    successors: [],
    cancel: () => undefined,
    timer: undefined,
    span: undefined,
  };
}

/** The worker of a slot and those of the slots above it. */
export function triedFor(slot: Slot | undefined): Set<WorkerId> {
  const tried = new Set<WorkerId>();
  for (let above = slot; above !== undefined; above = above.parent) tried.add(above.peer.id);
  return tried;
}

/** Whether all partitions are answered. */
export function isAnswered(slot: Slot): boolean {
  return slot.settled && partitionsOf(slot.partials) === slot.partitions.length;
}

/** The slot's own worker has answered. */
export function answerSlot(slot: Slot, answer: WorkerAnswer): void {
  stopWaiting(slot);
  for (const successor of slot.successors) dropSlot(successor);
  slot.partials = [{ partitions: slot.partitions, answer }];
  slot.settled = true;
}

/** The slot's own worker will not answer. */
export function stopWaiting(slot: Slot): void {
  slot.waiting = false;
  slot.timer?.clear();
  slot.timer = undefined;
}

/**
 * Settles a slot by its successors, if they decide it. `thrifty`: gives up as soon as one partition is lost;
 * otherwise waits for what the others can answer.
 */
export function settleBySuccessors(slot: Slot, thrifty: boolean): void {
  if (slot.settled) return;
  const { successors } = slot;
  const partials = successors.flatMap((successor) => (successor.settled ? successor.partials : []));
  if (partitionsOf(partials) === slot.partitions.length) {
    dropSlot(slot);
    slot.partials = partials;
    return;
  }
  if (slot.waiting) return;
  const isLost = thrifty && successors.some((one) => one.settled && !isAnswered(one));
  if (!isLost && successors.some((successor) => !successor.settled)) return;
  dropSlot(slot);
  slot.partials = partials;
}

/** Drops a slot and everything below it; workers that still compute are told to stop. */
export function dropSlot(slot: Slot): void {
  if (slot.settled) return;
  if (slot.waiting) slot.cancel();
  stopWaiting(slot);
  slot.settled = true;
  for (const successor of slot.successors) dropSlot(successor);
}

function partitionsOf(partials: readonly PartialAnswer[]): number {
  return partials.reduce((count, partial) => count + partial.partitions.length, 0);
}
