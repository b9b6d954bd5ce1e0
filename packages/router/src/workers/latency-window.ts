// How long a worker usually takes: the last 256 answers within 10 s. The hedge delay for a question
// follows the percentiles of the *other* replicas, because a slow worker drags its own up and would
// never be hedged (CASSANDRA-14293).

import type { Clock } from "@winnow/core";

const SAMPLES_MAX = 256;
const WINDOW_MS = 10_000;
const REFRESH_MS = 250;

/** Percentiles of answer times, ms. */
export interface LatencyPercentiles {
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  /** Of how many answers. */
  readonly answers: number;
}

/** The recent answer times of one worker. */
export class LatencyWindow {
  readonly #clock: Clock;
  readonly #elapsedMs = new Float64Array(SAMPLES_MAX);
  readonly #atMs = new Float64Array(SAMPLES_MAX).fill(Number.NEGATIVE_INFINITY);
  #next = 0;
  #percentiles: LatencyPercentiles | undefined;
  #sortedAtMs = Number.NEGATIVE_INFINITY;
  /** Answers that are to be added before percentiles are taken anew, however young they are. */
  #stale = 0;
  #isEmpty = true;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether no answer has ever been added. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Adds one answer. */
  add(elapsedMs: number): void {
    this.#isEmpty = false;
    this.#stale -= 1;
    this.#elapsedMs[this.#next] = elapsedMs;
    this.#atMs[this.#next] = this.#clock.nowMs();
    this.#next = (this.#next + 1) % SAMPLES_MAX;
  }

  /**
   * At most 250 ms old, and of at least half of the recent answers while they are few: those of the first few ms
   * count at once.
   * `undefined` without recent answers.
   */
  percentiles(): LatencyPercentiles | undefined {
    const nowMs = this.#clock.nowMs();
    if (this.#stale < 0 || nowMs - this.#sortedAtMs >= REFRESH_MS) {
      const recent = this.#elapsedMs
        .filter((_, at) => nowMs - this.#atMs[at]! <= WINDOW_MS)
        .toSorted();
      const at = (fraction: number): number => recent[Math.floor((recent.length - 1) * fraction)]!;
      this.#percentiles =
        recent.length === 0
          ? undefined
          : { p50Ms: at(0.5), p95Ms: at(0.95), p99Ms: at(0.99), answers: recent.length };
      this.#sortedAtMs = nowMs;
      this.#stale = recent.length < SAMPLES_MAX ? recent.length : Number.POSITIVE_INFINITY;
    }
    return this.#percentiles;
  }
}
