// The data of the charts: a sample for each report, for at most ten minutes. The router's report has the
// requests of the last minute, so that the first chart is not empty.

import type { ClusterReport } from "@winnow/router";

/** One moment; `undefined`: not known. */
export interface Sample {
  /** Seconds since 1970. */
  readonly at: number;
  readonly rate: number;
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
  /** Mean ms of a request by stage, of the last 10 s. */
  readonly stages: Readonly<Record<string, number>> | undefined;
  /** Mean instances of a request, of the last 10 s. */
  readonly instances: number | undefined;
  /** Mean query vectors of a scan, of all workers' last 10 s. */
  readonly scanned: number | undefined;
  /** Query vectors in the queues of the workers, and questions of this router. */
  readonly queue: number | undefined;
  /** Bytes of all workers' replicas. */
  readonly memoryBytes: number | undefined;
}

const SAMPLES_MAX = 600;
/** Older samples are dropped: a page that was hidden for hours had no reports meanwhile. */
const AGE_SECONDS_MAX = 600;

/** The samples and one more. */
export function withReport(
  samples: readonly Sample[],
  report: ClusterReport,
  nowSeconds: number,
): readonly Sample[] {
  const { traffic, questions } = report.router;
  const recent = samples.filter(({ at }) => at >= nowSeconds - AGE_SECONDS_MAX);
  const before = recent.length > 0 ? recent : pastOf(traffic.perSecond, nowSeconds);
  const sample: Sample = {
    at: nowSeconds,
    rate: traffic.perSecond.at(-1) ?? 0,
    p50Ms: traffic.latency?.p50Ms,
    p99Ms: traffic.latency?.p99Ms,
    stages: traffic.recent?.stages,
    instances: traffic.recent?.instances,
    scanned: scannedAtOnce(report),
    queue: report.workers.reduce((sum, { queueRows }) => sum + queueRows, questions),
    memoryBytes: report.workers.reduce((sum, { memoryUsedBytes }) => sum + memoryUsedBytes, 0),
  };
  return [...before, sample].slice(-SAMPLES_MAX);
}

function scannedAtOnce({ workers }: ClusterReport): number | undefined {
  const scans = workers.flatMap((worker) => worker.scans ?? []);
  const batches = scans.reduce((sum, each) => sum + each.batches, 0);
  if (batches === 0) return undefined;
  return scans.reduce((sum, { queries }) => sum + queries, 0) / batches;
}

function pastOf(perSecond: readonly number[], nowSeconds: number): Sample[] {
  return perSecond.map((rate, position) => ({
    at: nowSeconds - perSecond.length + position,
    rate,
    p50Ms: undefined,
    p99Ms: undefined,
    stages: undefined,
    instances: undefined,
    scanned: undefined,
    queue: undefined,
    memoryBytes: undefined,
  }));
}
