// The flags of `winnow bench`, and its exit codes: 0 measured, 1 requests failed or an answer was wrong, 2
// wrong usage or no server. Ctrl-C ends the measurement and prints the report so far.

import { Command, InvalidArgumentError } from "commander";
import { WinnowError, systemClock } from "@winnow/core";
import { modelsOption, option, wholeNumber } from "../command-options.ts";
import { readNamedFile } from "../process/named-file.ts";
import { addLongCommandOptions, runLongCommand } from "./long-command.ts";
import type { LongCommandOptions } from "./long-command.ts";

interface BenchOptions extends LongCommandOptions {
  readonly models?: string;
  readonly keys?: string;
  readonly model?: ReadonlyMap<string, number>;
  readonly connections: number;
  readonly rate?: number;
  readonly arrivals: "even" | "poisson";
  readonly duration: number;
  readonly warmup: number;
  readonly ramp?: true;
  readonly maxP99Ms?: number;
  readonly zipf: number;
  readonly batch: number;
  readonly k?: number;
  readonly check: number;
  readonly compare?: string;
  readonly compareUrl?: string;
}

const INT32_MAX = 2 ** 31 - 1;
const CONNECTIONS_MAX = 4096;
const SECONDS_MAX = 86_400;
const BATCH_MAX = 4096;
const CANNOT_MEASURE = 2;

/** `winnow bench`. */
export function benchCommand(): Command {
  return addLongCommandOptions(new Command("bench"), "a request")
    .summary("measure throughput and latency of a running cluster")
    .description(
      "measure throughput and latency of a running cluster (exit code 1: requests failed or answers were wrong, 2: wrong usage or no server)",
    )
    .argument(
      "<url>",
      "the router, such as http://127.0.0.1:8501, or its gRPC port, grpc://127.0.0.1:8500; TensorFlow Serving too",
    )
    .addOption(modelsOption("models whose vocabularies give the keys"))
    .option(
      "--keys <file>",
      "instances to ask for, one JSON value per line, the most popular first",
    )
    .option(
      "--model <list>",
      "models and their weights: movies=3,ads=1 (default: all of --models)",
      weights,
    )
    .option(
      "--connections <n>",
      "connections of the closed loop; most connections of the open loop",
      wholeNumber(1, CONNECTIONS_MAX),
      16,
    )
    .option(
      "--rate <n>",
      "open loop: requests a second, whether earlier ones were answered or not",
      number(0.01, 1e6),
    )
    .addOption(
      option("--arrivals <how>", "gaps of the open loop")
        .choices(["even", "poisson"])
        .default("poisson"),
    )
    .option("--duration <s>", "seconds to measure", number(0.1, SECONDS_MAX), 10)
    .option("--warmup <s>", "seconds of load before measuring", number(0, SECONDS_MAX), 2)
    .option(
      "--ramp",
      "then raise the rate of an open loop step by step, and find the highest rate that the cluster sustains",
    )
    .option(
      "--max-p99-ms <ms>",
      "the ramp's limit of p99 (default: 4 times that of the lowest step)",
      number(0.01, 1e6),
    )
    .option(
      "--zipf <s>",
      "how unequal the popularity of keys is: 0 all alike, 1 like words of a language",
      number(0, 5),
      1,
    )
    .option("--batch <n>", "instances of a request", wholeNumber(1, BATCH_MAX), 1)
    .option("-k <n>", "items wanted per instance (default: the model's)", wholeNumber(1, INT32_MAX))
    .option(
      "--check <share>",
      "share of the answers, at most 1000, to compare with the model files afterwards",
      number(0, 1),
      0,
    )
    .option("--compare <report>", "a report of --json to compare with")
    .option("--compare-url <url>", "another server to measure afterwards, for comparison")
    .action(async (url: string, options: BenchOptions) => {
      const { bench } = await import("../commands/bench.ts");
      const { benchText, hasFailures, readReport } = await import("../bench/bench-report.ts");
      const { compare } = options;
      const isJson = options.json === true;
      await runLongCommand({ isJson, failureCode: CANNOT_MEASURE }, async (signal) => {
        const before = compare === undefined ? undefined : readReport(textOf(compare), compare);
        const report = await bench(
          {
            ...options,
            url,
            weights: options.model ?? new Map(),
            durationMs: options.duration * 1000,
            warmupMs: options.warmup * 1000,
            isRamp: options.ramp === true,
            p99MsMax: options.maxP99Ms,
          },
          { clock: systemClock, output: process.stderr, signal },
        );
        const text = (measured: typeof report): string => benchText(measured, before);
        return { report, text, exitCode: hasFailures(report) ? 1 : 0 };
      });
    });
}

/** A report that --compare names has some thousands. */
const REPORT_BYTES_MAX = 64 * 1024 * 1024;

function textOf(file: string): string {
  try {
    return readNamedFile(file, REPORT_BYTES_MAX).toString("utf8");
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new WinnowError("NOT_FOUND", `Cannot read ${file}: ${reason}`, { cause });
  }
}

function weights(text: string): ReadonlyMap<string, number> {
  const entries = text
    .split(",")
    .map((entry) => /^([^=,]{1,256})(?:=(\d+(?:\.\d+)?))?$/.exec(entry.trim()));
  const parsed = entries.map((match) => [match?.[1] ?? "", Number(match?.[2] ?? 1)] as const);
  if (parsed.every(([name, weight]) => name !== "" && weight > 0 && weight <= 1e6))
    return new Map(parsed);
  throw new InvalidArgumentError("Write model=weight,…, each weight above 0, or only the model.");
}

function number(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (/^\d*\.?\d+(e-?\d+)?$/.test(text) && value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a number from ${min} to ${max}.`);
  };
}
