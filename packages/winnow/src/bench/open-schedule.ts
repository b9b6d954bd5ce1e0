// When requests of an open loop are to start: at a rate, whether earlier ones were answered or not, as
// clients who know nothing of each other send them. A request that found no free connection has waited from
// its intended start on, and its latency counts from there: measured from the moment of sending, a server that
// stands still for a second would cost one slow answer instead of a second's worth of them ("coordinated
// omission", Gil Tene, "How NOT to Measure Latency", 2015).

import type { Random } from "../questions/seeded-random.ts";

/** How gaps between starts are spread: all alike, or as independent clients' (exponential). */
export type Arrivals = "even" | "poisson";

/** Intended starts, ascending, in ms after the beginning. */
export interface OpenSchedule {
  /** The next start that was not taken. */
  readonly nextMs: number;
  /** Takes it. */
  take(): number;
}

/** Starts at a rate per second. */
export function openSchedule(perSecond: number, arrivals: Arrivals, random: Random): OpenSchedule {
  const gapMs = 1000 / perSecond;
  const gap = (): number => (arrivals === "even" ? gapMs : -Math.log(1 - random()) * gapMs);
  // An even schedule is multiplied, not added up: no rounding drifts.
  let number = 0;
  let atMs = arrivals === "even" ? 0 : gap();
  return {
    get nextMs() {
      return atMs;
    },
    take() {
      const takenMs = atMs;
      number += 1;
      atMs = arrivals === "even" ? number * gapMs : takenMs + gap();
      return takenMs;
    },
  };
}

/** Longest that a timer of an idle generator may come late. */
const TIMER_MS_MAX = 2;

/** From when on a request's latency counts. */
export function countedFromMs(request: {
  readonly intendedMs: number;
  readonly sentMs: number;
  /** Whether it had to wait for a connection. */
  readonly hasWaited: boolean;
}): number {
  const { intendedMs, sentMs, hasWaited } = request;
  // A free connection and a timer that fired a moment late: nobody waited for the server.
  return !hasWaited && sentMs - intendedMs <= TIMER_MS_MAX ? sentMs : intendedMs;
}
