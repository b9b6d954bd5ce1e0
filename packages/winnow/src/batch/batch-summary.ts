// What a job says at its end: what was done, and where it has not ended, how to go on.

import { compactCount } from "../progress-line.ts";

/** How a job has ended. */
export interface BatchReport {
  /** Lines of this run, and of those before it. */
  readonly lines: number;
  readonly linesBefore: number;
  /** Of all these lines, those without a prediction. */
  readonly errors: number;
  readonly retries: number;
  /** Requests whose answers lack a stage of a pipeline. */
  readonly degraded: number;
  readonly version: number | undefined;
  readonly elapsedMs: number;
  /** What ended the job before its input ended; `undefined`: nothing, the output is whole. */
  readonly failure: unknown;
  /** The file that keeps the lines of a job that has not ended. */
  readonly part: string | undefined;
}

/** The summary of a job, as lines. */
export function batchSummary(
  report: BatchReport,
  { model, output }: { readonly model: string; readonly output: string },
): string {
  const { lines, linesBefore, errors, retries, degraded, version, elapsedMs } = report;
  const seconds = elapsedMs / 1000;
  const rate = seconds > 0 ? ` (${compactCount(lines / seconds)}/s)` : "";
  const of = version === undefined ? `"${model}"` : `version ${version} of "${model}"`;
  const before = linesBefore === 0 ? "" : `, ${linesBefore} before`;
  const counts = [
    `${lines} instances in ${seconds.toFixed(1)} s${rate}${before}, by ${of}`,
    `${errors} without a prediction`,
    `${retries} retries`,
    ...(degraded === 0 ? [] : [`${degraded} requests lack a stage (X-Winnow-Degraded)`]),
  ];
  const where = report.failure === undefined && output !== "-" ? `: ${output}` : "";
  return `${counts.join(", ")}${where}\n`;
}

/** The command that goes on with a job, for a shell. `args`: those of this one, without the program. */
export function resumingCommand(args: readonly string[]): string {
  const kept = args.filter((each) => each !== "--resume" && each !== "--overwrite");
  return ["winnow", ...kept.map(shellWord), "--resume"].join(" ");
}

function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
