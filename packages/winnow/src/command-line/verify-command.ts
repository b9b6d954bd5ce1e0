// The flags of `winnow verify`, and its exit codes: 0 all is equal, 1 differences, 2 wrong usage, no server or
// something unchecked, 3 answers are missing, 130 interrupted.

import { Command, InvalidArgumentError } from "commander";
import { systemClock } from "@winnow/core";
import { modelsOption, wholeNumber } from "../command-options.ts";
import { addLongCommandOptions, runLongCommand } from "./long-command.ts";
import type { LongCommandOptions } from "./long-command.ts";

interface VerifyOptions extends LongCommandOptions {
  readonly models?: string;
  readonly model?: readonly string[];
  readonly grpc?: string;
  readonly against?: string;
  readonly requests?: string;
  readonly queries: number;
  readonly state?: string;
  readonly connections: number;
  readonly tolerance: number;
  readonly againstTolerance: number;
}

const INT32_MAX = 2 ** 31 - 1;
const CANNOT_JUDGE = 2;

/** `winnow verify`. */
export function verifyCommand(): Command {
  return addLongCommandOptions(new Command("verify"), "one attempt")
    .summary("compare a running cluster's answers with its model files, or with another server's")
    .description(
      "compare a running cluster's answers with its model files, by brute force, or with another server's (exit code 1: different, 2: could not be checked, 3: answers are missing)",
    )
    .argument("<url>", "the router, such as http://127.0.0.1:8501")
    .addOption(modelsOption("models whose files give the right answers: <dir>/<name>/<version>/"))
    .option("--model <name>", "only this model; may be repeated", collect)
    .option(
      "--grpc <host:port>",
      "the router's gRPC port, to send each question there, too; with TLS if the URL is https",
    )
    .option("--against <url>", "another server, Winnow or TensorFlow Serving, to compare with")
    .option(
      "--requests <file>",
      "requests to compare servers with, one JSON body or instance per line, instead of --models",
    )
    .option("--queries <n>", "requests for each model", wholeNumber(1, INT32_MAX), 1000)
    .option("--state <file>", "keeps what was checked; another run with this file continues there")
    .option("--connections <n>", "requests in flight at a time", wholeNumber(1, 256), 8)
    .option(
      "--tolerance <x>",
      "how far scores may be from the files', relative to max(1, score); 0: to the bit",
      tolerance,
      0,
    )
    .option(
      "--against-tolerance <x>",
      "how far scores of the two servers may be apart",
      tolerance,
      1e-5,
    )
    .action(async (url: string, options: VerifyOptions) => {
      const { verify } = await import("../commands/verify.ts");
      const { EXIT_CODES, verificationText } = await import("../verify/verification-report.ts");
      const isJson = options.json === true;
      await runLongCommand({ isJson, failureCode: CANNOT_JUDGE }, async (signal) => {
        const report = await verify(
          { ...options, url, only: options.model ?? [] },
          { clock: systemClock, output: process.stderr, signal },
        );
        return { report, text: verificationText, exitCode: EXIT_CODES[report.verdict] };
      });
    });
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

function tolerance(text: string): number {
  const value = Number(text);
  if (/^[\d.]+(e-?\d+)?$/.test(text) && value >= 0 && value < 1) return value;
  throw new InvalidArgumentError("It must be a number from 0 to below 1, such as 1e-5.");
}
