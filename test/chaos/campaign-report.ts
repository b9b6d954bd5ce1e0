// The report of a campaign: JSON with everything, and the table of docs/reliability.md. Written after
// every scenario, so that a run that is broken off has shown what it showed.

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import type { AnswerClass } from "./answers/answer-check.ts";
import type { ScenarioResult } from "./scenario-run.ts";

/** What a campaign was run with. */
export interface CampaignSetting {
  readonly seed: number;
  readonly minutes: number;
  readonly perSecond: number;
  readonly resumes: boolean;
}

interface StoredReport {
  readonly started: string;
  readonly ended?: string;
  readonly machine: string;
  readonly seed: number;
  readonly minutes: number;
  readonly perSecond: number;
  readonly results: readonly ScenarioResult[];
}

/** A report that grows. */
export class CampaignReport {
  readonly file: string;
  readonly #setting: CampaignSetting;
  readonly #started: string;
  #ended: string | undefined;
  #results: ScenarioResult[];

  private constructor(file: string, setting: CampaignSetting, before: StoredReport | undefined) {
    this.file = file;
    this.#setting = setting;
    this.#started = before?.started ?? new Date().toISOString();
    this.#results = [...(before?.results ?? [])];
  }

  /** Opens the report of a folder: a new one, or, to go on, the one that lies there. */
  static open(folder: string, setting: CampaignSetting): CampaignReport {
    const file = path.join(folder, "report.json");
    const before =
      setting.resumes && existsSync(file)
        ? (JSON.parse(readFileSync(file, "utf8")) as StoredReport)
        : undefined;
    return new CampaignReport(file, setting, before);
  }

  get results(): readonly ScenarioResult[] {
    return this.#results;
  }

  hasPassed(name: string): boolean {
    return this.#results.some((result) => result.name === name && result.passed);
  }

  /** Takes a result in the place of an earlier one of that scenario, and writes both files. */
  add(result: ScenarioResult): void {
    this.#results = [...this.#results.filter(({ name }) => name !== result.name), result];
    this.#write();
  }

  finish(): void {
    this.#ended = new Date().toISOString();
    this.#write();
  }

  #write(): void {
    const { seed, minutes, perSecond } = this.#setting;
    const stored: StoredReport = {
      started: this.#started,
      ...(this.#ended !== undefined && { ended: this.#ended }),
      machine: machineText(),
      seed,
      minutes,
      perSecond,
      results: this.#results,
    };
    writeFileSync(this.file, `${JSON.stringify(stored, undefined, 1)}\n`);
    writeFileSync(this.file.replace(/json$/, "md"), `${markdownOf(stored)}\n`);
  }
}

function machineText(): string {
  const processors = os.cpus();
  const memory = (os.totalmem() / 2 ** 30).toFixed(0);
  return `${processors.length} × ${processors[0]?.model ?? "?"}, ${memory} GiB, Node ${process.version}`;
}

/** The table, its sums, and what must be said about the run itself. */
function markdownOf(report: StoredReport): string {
  const { results } = report;
  const all = results.flatMap(({ figures }) => figures.windows);
  const sum = (of: AnswerClass): number => all.reduce((total, { counts }) => total + counts[of], 0);
  const requests = all.reduce((total, window) => total + window.requests, 0);
  const passed = results.filter((result) => result.passed).length;
  const lateness = Math.max(0, ...results.map(({ figures }) => figures.lateness.p99Ms));
  const late = results.reduce((total, { figures }) => total + figures.lateness.late, 0);
  const resent = all.reduce((total, window) => total + window.resent, 0);
  const date = report.started.slice(0, 10);
  return [
    `${date}, ${report.machine}; seed ${report.seed}, ${report.perSecond} requests/s, ` +
      `${results.length} scenarios, ${passed} passed.`,
    "",
    `**${count(requests)} requests checked: ${count(sum("exact"))} exact, ${count(sum("partial"))} marked partial, ` +
      `${count(sum("gone"))} for pinned versions that were replaced (404), ${count(sum("refused"))} refused, ` +
      `${count(sum("failed"))} failed, ${count(sum("wrong"))} wrong.** ` +
      `${count(resent)} were sent again by the client after their router was killed. The generator sent ` +
      `${count(late)} of them more than 20 ms late (at most ${lateness.toFixed(0)} ms at the 99th percentile of a ` +
      `scenario); that time counts as latency.`,
    "",
    "| fault | requests | refused | failed | wrong | p99 before | during | after | recovery |",
    "| --- | --: | --: | --: | --: | --: | --: | --: | --: |",
    ...results.map(rowOf),
  ].join("\n");
}

function rowOf({ title, passed, figures }: ScenarioResult): string {
  const windows = new Map(figures.windows.map((window) => [window.name, window]));
  const sum = (of: AnswerClass): number =>
    figures.windows.reduce((total, { counts }) => total + counts[of], 0);
  const requests = figures.windows.reduce((total, window) => total + window.requests, 0);
  const p99 = ["before", "during", "after"].map((name) =>
    milliseconds(windows.get(name)?.p99Ms ?? 0),
  );
  const recovery = Math.max(0, ...figures.disturbances.map(({ recoveryMs }) => recoveryMs));
  const cells = [
    passed ? title : `${title} **(not held)**`,
    count(requests),
    count(sum("refused")),
    count(sum("failed")),
    count(sum("wrong")),
    ...p99,
    recovery === 0 ? "–" : `${(recovery / 1000).toFixed(1)} s`,
  ];
  return `| ${cells.join(" | ")} |`;
}

const count = (value: number): string => value.toLocaleString("en-US");
const milliseconds = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
