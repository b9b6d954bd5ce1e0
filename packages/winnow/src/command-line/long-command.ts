// A command that asks a cluster for a while (bench, verify): Ctrl-C ends it early, and it reports what it has
// found so far.

import process from "node:process";
import type { Command } from "commander";
import { addClientOptions, wholeNumber } from "../command-options.ts";
import { reportFailure } from "../process/failure-report.ts";
import { holdProcess } from "../process/process-settings.ts";
import { terminalText } from "../terminal-text.ts";

const INT32_MAX = 2 ** 31 - 1;

/** The values of the flags that these commands share. */
export interface LongCommandOptions {
  readonly seed: number;
  readonly timeoutMs: number;
  readonly json?: true;
  readonly ca?: string;
  readonly keyFile?: string;
}

/** Adds the flags that these commands share. `timed` is what `--timeout-ms` bounds. */
export function addLongCommandOptions(command: Command, timed: string): Command {
  return addClientOptions(command)
    .option("--seed <n>", "same seed, same requests", wholeNumber(0, INT32_MAX), 1)
    .option("--timeout-ms <ms>", `longest time of ${timed}`, wholeNumber(1, INT32_MAX), 30_000)
    .option("--json", "machine-readable");
}

/** The result of a command: its document, the same as text for people, and the exit code. */
export interface LongResult<Report> {
  readonly report: Report;
  readonly text: (report: Report) => string;
  readonly exitCode: number;
}

/**
 * Runs a command, prints its report as JSON or as text, and sets the exit code: `failureCode` if it throws.
 * SIGINT and SIGTERM abort the signal.
 */
export async function runLongCommand<Report>(
  { isJson, failureCode }: { readonly isJson: boolean; readonly failureCode: number },
  run: (signal: AbortSignal) => Promise<LongResult<Report>>,
): Promise<void> {
  const release = holdProcess();
  const interrupted = new AbortController();
  const interrupt = (): void => interrupted.abort();
  process.once("SIGINT", interrupt);
  process.once("SIGTERM", interrupt);
  try {
    const { report, text, exitCode } = await run(interrupted.signal);
    const told = isJson ? `${JSON.stringify(report, undefined, 2)}\n` : terminalText(text(report));
    process.stdout.write(told);
    process.exitCode = exitCode;
  } catch (error) {
    reportFailure(error);
    process.exitCode = failureCode;
  } finally {
    release();
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", interrupt);
  }
}
