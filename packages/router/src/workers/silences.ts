// For how long workers are silent although they live: from a ping to the next sign of life. On a busy machine
// all processes answer late, so silence is no sign of a fault before it is longer than that of the others. Only
// silences that ended count: that nobody answers shows nothing (cf. the accrual failure detector of Hayashibara
// et al. 2004, which learns the same from each process alone; one that hangs now and then would teach it patience).

import type { Clock } from "@winnow/core";

const SLICES = 10;
const SLICE_MS = 1000;

/** The longest silences of one worker, of each of the last ten seconds. */
export class Silences {
  readonly #clock: Clock;
  readonly #longestMs = new Float64Array(SLICES);
  /** Of which second each slice is. */
  readonly #seconds = new Float64Array(SLICES).fill(Number.NEGATIVE_INFINITY);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Adds one that has ended now. */
  add(silentMs: number): void {
    const second = Math.floor(this.#clock.nowMs() / SLICE_MS);
    const at = second % SLICES;
    const before = this.#seconds[at] === second ? this.#longestMs[at]! : 0;
    this.#seconds[at] = second;
    this.#longestMs[at] = Math.max(before, silentMs);
  }

  /** The longest of the last ten seconds, ms; `undefined` without any. */
  longestMs(): number | undefined {
    const first = Math.floor(this.#clock.nowMs() / SLICE_MS) - SLICES;
    const recent = this.#longestMs.filter((_, at) => this.#seconds[at]! > first);
    return recent.length === 0 ? undefined : Math.max(...recent);
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
const PATIENCE_MAX = 3;

/**
 * The unanswered pings after which a worker is silent: as many as the settings say, or as many as fit into twice
 * what half of the others were silent for lately, up to three times as many.
 */
export function missesUntilSilent({ pingIntervalMs, misses, othersMs }: SilenceQuestion): number {
  const usualMs = othersMs.toSorted((a, b) => a - b)[(othersMs.length - 1) >> 1] ?? 0;
  const patient = Math.ceil((RARE_RATIO * usualMs) / pingIntervalMs);
  return Math.max(misses, Math.min(patient, PATIENCE_MAX * misses));
}
