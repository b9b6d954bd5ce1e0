// For how long workers are silent although they live: from a ping to the next sign of life. On a busy machine
// all processes answer late, so silence is no sign of a fault before it is longer than that of the others. Only
// silences that ended count: that nobody answers shows nothing (cf. the accrual failure detector of Hayashibara
// et al. 2004, which learns the same from each process alone; one that hangs now and then would teach it to wait).

import type { Clock } from "@winnow/core";
import { RecentSeconds } from "./recent-seconds.ts";

/** The longest silences of one worker, of each of the last ten seconds. */
export class Silences {
  readonly #longest: RecentSeconds<{ ms: number }>;

  constructor(clock: Clock) {
    this.#longest = new RecentSeconds(
      clock,
      () => ({ ms: 0 }),
      (longest) => (longest.ms = 0),
    );
  }

  /** Adds one that has ended now. */
  add(silentMs: number): void {
    const longest = this.#longest.now();
    longest.ms = Math.max(longest.ms, silentMs);
  }

  /** The longest of the last ten seconds, ms; `undefined` without any. */
  longestMs(): number | undefined {
    const recent = this.#longest.recent();
    return recent.length === 0 ? undefined : Math.max(...recent.map(({ ms }) => ms));
  }
}

/** What is known of silences when pings have been left without an answer. */
export interface SilenceQuestion {
  readonly pingIntervalMs: number;
  /** Pings without an answer after which a worker is silent where nobody is slow. */
  readonly misses: number;
  /** The longest recent silence of each other worker, ms. */
  readonly othersMs: readonly number[];
}

/** A worker is silent for a reason of its own if that takes this many times what is usual. */
const RARE_RATIO = 2;
/** However slow all are, this many times as many misses are a fault. */
const MISSES_RATIO_MAX = 3;

/**
 * The unanswered pings after which a worker is silent: as many as the settings say, or as many as fit into twice
 * what half of the others were silent for lately, up to three times as many.
 */
export function missesUntilSilent({ pingIntervalMs, misses, othersMs }: SilenceQuestion): number {
  const usualMs = othersMs.toSorted((a, b) => a - b)[(othersMs.length - 1) >> 1] ?? 0;
  const rareMisses = Math.ceil((RARE_RATIO * usualMs) / pingIntervalMs);
  return Math.max(misses, Math.min(rareMisses, MISSES_RATIO_MAX * misses));
}
