// A command that asks a cluster for a while (bench, verify): Ctrl-C ends it early, and it reports what it has
// found so far.

import process from "node:process";
import { reportFailure } from "../process/failure-report.ts";
import { holdProcess } from "../process/process-settings.ts";
import { terminalText } from "../terminal-text.ts";

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
