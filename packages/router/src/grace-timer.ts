// A timer that judges a peer must not run before the replies that have already arrived are read.
// After a blocked event loop Node runs timers first; so a timer that notices it is late waits one
// turn more before it decides (a reply 20 ms after the question, inside a block of 400 ms, counted
// as a timeout of 300 ms without this).

import type { Clock, Timer } from "@winnow/core";

const GRACE_MS = 5;

/** A pending judgement. */
export interface GraceTimer {
  /** Forgets it; harmless when it has run. */
  clear(): void;
}

/** When to judge. */
export interface GraceTimerOptions {
  readonly delayMs: number;
  /** A timer later than this was held up by this process. */
  readonly ownLagMs: number;
}

/** Runs `decide` after the delay, a turn later if this process was held up meanwhile. */
export function setGraceTimer(
  clock: Clock,
  options: GraceTimerOptions,
  decide: () => void,
): GraceTimer {
  const dueMs = clock.nowMs() + options.delayMs;
  let timer: Timer = clock.setTimer(options.delayMs, () => {
    if (clock.nowMs() - dueMs <= options.ownLagMs) decide();
    else timer = clock.setTimer(GRACE_MS, decide);
  });
  return { clear: () => clock.clearTimer(timer) };
}
