// Which process lives as a worker. Anybody may write a record, a clock may be set back, and a process
// that was replaced may wake up again: therefore neither a record nor the greater number decides, but
// who answers on a stream, and who was met there before.
//
// Somebody is met on a live stream under the worker's id; of the incarnation that was current until now
// it is known whether it still answers:
//
//   the one met is                      current one answers        it does not
//   ─────────────────────────────────   ────────────────────────   ────────────────────────
//   the current incarnation             stays current              stays current
//   a higher one                        successor                  successor
//   a lower one, never met before       refused: "older"           successor, told to number
//                                                                  itself above the highest
//   one that was current and replaced   refused: "superseded"      refused: "superseded"
//
// So numbers order only processes that are both alive, and an incarnation that was replaced is never
// asked again (I3). A worker raises its number, which makes it a new incarnation, in three cases only:
//
//   it starts            above what the store holds for its id      (a clock that was set back)
//   a router tells it    above the highest that router has met,     (the store had forgotten, or this
//                        which does not answer                       process was replaced and is the
//   its successor died   above that successor                        last one left)
//
// Two processes that both live as one worker therefore never raise their numbers in turns, which is
// where SWIM's refutation (Das, Gupta and Motivala 2002) would lead: there a member that hears of a
// higher number raises its own, and each of the two would answer the other for ever.

import { incarnation } from "@winnow/core";
import type { Incarnation } from "@winnow/core";

/**
 * Largest number that is believed: numbers are milliseconds since 1970 (now 1.8 × 10¹²) or little more,
 * so this leaves room to count on from any clock, and to add one exactly.
 */
export const INCARNATION_MAX: number = 2 ** 52;

/**
 * Furthest that a number follows another in one step: 139 years of milliseconds. Whoever writes numbers
 * into a store can thus neither use them up nor come near to it.
 *
 * @internal tests read it
 */
export const INCARNATION_STEP_MAX: number = 2 ** 42;

/** Replaced incarnations of one worker that are remembered. */
const SUPERSEDED_MAX = 64;

/** The incarnations of one worker that somebody has met on live streams. */
export interface Succession {
  readonly current: Incarnation | undefined;
  /** Those that were current, the newest last. */
  readonly superseded: readonly Incarnation[];
  /** Highest number ever met; 0 before the first meeting. */
  readonly highest: Incarnation;
}

/** Before the first meeting. */
export const unmet: Succession = {
  current: undefined,
  superseded: [],
  highest: incarnation(0),
};

/** What a meeting means, by the table above. */
export type Meeting =
  | { readonly kind: "current" | "successor"; readonly succession: Succession }
  | { readonly kind: "refused"; readonly reason: "older" | "superseded" };

/** Somebody is met on a live stream. */
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

/** The current process says on its own stream that it has a new number from now on. */
export function renumbered(succession: Succession, to: Incarnation): Succession {
  return { ...succession, current: to, highest: to > succession.highest ? to : succession.highest };
}

/**
 * The number of a life that follows `last`; `own` where it follows already, or where `last` is beyond
 * what an honest process can have had: who lives decides then, not the number.
 */
export function incarnationAbove(last: number | undefined, own: Incarnation): Incarnation {
  if (last === undefined || last < own || last - own >= INCARNATION_STEP_MAX) return own;
  return last < INCARNATION_MAX ? incarnation(last + 1) : own;
}
