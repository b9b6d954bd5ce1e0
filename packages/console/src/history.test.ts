// What the charts draw of a report.

import type { ClusterReport, WorkerReport } from "@winnow/router";
import { expect, test } from "vitest";
import { withReport } from "./history.ts";

const reportOf = (workers: readonly Partial<WorkerReport>[]): ClusterReport =>
  ({
    workers: workers.map((each) => ({ queueRows: 0, memoryUsedBytes: 0, ...each })),
    router: { questions: 0, traffic: { perSecond: [2, 3] } },
  }) as unknown as ClusterReport;

test("the first report brings the minute before, each one after it a sample", () => {
  const first = withReport([], reportOf([]), 100);
  const second = withReport(first, reportOf([{ queueRows: 4, memoryUsedBytes: 9 }]), 101);

  expect(second.map(({ at, rate }) => [at, rate])).toEqual([
    [98, 2],
    [99, 3],
    [100, 3],
    [101, 3],
  ]);
  expect(second.at(-1)).toMatchObject({ queue: 4, memoryBytes: 9 });
});

test("what is scanned at once is the mean of all scans, whichever worker made them", () => {
  const workers = [
    { scans: { batches: 1, queries: 8 } },
    { scans: { batches: 3, queries: 4 } },
    {},
  ];
  const scannedOf = (each: readonly Partial<WorkerReport>[]): number | undefined =>
    withReport([], reportOf(each), 1).at(-1)!.scanned;

  expect([scannedOf(workers), scannedOf([{}])]).toEqual([3, undefined]);
});

test("a page that was hidden for hours begins anew, one that was hidden for a minute goes on", () => {
  const before = withReport([], reportOf([]), 100);
  const timesOf = (now: number): readonly number[] =>
    withReport(before, reportOf([]), now).map(({ at }) => at);

  expect(timesOf(160)).toEqual([98, 99, 100, 160]);
  expect(timesOf(30_000)).toEqual([29_998, 29_999, 30_000]);
});
