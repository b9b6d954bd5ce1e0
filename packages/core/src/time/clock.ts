// Time as an argument. Control code never reads the machine's clock or sets its timers; it is given
// a Clock, so that a deterministic simulator can run it unchanged.

import type { Signal } from "./signal.ts";

/** A pending timer; only the clock that made it can clear it. */
export type Timer = { readonly brand: "winnow-timer" } | NodeJS.Timeout;

/** Monotonic time and timers. No decision in Winnow depends on wall-clock time. */
export interface Clock {
  /** Monotonic milliseconds since an arbitrary start; fractions allowed. */
  nowMs(): number;
  /** Runs `run` once, `delayMs` from now or later. The timer does not keep the process alive. */
  setTimer(delayMs: number, run: () => void): Timer;
  /** Cancels a timer; clearing a timer that has run or was cleared has no effect. */
  clearTimer(timer: Timer): void;
}

/** The clock of the machine this process runs on. */
export const systemClock: Clock = {
  nowMs: () => performance.now(),
  setTimer: (delayMs, run) => setTimeout(run, delayMs).unref(),
  clearTimer: (timer) => clearTimeout(timer as NodeJS.Timeout),
};

/** The same, but its timers keep the process alive: for pauses in work that somebody waits for. */
export const keepAliveClock: Clock = {
  ...systemClock,
  setTimer: (delayMs, run) => setTimeout(run, delayMs),
};

/** Resolves after `delayMs`, or rejects with the signal's reason as soon as it is aborted. */
export function sleep(clock: Clock, delayMs: number, signal?: Signal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const stop = (): void => {
      clock.clearTimer(timer);
      reject(signal?.reason);
    };
    const timer = clock.setTimer(delayMs, () => {
      signal?.removeEventListener("abort", stop);
      resolve();
    });
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Resolves when `work` has settled, either way, or after `delayMs`; leaves no timer behind. */
export function settledWithin(
  clock: Clock,
  delayMs: number,
  work: Promise<unknown>,
): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(delayMs, resolve);
    const end = (): void => {
      clock.clearTimer(timer);
      resolve();
    };
    work.then(end, end);
  });
}
