// The flags of `winnow batch`, and its exit codes: 0 every line has its prediction, 1 stopped, 2 wrong usage, 3 done, but
// some lines have an error instead, 130 interrupted.

import process from "node:process";
import { systemClock } from "@winnow/core";
import { Command } from "commander";
import { wholeNumber } from "../command-options.ts";
import { reportFailure } from "../process/failure-report.ts";
import { holdProcess, randomShare } from "../process/process-settings.ts";
import { terminalText } from "../terminal-text.ts";
import { type QuestionOptions, addQuestionOptions } from "./predict-command.ts";

interface BatchOptions extends QuestionOptions {
  readonly batchSize: number;
  readonly concurrency: number;
  readonly maxErrors: number;
  readonly maxLineBytes: number;
  readonly retryFor: number;
  readonly resume?: true;
  readonly overwrite?: true;
}

const INT32_MAX = 2 ** 31 - 1;
const EXIT_CODES = { stopped: 1, withErrors: 3, interrupted: 130 } as const;

/** `winnow batch`. */
export function batchCommand(): Command {
  const command = new Command("batch")
    .summary("predict for every line of a file, by a running router")
    .description(
      "predict for every line of a file, by a running router, all by one version (exit code 1: stopped, 3: done, but some lines have an error instead of a prediction, 130: interrupted)",
    )
    .argument("<model>", "model name")
    .argument("<input>", "instances as JSON Lines, one per line; - for the standard input")
    .argument(
      "<output>",
      "where to write JSON Lines, in the same order; - for the standard output",
    );
  return addQuestionOptions(command)
    .option("--batch-size <n>", "instances of a request", wholeNumber(1, 4096), 64)
    .option("--concurrency <n>", "requests under way at a time", wholeNumber(1, 256), 4)
    .option("--resume", "go on with the unfinished output of the same command, if there is one")
    .option("--overwrite", "begin again, and replace the output")
    .option(
      "--retry-for <s>",
      "seconds without any answer after which to stop",
      wholeNumber(0, 604_800),
      300,
    )
    .option(
      "--max-errors <n>",
      "stop after more lines without a prediction than this",
      wholeNumber(0, INT32_MAX),
      1000,
    )
    .option(
      "--max-line-bytes <n>",
      "lines of the input that are longer are errors",
      wholeNumber(1, 2 ** 28),
      2 ** 20,
    )
    .action(async (...given: readonly [string, string, string, BatchOptions]) => {
      const [model, input, output, options] = given;
      await runBatch({ model, input, output }, options);
    });
}

interface BatchArguments {
  readonly model: string;
  readonly input: string;
  readonly output: string;
}

async function runBatch(named: BatchArguments, options: BatchOptions): Promise<void> {
  const { batch } = await import("../commands/batch.ts");
  const { batchSummary, resumingCommand } = await import("../batch/batch-summary.ts");
  const release = holdProcess();
  const interrupted = new AbortController();
  const interrupt = (): void => interrupted.abort();
  process.once("SIGINT", interrupt);
  process.once("SIGTERM", interrupt);
  try {
    const report = await batch(
      {
        ...options,
        ...named,
        version: options.modelVersion,
        errorsMax: options.maxErrors,
        lineBytesMax: options.maxLineBytes,
        retryForMs: options.retryFor * 1000,
        isResumed: options.resume === true,
        isOverwriting: options.overwrite === true,
      },
      {
        clock: systemClock,
        random: randomShare,
        progress: process.stderr,
        signal: interrupted.signal,
        stdin: process.stdin,
        stdout: process.stdout,
      },
    );
    const { failure, part, errors } = report;
    const isInterrupted = interrupted.signal.aborted && failure !== undefined;
    if (failure !== undefined && !isInterrupted) reportFailure(failure);
    if (isInterrupted) process.stderr.write("Interrupted.\n");
    process.stderr.write(terminalText(batchSummary(report, named)));
    if (part !== undefined) {
      const again = resumingCommand(process.argv.slice(2));
      process.stderr.write(terminalText(`${part} keeps them. To go on: ${again}\n`));
    }
    if (isInterrupted) process.exitCode = EXIT_CODES.interrupted;
    else if (failure !== undefined) process.exitCode = EXIT_CODES.stopped;
    else if (errors > 0) process.exitCode = EXIT_CODES.withErrors;
    // A read of a pipe that nobody writes to would keep the process alive.
    if (failure !== undefined) process.exit();
  } catch (error) {
    if (!interrupted.signal.aborted) throw error;
    process.exit(EXIT_CODES.interrupted);
  } finally {
    release();
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", interrupt);
  }
}
