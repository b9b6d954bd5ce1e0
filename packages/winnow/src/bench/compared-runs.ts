// Compares two runs: their settings and their results.

import type { LoadResult } from "./load-run.ts";

/** The settings of a run. Only runs with equal settings can be compared. */
export interface BenchSettings {
  readonly models: readonly { readonly model: string; readonly weight: number }[];
  readonly batch: number;
  readonly k: number | undefined;
  readonly zipf: number;
  readonly connections: number;
  readonly rate: number | undefined;
  readonly arrivals: string;
  readonly durationMs: number;
  readonly warmupMs: number;
  readonly seed: number;
}

/** One measure in both runs. */
export interface ComparedMeasure {
  readonly measure: string;
  readonly before: number;
  readonly after: number;
  /** after ÷ before. */
  readonly ratio: number;
}

/** Two runs, measure by measure. */
export function comparedLoads(
  before: Pick<LoadResult, "perSecond" | "latencies">,
  after: Pick<LoadResult, "perSecond" | "latencies">,
): readonly ComparedMeasure[] {
  const measures = [
    ["requests/s", before.perSecond, after.perSecond],
    ["p50 ms", before.latencies.p50Ms, after.latencies.p50Ms],
    ["p90 ms", before.latencies.p90Ms, after.latencies.p90Ms],
    ["p99 ms", before.latencies.p99Ms, after.latencies.p99Ms],
    ["p99.9 ms", before.latencies.p999Ms, after.latencies.p999Ms],
  ] as const;
  return measures.map(([measure, was, is]) => {
    return { measure, before: was, after: is, ratio: was === 0 ? NaN : is / was };
  });
}

/** Names of the settings in which two reports differ. */
export function changedSettings(before: BenchSettings, after: BenchSettings): readonly string[] {
  const names = Object.keys({ ...before, ...after }) as (keyof BenchSettings)[];
  return names.filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
}
