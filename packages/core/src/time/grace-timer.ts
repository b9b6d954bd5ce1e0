// A timer that judges a peer: it fires when the peer has had its time while this process was
// listening. A blocked event loop neither sends written bytes nor reads received ones, and
// afterwards Node runs timers before it reads sockets. So a plain timer mistakes this process's own
// lag for the peer's silence: a reply 20 ms after the question, within a block of 400 ms, counts as
// a timeout of 300 ms, and a block of 2 s disconnects healthy workers.
//
// The wait is cut into slices. If a slice ends late, this process has lost that much of its time,
// and the lost part is waited for again. If the last slice is late, the judgement waits for one
// more turn of the event loop, in which received replies are read. A process that is always late
// judges all the same.
//
// A slice of a long wait is a tenth of it, or what the options say, so that a timer of many seconds does not wake an idle
// process ten times a second. Of each block of the event loop at most one slice counts as time
// spent listening.
//
//   wait 300 ms:  |──100──|──100──|░░ blocked 2 s ░░░░░░░░░░|──100──|──▶ decide
//                                  └ does not count

import type { Clock, Timer } from "./clock.ts";

/** A pending judgement. */
export interface GraceTimer {
  /** Cancels the judgement; no effect when it has run. */
  clear(): void;
}

/** When to judge. */
export interface GraceTimerOptions {
  readonly delayMs: number;
  /** A slice that ends more than so many ms late counts as delayed by this process. Default 20. */
  readonly ownLagMs?: number;
  /** The wait is cut into at most so many slices: each wakes the process. Default 10. */
  readonly slicesMax?: number;
}

const OWN_LAG_MS = 20;
const SLICE_MS_MIN = 100;
const SLICES_MAX = 10;
/** Ms for a turn of the event loop, in which received bytes are read. */
const TURN_MS = 5;
/** Late slices in a row that are waited for again; after these a busy process judges as well. */
const LATE_SLICES_MAX = 10;

/** Runs `decide` once this process has listened for `delayMs`. */
export function setGraceTimer(
  clock: Clock,
  { delayMs, ownLagMs = OWN_LAG_MS, slicesMax = SLICES_MAX }: GraceTimerOptions,
  decide: () => void,
): GraceTimer {
  const longestMs = Math.max(SLICE_MS_MIN, delayMs / slicesMax);
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
      // A full slice follows a late one: a shorter slice could be late as a whole, again and again.
      if (stillMs > 0) waitFor(stillMs, isLate ? wholeMs : Math.min(stillMs, longestMs));
      else if (isLate) timer = clock.setTimer(TURN_MS, decide);
      else decide();
    });
  };
  waitFor(delayMs, wholeMs);
  return { clear: () => clock.clearTimer(timer) };
}
