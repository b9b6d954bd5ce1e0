// How long a worker usually takes: the last 256 answers within 10 s. The hedge delay for a question
// follows the percentile of the *other* replicas, because a slow worker drags its own up and would
// never be hedged (CASSANDRA-14293).

import type { Clock } from "@winnow/core";

const SAMPLES_MAX = 256;
const WINDOW_MS = 10_000;
const REFRESH_MS = 250;

/** The recent answer times of one worker. */
export class LatencyWindow {
  readonly #clock: Clock;
  readonly #elapsedMs = new Float64Array(SAMPLES_MAX);
  readonly #atMs = new Float64Array(SAMPLES_MAX).fill(Number.NEGATIVE_INFINITY);
  #next = 0;
  #percentileMs: number | undefined;
  #sortedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes one answer. */
  add(elapsedMs: number): void {
    this.#elapsedMs[this.#next] = elapsedMs;
    this.#atMs[this.#next] = this.#clock.nowMs();
    this.#next = (this.#next + 1) % SAMPLES_MAX;
  }

  /** The 95th percentile in ms, at most 250 ms old; `undefined` without recent answers. */
  percentile95Ms(): number | undefined {
    const nowMs = this.#clock.nowMs();
    if (nowMs - this.#sortedAtMs >= REFRESH_MS) {
      const recent = this.#elapsedMs
        .filter((_, at) => nowMs - this.#atMs[at]! <= WINDOW_MS)
        .toSorted();
      this.#percentileMs = recent[Math.min(recent.length - 1, Math.floor(recent.length * 0.95))];
      this.#sortedAtMs = nowMs;
    }
    return this.#percentileMs;
  }
}
