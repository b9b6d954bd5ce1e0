// Latencies in Node's HDR histogram (HdrHistogram in C): three digits from a microsecond to an hour, in
// constant memory.

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

/** Number of answers with a latency from `fromMs` up to the next bar. */
export interface LatencyBar {
  readonly fromMs: number;
  readonly count: number;
}

const US_MAX = 3_600_000_000;
/** Bars for each doubling of the latency. */
const BARS_PER_DOUBLING = 4;

/** Records latencies, and gives percentiles. */
export class LatencyRecord {
  readonly #histogram: RecordableHistogram = createHistogram({
    lowest: 1,
    highest: US_MAX,
    figures: 3,
  });
  readonly #bars = new Uint32Array(32 * BARS_PER_DOUBLING);

  /** Records one latency. */
  add(latencyMs: number): void {
    const us = Math.min(US_MAX, Math.max(1, Math.round(latencyMs * 1000)));
    this.#histogram.record(us);
    this.#bars[Math.floor(BARS_PER_DOUBLING * Math.log2(us))]! += 1;
  }

  /** The percentiles so far. */
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

  /** The bars from the first to the last that has answers. */
  bars(): readonly LatencyBar[] {
    const first = this.#bars.findIndex((count) => count > 0);
    const last = this.#bars.findLastIndex((count) => count > 0);
    if (first < 0) return [];
    return Array.from(this.#bars.subarray(first, last + 1), (count, at) => {
      return { fromMs: 2 ** ((first + at) / BARS_PER_DOUBLING) / 1000, count };
    });
  }
}
