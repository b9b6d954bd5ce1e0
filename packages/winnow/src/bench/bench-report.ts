// The report of a benchmark: for programs, for people, and beside another one.

import { WinnowError, excerpt } from "@winnow/core";
import {
  type BenchSettings,
  type ComparedMeasure,
  changedSettings,
  comparedLoads,
} from "./compared-runs.ts";
import type { RampStep } from "./knee.ts";
import type { Latencies } from "./latency-record.ts";
import type { LoadResult } from "./load-run.ts";

/** The steps of a ramp, and its knee. */
export interface RampReport {
  /** Requests per second of the closed loop, from which the loads of the steps are derived. */
  readonly closedLoop: number;
  readonly steps: readonly (RampStep & {
    readonly beyond: string | undefined;
    readonly generatorBusy: number;
  })[];
  readonly knee: RampStep | undefined;
}

/** Answers that were compared with the model files. */
export interface CheckReport {
  readonly checked: number;
  readonly exact: number;
  readonly different: number;
  /** Answers of another version than the one that the files have. */
  readonly otherVersion: number;
  readonly first: string | undefined;
}

/** The results of one server. */
export interface ServerReport {
  readonly url: string;
  readonly load: Omit<LoadResult, "kept">;
  readonly ramp: RampReport | undefined;
  readonly check: CheckReport | undefined;
}

/** The report. */
export interface BenchReport {
  readonly format: typeof FORMAT;
  readonly settings: BenchSettings;
  /** The machine of the load generator. */
  readonly machine: { readonly cpus: number; readonly node: string; readonly loadAverage: number };
  readonly isInterrupted: boolean;
  readonly servers: readonly ServerReport[];
}

/** First field of a report's file. */
export const FORMAT = "winnow bench, report 1";
/** From this utilisation on, the load generator may have been the limit. */
const BUSY_MAX = 0.85;
const BAR_LINES_MAX = 24;
const BAR_CHARACTERS = 48;

/** Reads a saved report. @throws WinnowError DATA_LOSS */
export function readReport(text: string, file: string): BenchReport {
  try {
    const report = JSON.parse(text) as BenchReport;
    const { format, servers } = report;
    const areWhole = (servers as readonly Partial<ServerReport>[]).every(
      ({ load }) => typeof load?.perSecond === "number" && typeof load.latencies.p99Ms === "number",
    );
    if (format === FORMAT && areWhole && servers.length > 0) return report;
  } catch {
    // The error follows.
  }
  throw new WinnowError("DATA_LOSS", `${excerpt(file)} is no report of winnow bench --json`);
}

/** Whether any request failed or any answer was wrong. */
export function hasFailures({ servers }: BenchReport): boolean {
  return servers.some(({ load, check }) => {
    return failedRequests(load) + load.unsent + (check?.different ?? 0) > 0;
  });
}

/** Requests without an answer, or with another than was asked for. */
export function failedRequests({
  requests,
  latencies,
}: Pick<LoadResult, "requests" | "latencies">): number {
  return requests - latencies.count;
}

/** The report as text for people. */
export function benchText(report: BenchReport, before: BenchReport | undefined): string {
  const { settings, machine, servers, isInterrupted } = report;
  const { connections, rate, arrivals, durationMs, warmupMs, batch, k, zipf } = settings;
  const mode =
    rate === undefined
      ? `closed loop, ${connections} connections`
      : `open loop, ${rate} requests/s (${arrivals}), at most ${connections} connections`;
  const models = settings.models.map(({ model, weight }) => `${model}=${weight}`).join(", ");
  const items = k === undefined ? "the model's k" : `k ${k}`;
  const head = [
    `${mode}; ${durationMs / 1000} s after ${warmupMs / 1000} s of warming up`,
    `${models}; ${batch} instance${batch === 1 ? "" : "s"} a request, ${items}, Zipf ${zipf}`,
    `generator: ${machine.cpus} processors, Node ${machine.node}, load average ${machine.loadAverage.toFixed(1)}`,
    ...(isInterrupted ? ["interrupted: what follows is what was measured so far"] : []),
  ];
  const blocks = servers.map(serverText);
  const others = [
    ...(before === undefined ? [] : [besideText(before, report)]),
    ...(servers.length < 2 ? [] : [sideText(servers[0]!, servers[1]!)]),
  ];
  return [`${head.join("\n")}\n`, ...blocks, ...others].join("\n");
}

function serverText({ url, load, ramp, check }: ServerReport): string {
  const failed = failedRequests(load);
  const answered = load.requests - failed;
  const lines = [
    url,
    `  ${whole(load.perSecond)} requests/s, ${whole(load.instancesPerSecond)} instances/s; ${whole(answered)} answered, ${whole(failed)} failed`,
    `  ${latencyText(load.latencies)}`,
  ];
  if (Object.keys(load.models).length > 1) {
    for (const [model, latencies] of Object.entries(load.models)) {
      lines.push(`  ${model}: ${whole(latencies.count)} answers, ${latencyText(latencies)}`);
    }
  }
  for (const [status, count] of Object.entries(load.statuses)) {
    if (status !== "200" && status !== "OK") lines.push(`  status ${status}: ${whole(count)}`);
  }
  for (const fault of load.faults) lines.push(`    ${fault}`);
  if (load.unsent > 0) {
    lines.push(`  ${whole(load.unsent)} requests were due and not sent: true latencies are higher`);
  }
  lines.push(...chartLines(load), ...secondsLines(load), ...busyLines(load.generatorBusy));
  if (ramp !== undefined) lines.push(...rampLines(ramp));
  if (check !== undefined) lines.push(...checkLines(check));
  return `${lines.join("\n")}\n`;
}

function latencyText({ p50Ms, p90Ms, p99Ms, p999Ms, maxMs }: Latencies): string {
  const parts = [`p50 ${ms(p50Ms)}`, `p90 ${ms(p90Ms)}`, `p99 ${ms(p99Ms)}`, `p99.9 ${ms(p999Ms)}`];
  return `${[...parts, `max ${ms(maxMs)}`].join("   ")} ms`;
}

/** The distribution of latencies, as a chart. */
function chartLines({ bars }: Pick<LoadResult, "bars">): readonly string[] {
  const width = Math.ceil(bars.length / BAR_LINES_MAX);
  const joined = Array.from({ length: Math.ceil(bars.length / Math.max(1, width)) }, (_, at) => {
    const group = bars.slice(at * width, (at + 1) * width);
    return {
      fromMs: group[0]!.fromMs,
      count: group.reduce((sum, { count }) => sum + count, 0),
    };
  });
  const most = joined.reduce((max, { count }) => Math.max(max, count), 1);
  return joined.map(({ fromMs, count }) => {
    const length = Math.ceil((BAR_CHARACTERS * count) / most);
    return `  ${ms(fromMs).padStart(8)} ms  ${"█".repeat(length)} ${whole(count)}`.trimEnd();
  });
}

const LEVELS = "▁▂▃▄▅▆▇█";

/** Answers per second, without the last second if it is not complete. */
function secondsLines({
  everySecond,
  seconds,
}: Pick<LoadResult, "everySecond" | "seconds">): string[] {
  const counts = everySecond.slice(0, Math.floor(seconds));
  if (counts.length < 3) return [];
  const most = counts.reduce((max, count) => Math.max(max, count), 1);
  const levels = counts.map((count) => LEVELS[Math.round((7 * count) / most)]).join("");
  const [low, high] = [Math.min(...counts), Math.max(...counts)];
  return [`  each second  ${levels}  ${whole(low)} to ${whole(high)} answers`];
}

function busyLines(busy: number): string[] {
  const fraction = `the generator was busy ${(100 * busy).toFixed(0)} % of its time`;
  if (busy <= BUSY_MAX) return [`  ${fraction}`];
  return [`  ${fraction}: it may have been the limit; run a second one beside it`];
}

function rampLines({ closedLoop, steps, knee }: RampReport): string[] {
  const rows = steps.map(({ offered, achieved, p99Ms, beyond, generatorBusy }) => {
    const cells = [whole(offered).padStart(9), whole(achieved).padStart(9), ms(p99Ms).padStart(9)];
    const busy = generatorBusy > BUSY_MAX ? "the generator was busy" : "";
    return `  ${cells.join("  ")}  ${beyond ?? busy}`.trimEnd();
  });
  const found =
    knee === undefined
      ? "no step was below the knee"
      : `the knee is at ${whole(knee.offered)} requests/s, with p99 ${ms(knee.p99Ms)} ms`;
  return [
    `  ramp from ${whole(closedLoop)} requests/s of the closed loop; ${found}`,
    `  ${["offered/s", "answered/s", "p99 ms"].map((title) => title.padStart(9)).join("  ")}`,
    ...rows,
  ];
}

function checkLines({ checked, exact, different, otherVersion, first }: CheckReport): string[] {
  const other =
    otherVersion === 0 ? "" : `, ${whole(otherVersion)} of another version than the files`;
  const text = `  checked by the files: ${whole(checked)} answers, ${whole(exact)} exact, ${whole(different)} different${other}`;
  return first === undefined ? [text] : [text, `    ${first}`];
}

function besideText(before: BenchReport, after: BenchReport): string {
  const [was, is] = [before.servers[0]!, after.servers[0]!];
  const names = changedSettings(before.settings, after.settings);
  const note = names.length === 0 ? "" : `  not alike: ${names.join(", ")}\n`;
  return `beside the report of ${was.url}\n${note}${comparisonLines(comparedLoads(was.load, is.load), ["before", "now"])}`;
}

function sideText(first: ServerReport, second: ServerReport): string {
  const lines = comparisonLines(comparedLoads(first.load, second.load), ["first", "second"]);
  return `${first.url} beside ${second.url}\n${lines}`;
}

function comparisonLines(
  measures: readonly ComparedMeasure[],
  titles: readonly [string, string],
): string {
  const rows = measures.map(({ measure, before, after, ratio }) =>
    [measure.padStart(12), short(before), short(after), `× ${ratio.toFixed(2)}`].join("  "),
  );
  const head = ["".padStart(12), titles[0].padStart(9), titles[1].padStart(9)].join("  ");
  return `${[head, ...rows].join("\n")}\n`;
}

function short(value: number): string {
  return (value >= 100 ? whole(value) : value.toFixed(2)).padStart(9);
}

function ms(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(2);
}

function whole(value: number): string {
  return Math.round(value).toLocaleString("en");
}
