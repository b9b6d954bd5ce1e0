// How long a worker usually takes: all its answers of the last 10 s, counted by how long they took. The hedge
// delay for a question follows the percentiles of the *other* replicas, because a slow worker drags its own up and
// would never be hedged (CASSANDRA-14293). A busy worker gives thousands of answers a second: the last few hundred
// alone are of a moment, mostly one in which nobody stood still, and what they "almost never exceed" happens often.

import type { Clock } from "@winnow/core";
import { RecentSeconds } from "./recent-seconds.ts";

const REFRESH_MS = 250;
/** Buckets of an octave: percentiles are at most 4.5 % too high. */
const BUCKETS_PER_OCTAVE = 16;
/** From 1/16 ms to 2 minutes; what is quicker or slower counts with the first or last. */
const LEAST_MS = 1 / 16;
const BUCKETS = 21 * BUCKETS_PER_OCTAVE;

/** Percentiles of answer times, ms. */
export interface LatencyPercentiles {
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  /** Of how many answers. */
  readonly answers: number;
}

/** The recent answer times of one worker: a histogram of each of the last ten seconds. */
export class LatencyWindow {
  readonly #clock: Clock;
  readonly #seconds: RecentSeconds<Uint32Array<ArrayBuffer>>;
  #percentiles: LatencyPercentiles | undefined;
  #countedAtMs = Number.NEGATIVE_INFINITY;
  /** Answers that are to be added before percentiles are taken anew, however young they are. */
  #stale = 0;
  #isEmpty = true;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#seconds = new RecentSeconds(
      clock,
      () => new Uint32Array(BUCKETS),
      (counts) => counts.fill(0),
    );
  }

  /** Whether no answer has ever been added. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Adds one answer. */
  add(elapsedMs: number): void {
    this.#seconds.now()[bucketOf(elapsedMs)]! += 1;
    this.#isEmpty = false;
    this.#stale -= 1;
  }

  /**
   * At most 250 ms old, and of at least half of the recent answers: those of the first few ms count at once.
   * `undefined` without recent answers.
   */
  percentiles(): LatencyPercentiles | undefined {
    const nowMs = this.#clock.nowMs();
    if (this.#stale < 0 || nowMs - this.#countedAtMs >= REFRESH_MS) {
      const counts = this.#recent();
      const answers = counts.reduce((sum, count) => sum + count, 0);
      const [p50Ms, p95Ms, p99Ms] = percentilesOf(counts, answers);
      this.#percentiles = answers === 0 ? undefined : { p50Ms, p95Ms, p99Ms, answers };
      this.#countedAtMs = nowMs;
      this.#stale = answers;
    }
    return this.#percentiles;
  }

  /** The answers of the last ten seconds, by bucket. */
  #recent(): Uint32Array {
    const sum = new Uint32Array(BUCKETS);
    for (const counts of this.#seconds.recent()) {
      for (let bucket = 0; bucket < BUCKETS; bucket += 1) sum[bucket]! += counts[bucket]!;
    }
    return sum;
  }
}

function bucketOf(elapsedMs: number): number {
  const bucket = Math.ceil(Math.log2(elapsedMs / LEAST_MS) * BUCKETS_PER_OCTAVE);
  return Math.max(0, Math.min(BUCKETS - 1, bucket));
}

/** The 50th, 95th and 99th percentile of a histogram of `answers` answers: the longest that its bucket holds, ms. */
function percentilesOf(counts: Uint32Array, answers: number): [number, number, number] {
  const percentile = (fraction: number): number => {
    let left = Math.floor((answers - 1) * fraction);
    const bucket = counts.findIndex((count) => (left -= count) < 0);
    return LEAST_MS * 2 ** (bucket / BUCKETS_PER_OCTAVE);
  };
  return [percentile(0.5), percentile(0.95), percentile(0.99)];
}
