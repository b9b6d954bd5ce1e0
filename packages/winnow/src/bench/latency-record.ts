// Latencies in an HDR histogram (Node's own, which is HdrHistogram in C): three digits from a microsecond to an
// hour, in memory that does not grow.

import { type RecordableHistogram, createHistogram } from "node:perf_hooks";

/** Percentiles in ms. */
export interface Latencies {
  readonly count: number;
  readonly meanMs: number;
  readonly minMs: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly p999Ms: number;
  readonly maxMs: number;
}

/** Answers whose latency is at least `fromMs` and below the next bar's. */
export interface LatencyBar {
  readonly fromMs: number;
  readonly count: number;
}

const US_MAX = 3_600_000_000;
/** Four bars each time that the latency doubles. */
const BARS_PER_DOUBLING = 4;

/** Takes latencies, gives percentiles. */
export class LatencyRecord {
  readonly #histogram: RecordableHistogram = createHistogram({
    lowest: 1,
    highest: US_MAX,
    figures: 3,
  });
  readonly #bars = new Uint32Array(32 * BARS_PER_DOUBLING);

  /** Takes one. */
  add(latencyMs: number): void {
    const us = Math.min(US_MAX, Math.max(1, Math.round(latencyMs * 1000)));
    this.#histogram.record(us);
    this.#bars[Math.floor(BARS_PER_DOUBLING * Math.log2(us))]! += 1;
  }

  /** What was taken so far. */
  latencies(): Latencies {
    const { count, mean, min, max } = this.#histogram;
    if (count === 0) {
      const none = { p50Ms: 0, p90Ms: 0, p99Ms: 0, p999Ms: 0 };
      return { count, meanMs: 0, minMs: 0, ...none, maxMs: 0 };
    }
    const at = (percentile: number): number => this.#histogram.percentile(percentile) / 1000;
    return {
      count,
      meanMs: mean / 1000,
      minMs: min / 1000,
      p50Ms: at(50),
      p90Ms: at(90),
      p99Ms: at(99),
      p999Ms: at(99.9),
      maxMs: max / 1000,
    };
  }

  /** From the first bar with answers to the last. */
  bars(): readonly LatencyBar[] {
    const first = this.#bars.findIndex((count) => count > 0);
    const last = this.#bars.findLastIndex((count) => count > 0);
    if (first < 0) return [];
    return Array.from(this.#bars.subarray(first, last + 1), (count, at) => {
      return { fromMs: 2 ** ((first + at) / BARS_PER_DOUBLING) / 1000, count };
    });
  }
}
