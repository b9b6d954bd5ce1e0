// A timer that judges a peer: it fires when the peer has had its time while this process was there to
// listen. A blocked event loop neither sends what it wrote nor reads what has arrived, and afterwards
// Node runs timers before it reads sockets; so a plain timer takes this process's own lag for the
// peer's silence (a reply that came 20 ms after the question, inside a block of 400 ms, counted as a
// timeout of 300 ms; a block of 2 s disconnected healthy workers).
//
// The wait is cut into slices. A slice that ends late was spent, as far as it was late, by this process;
// that part is waited for again. A judgement that is itself late waits one turn more, in which the
// replies that have arrived are read. A process that is late all the time judges all the same.
//
// A slice is a tenth of a long wait, so that a timer of many seconds does not wake an idle process ten
// times a second: of each block of the event loop at most so much counts as time spent listening.
//
//   wait 300 ms:  |──100──|──100──|░░ blocked 2 s ░░░░░░░░░░|──100──|──▶ decide
//                                  └ counts for nothing

import type { Clock, Timer } from "./clock.ts";

/** A pending judgement. */
export interface GraceTimer {
  /** Forgets it; harmless when it has run. */
  clear(): void;
}

/** When to judge. */
export interface GraceTimerOptions {
  readonly delayMs: number;
  /** A slice that ends later than this was held up by this process. Default 20 ms. */
  readonly ownLagMs?: number;
}

const OWN_LAG_MS = 20;
const SLICE_MS_MIN = 100;
const SLICES_MAX = 10;
/** For a turn of the event loop, in which what has arrived is read. */
const TURN_MS = 5;
/** Late slices in a row that are made up for; a process this busy would never judge otherwise. */
const LATE_SLICES_MAX = 10;

/** Runs `decide` once this process has listened for `delayMs`. */
export function setGraceTimer(
  clock: Clock,
  { delayMs, ownLagMs = OWN_LAG_MS }: GraceTimerOptions,
  decide: () => void,
): GraceTimer {
  const longestMs = Math.max(SLICE_MS_MIN, delayMs / SLICES_MAX);
  const wholeMs = Math.min(delayMs, longestMs);
  let timer: Timer;
  let lateInRow = 0;
  const waitFor = (leftMs: number, sliceMs: number): void => {
    const dueMs = clock.nowMs() + sliceMs;
    timer = clock.setTimer(sliceMs, () => {
      const lateMs = clock.nowMs() - dueMs;
      const isLate = lateMs > ownLagMs;
      lateInRow = isLate ? lateInRow + 1 : 0;
      const isMadeUp = isLate && lateInRow <= LATE_SLICES_MAX;
      const stillMs = leftMs - (isMadeUp ? Math.max(0, sliceMs - lateMs) : sliceMs);
      // After a late slice a whole one follows: shorter ones could be late in vain, again and again.
      if (stillMs > 0) waitFor(stillMs, isLate ? wholeMs : Math.min(stillMs, longestMs));
      else if (isLate) timer = clock.setTimer(TURN_MS, decide);
      else decide();
    });
  };
  waitFor(delayMs, wholeMs);
  return { clear: () => clock.clearTimer(timer) };
}
