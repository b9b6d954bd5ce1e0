// Decides which of several processes with one worker id is used. Anybody may write a record, a
// clock may be set back, and a replaced process may wake up again. Therefore neither a record nor
// the higher number decides, but which process answers on a stream, and which ones were met there
// before.
//
// A process is met when it answers on a live stream under the worker's id. The caller knows whether
// the current incarnation still answers:
//
//   the process met is                  current one answers        current one does not
//   ─────────────────────────────────   ────────────────────────   ────────────────────────
//   the current incarnation             stays current              stays current
//   a higher one                        successor                  successor
//   a lower one, never met before       refused: "older"           successor, told to number
//                                                                  itself above the highest
//   one that was current and replaced   refused: "superseded"      refused: "superseded"
//
// So numbers order only processes that are both alive, and a replaced incarnation is never asked
// again (I3). A worker raises its number, which makes it a new incarnation, in three cases only:
//
//   it starts            above what the store holds for its id      (a clock that was set back)
//   a router tells it    above the highest that router has met,     (the store had forgotten, or this
//                        which does not answer                       process was replaced and is the
//   its successor died   above that successor                        last one left)
//
// Two processes that both live as one worker therefore never raise their numbers in turns, which is
// where SWIM's refutation (Das, Gupta and Motivala 2002) would lead: there a member that hears of a
// higher number raises its own, and each of the two would answer the other forever.

import { incarnation } from "@winnow/core";
import type { Incarnation } from "@winnow/core";

/**
 * Largest incarnation that is accepted. Incarnations are about milliseconds since 1970 (1.8 × 10¹²
 * in 2026), so any clock's value leaves room to count on, and adding one stays exact.
 */
export const INCARNATION_MAX: number = 2 ** 52;

/**
 * A number follows another by less than this: 139 years of milliseconds. So nobody who writes to
 * the store can use up the numbers by storing a huge one.
 *
 * @internal tests read it
 */
export const INCARNATION_STEP_MAX: number = 2 ** 42;

/** How many replaced incarnations of one worker are remembered. */
const SUPERSEDED_MAX = 64;

/** The incarnations of one worker that this process has met on live streams. */
export interface Succession {
  readonly current: Incarnation | undefined;
  /** Incarnations that were current and have been replaced, the latest last; a bounded number. */
  readonly superseded: readonly Incarnation[];
  /** Highest number ever met; 0 before the first meeting. */
  readonly highest: Incarnation;
}

/** The succession before the first meeting. */
export const unmet: Succession = {
  current: undefined,
  superseded: [],
  highest: incarnation(0),
};

/** The outcome of a meeting, by the table above. */
export type Meeting =
  | { readonly kind: "current" | "successor"; readonly succession: Succession }
  | { readonly kind: "refused"; readonly reason: "older" | "superseded" };

/** Judges the incarnation that was met on a live stream. */
export function meet(
  succession: Succession,
  met: Incarnation,
  { isCurrentAnswering }: { readonly isCurrentAnswering: boolean },
): Meeting {
  const { current, superseded, highest } = succession;
  if (met === current) return { kind: "current", succession };
  if (superseded.includes(met)) return { kind: "refused", reason: "superseded" };
  if (current !== undefined && met < current && isCurrentAnswering) {
    return { kind: "refused", reason: "older" };
  }
  return {
    kind: "successor",
    succession: {
      current: met,
      superseded: current === undefined ? [] : [...superseded, current].slice(-SUPERSEDED_MAX),
      highest: met > highest ? met : highest,
    },
  };
}

/** The succession after the current process announced a new number on its own stream. */
export function renumbered(succession: Succession, to: Incarnation): Succession {
  return { ...succession, current: to, highest: to > succession.highest ? to : succession.highest };
}

/**
 * An incarnation above `last`: `own` if it is above already, else `last` + 1. Also `own` where
 * `last` is too high to come from an honest process; then the process that answers is used whatever
 * its number.
 */
export function incarnationAbove(last: number | undefined, own: Incarnation): Incarnation {
  if (last === undefined || last < own || last - own >= INCARNATION_STEP_MAX) return own;
  return last < INCARNATION_MAX ? incarnation(last + 1) : own;
}
