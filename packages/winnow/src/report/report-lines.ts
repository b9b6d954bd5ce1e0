// A report of the cluster as lines for a terminal, without side effects, so that tests can show each state.
// Names and messages come from models and workers, so they must not be able to control the terminal.

import type {
  ClusterReport,
  Finding,
  ModelReport,
  Severity,
  VersionReport,
  WorkerReport,
} from "@winnow/router";
import { targetText } from "@winnow/core";
import { terminalLine } from "../terminal-text.ts";

/** The style of a line, if there are colours. */
export type Tone = "title" | "good" | "warning" | "bad" | "dim" | "plain";

/** One line. */
export interface Line {
  readonly text: string;
  readonly tone: Tone;
}

const TONES: Readonly<Record<Severity, Tone>> = { ok: "good", degraded: "warning", down: "bad" };
const LABEL_WIDTH = 10;

/** Health and all findings, then workers, models and the router. */
export function statusLines(report: ClusterReport): Line[] {
  return harmless([
    ...healthLines(report),
    blank,
    ...workerLines(report.workers),
    blank,
    ...modelLines(report.models),
    ...leftOutLines(report),
    ...armLines(report.models),
    blank,
    ...routerLines(report),
  ]);
}

/** The same with the latest events, for a terminal that is redrawn. */
export function liveLines(report: ClusterReport): Line[] {
  const events = report.events.slice(0, 8).map(({ agoMs, text, severity }): Line => ({
    text: `${age(agoMs).padEnd(LABEL_WIDTH)}${text}`,
    tone: severity === "ok" ? "plain" : TONES[severity],
  }));
  return harmless([
    ...healthLines(report),
    blank,
    ...trafficLines(report),
    blank,
    ...workerLines(report.workers),
    blank,
    ...modelLines(report.models),
    ...leftOutLines(report),
    ...(events.length === 0 ? [] : [blank, title("EVENTS"), ...events]),
    ...slowLines(report),
  ]);
}

/** Removes control characters from lines, because routers, workers and models wrote parts of them. */
function harmless(lines: readonly Line[]): Line[] {
  return lines.map(({ text, tone }) => ({ text: terminalLine(text), tone }));
}

const blank: Line = { text: "", tone: "plain" };
const plain = (text: string): Line => ({ text, tone: "plain" });
const title = (text: string): Line => ({ text, tone: "title" });

function healthLines({ health }: ClusterReport): Line[] {
  const { severity, sentence, remedy, findings } = health;
  const [first, ...others] = findings;
  const told = severity === "ok" ? findings : others;
  const worst = severity === "ok" || first === undefined ? sentence : first.text;
  return [
    { text: `${severity.padEnd(LABEL_WIDTH)}${worst}`, tone: TONES[severity] },
    ...remedyLines(remedy),
    ...told.flatMap(findingLines),
  ];
}

function findingLines({ severity, text, remedy }: Finding): Line[] {
  const label = severity === "ok" ? "news" : "also";
  const tone = severity === "ok" ? "plain" : TONES[severity];
  return [{ text: `${label.padEnd(LABEL_WIDTH)}${text}`, tone }, ...remedyLines(remedy)];
}

function remedyLines(remedy: string): Line[] {
  return remedy === "" ? [] : [{ text: `${"".padEnd(LABEL_WIDTH)}→ ${remedy}`, tone: "dim" }];
}

const WORKER_TONES: Readonly<Record<WorkerReport["condition"], Tone>> = {
  ready: "plain",
  starting: "plain",
  suspect: "warning",
  draining: "dim",
  unreachable: "bad",
};

function workerLines(workers: readonly WorkerReport[]): Line[] {
  if (workers.length === 0) return [plain("no worker is known")];
  const head = "WORKER STATE HEARD REPLICAS MEMORY ASKED QUEUE P50 P95 ACCELERATOR ADDRESS".split(
    " ",
  );
  const rows = workers.map((worker) => [
    worker.id,
    worker.isStraggler ? `${worker.condition}, slow` : worker.condition,
    worker.heardAgoMs === undefined ? "never" : age(worker.heardAgoMs),
    String(worker.replicas),
    `${size(worker.memoryUsedBytes)} of ${size(worker.memoryCapacityBytes)}`,
    String(worker.questions),
    String(worker.queueRows),
    worker.latency === undefined ? "–" : milliseconds(worker.latency.p50Ms),
    worker.latency === undefined ? "–" : milliseconds(worker.latency.p95Ms),
    worker.accelerator,
    worker.address,
  ]);
  return columns([head, ...rows], (row) => {
    const { condition, isStraggler } = workers[row]!;
    return isStraggler ? "warning" : WORKER_TONES[condition];
  });
}

function modelLines(models: readonly ModelReport[]): Line[] {
  if (models.length === 0) return [plain("no model is known")];
  const head = "MODEL VERSION STATE DEFAULT PARTITIONS REPLICAS LABELS ROLLOUT".split(" ");
  const versions = models.flatMap((model) =>
    model.versions.filter(({ isOver }) => !isOver).map((version) => ({ model, version })),
  );
  const rows = versions.map(({ model, version }) => [
    model.name,
    String(version.version),
    version.state,
    version.isDefault ? "yes" : "",
    partitionsText(version),
    String(version.replicasIntended),
    labelsText(model, version.version),
    rolloutText(version),
  ]);
  const silent = models.filter((model) => model.versions.every(({ isOver }) => isOver));
  return [
    ...columns([head, ...rows], (row) => versionTone(versions[row]!)),
    ...silent.map(({ name }): Line => ({
      text: `${name}  has no version`,
      tone: "warning",
    })),
  ];
}

/** The arms of experiments, for those versions that are there. */
function armLines(models: readonly ModelReport[]): Line[] {
  const rows = models.flatMap(({ name, versions }) =>
    versions.flatMap(({ version, arms = [] }) =>
      arms.map((arm) => [
        name,
        String(version),
        arm.isShadow ? `(${arm.name})` : arm.name,
        targetText(arm),
        `${Math.round(1000 * arm.share) / 10} %`,
      ]),
    ),
  );
  if (rows.length === 0) return [];
  return [
    blank,
    ...columns(["EXPERIMENT VERSION ARM MODEL SHARE".split(" "), ...rows], () => "plain"),
  ];
}

function versionTone({ model, version }: { model: ModelReport; version: VersionReport }): Tone {
  if (version.rollout.failedOn.length > 0 || version.state === "END") return "bad";
  if (version.isDefault) {
    if (!model.answers) return "bad";
    return version.partitions.underreplicated > 0 ? "warning" : "plain";
  }
  return version.state === "UNLOADING" ? "dim" : "plain";
}

function partitionsText({ partitions, tables }: VersionReport): string {
  const { covered, underreplicated, lost } = partitions;
  if (tables.length === 0 && covered + underreplicated + lost === 0) return "–";
  const all = `${covered + underreplicated + lost}`;
  const lacking = [
    ...(underreplicated > 0 ? [`${underreplicated} lack replicas`] : []),
    ...(lost > 0 ? [`${lost} lost`] : []),
  ];
  return lacking.length === 0 ? `all ${all}` : `${all}: ${lacking.join(", ")}`;
}

function labelsText({ labels, waitingLabels }: ModelReport, version: number): string {
  const of = (all: Readonly<Record<string, number>>): string[] =>
    Object.entries(all).flatMap(([label, each]) => (each === version ? [label] : []));
  return [...of(labels), ...of(waitingLabels).map((label) => `(${label})`)].join(", ");
}

function rolloutText(version: VersionReport): string {
  const { rollout, state, isDefault } = version;
  const { failedOn, waitingFor, progress } = rollout;
  if (failedOn.length > 0 || state === "END") return failureText(version);
  if (state === "UNLOADING") return "";
  const isThere = isDefault || (state === "AVAILABLE" && waitingFor.length === 0);
  if (isThere && progress >= 1) return "";
  const waits = waitingFor.length === 0 ? "" : `, waiting for ${waitingFor.join(", ")}`;
  return `${Math.floor(progress * 100)} % loaded${waits}`;
}

function failureText({ rollout: { failedOn }, error }: VersionReport): string {
  const why = error === undefined ? "" : `: ${error.message}`;
  // The error begins with the worker that tells it.
  if (failedOn.length === 1 && error?.message.startsWith(`${failedOn[0]}: `) === true) {
    return `failed on ${error.message}`;
  }
  return failedOn.length > 0 ? `failed on ${failedOn.join(", ")}${why}` : `failed${why}`;
}

function leftOutLines({ leftOut }: ClusterReport): Line[] {
  const left = Object.entries(leftOut).filter(([, count]) => count > 0);
  if (left.length === 0) return [];
  const text = left.map(([name, count]) => `${count} more ${name}`).join(", ");
  return [{ text: `left out: ${text}`, tone: "dim" }];
}

function routerLines({ router }: ClusterReport): Line[] {
  const { version, uptimeMs, routingGeneration, isReady, membershipAgeMs } = router;
  const seen = membershipAgeMs === undefined ? "never" : `${age(membershipAgeMs)} ago`;
  const ready = isReady ? "ready" : "not ready";
  return [
    plain(
      `router    ${version}, ${ready}, up ${age(uptimeMs)}, generation ${routingGeneration}, membership read ${seen}`,
    ),
    plain(`traffic   ${trafficText(router)}`),
  ];
}

function trafficText({ traffic, requests }: ClusterReport["router"]): string {
  const { requestsPerSecond, latency, failures, refusals } = traffic;
  const times =
    latency === undefined
      ? ""
      : `, p50 ${milliseconds(latency.p50Ms)}, p99 ${milliseconds(latency.p99Ms)}`;
  const minute = [
    `${traffic.requests} requests`,
    ...countsText("failed", failures),
    ...countsText("refused", refusals),
  ].join(", ");
  return `${requestsPerSecond.toFixed(1)} requests/s${times}, ${requests} under way; last minute: ${minute}`;
}

function countsText(what: string, counts: Readonly<Record<string, number>>): string[] {
  const entries = Object.entries(counts);
  const sum = entries.reduce((all, [, count]) => all + count, 0);
  if (sum === 0) return [];
  const parts = entries.map(([name, count]) => `${name} ${count}`);
  return [`${sum} ${what} (${parts.join(", ")})`];
}

function trafficLines({ router }: ClusterReport): Line[] {
  return [
    plain(trafficText(router)),
    { text: `${sparkline(router.traffic.perSecond)}  requests/s, one minute`, tone: "dim" },
  ];
}

const BARS = "▁▂▃▄▅▆▇█";

/** Each value as a bar; the largest value has the highest bar, 0 is a space. */
function sparkline(values: readonly number[]): string {
  const max = Math.max(1, ...values);
  const bars = values.map((value) =>
    value === 0 ? " " : BARS[Math.min(BARS.length - 1, Math.floor((value / max) * BARS.length))]!,
  );
  return bars.join("");
}

function slowLines({ slowRequests }: ClusterReport): Line[] {
  if (slowRequests.length === 0) return [];
  const rows = slowRequests.slice(0, 5).map((slow) => [
    milliseconds(slow.elapsedMs),
    `${age(slow.agoMs)} ago`,
    slow.model,
    slow.code,
    Object.entries(slow.stages)
      .map(([stage, ms]) => `${stage} ${milliseconds(ms)}`)
      .join(", "),
    slow.requestId ?? "",
  ]);
  const head = "SLOWEST WHEN MODEL CODE STAGES REQUEST".split(" ");
  return [blank, ...columns([head, ...rows], () => "plain")];
}

/** Characters of a cell, at most, unless it is the last of its row: all cells of a column are as long as its longest. */
const CELL_CHARACTERS_MAX = 256;

/** Rows of cells as aligned lines; the first row is the head. */
function columns(rows: readonly (readonly string[])[], toneOf: (row: number) => Tone): Line[] {
  const last = rows[0]!.length - 1;
  const cut = rows.map((row) =>
    row.map((cell, column) => (column < last ? shortened(cell) : cell)),
  );
  const widths = rows[0]!.map((_, column) =>
    column < last ? cut.reduce((most, row) => Math.max(most, row[column]!.length), 0) : 0,
  );
  return cut.map((row, at) => ({
    text: row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join("  ")
      .trimEnd(),
    tone: at === 0 ? "title" : toneOf(at - 1),
  }));
}

function shortened(cell: string): string {
  return cell.length <= CELL_CHARACTERS_MAX ? cell : `${cell.slice(0, CELL_CHARACTERS_MAX - 1)}…`;
}

/** `0.4 s`, `12 s`, `5 min`, `3 h`, `2 d`. */
function age(ms: number): string {
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

function milliseconds(ms: number): string {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 100 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

function size(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let value = bytes;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}
