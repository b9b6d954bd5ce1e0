// The flags of `winnow predict`, and those that it shares with `winnow batch`: which router, which version, and everything
// that changes an answer.

import { systemClock } from "@winnow/core";
import { Command } from "commander";
import { REST_PORT, addClientOptions, option, wholeNumber } from "../command-options.ts";
import { curlLine, predict, predictionTable } from "../commands/predict.ts";
import { holdProcess } from "../process/process-settings.ts";
import { terminalLine, terminalText } from "../terminal-text.ts";

const INT32_MAX = 2 ** 31 - 1;

/** The values of the flags that these commands share. */
export interface QuestionOptions {
  readonly url: string;
  readonly ca?: string;
  readonly keyFile?: string;
  readonly modelVersion?: number;
  readonly signature?: string;
  readonly k?: number;
  readonly exclude?: string;
  readonly include?: string;
  readonly filter?: string;
  readonly return?: readonly string[];
  readonly returnVectors?: true;
  readonly explain?: true;
  readonly timeoutMs: number;
}

/** Adds the flags that these commands share. */
export function addQuestionOptions(command: Command): Command {
  return addClientOptions(command)
    .addOption(
      option("--url <url>", "the router", "WINNOW_URL").default(`http://127.0.0.1:${REST_PORT}`),
    )
    .option(
      "--model-version <n>",
      "ask this version instead of the default",
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
    )
    .option("--signature <name>", "ask this signature instead of serving_default")
    .option("-k <n>", "items wanted per instance", wholeNumber(1, INT32_MAX))
    .option("--exclude <json>", `item ids to exclude, such as '["7","9"]'`)
    .option("--include <json>", "the only item ids to return")
    .option("--filter <json>", `only items with these attributes, such as '{"year":{"$gte":1990}}'`)
    .option("--return <names...>", "attributes to return for each item")
    .option("--return-vectors", "return each item's vector too")
    .option("--explain", "show what each stage of a pipeline did")
    .option(
      "--timeout-ms <ms>",
      "how long to wait for an answer",
      wholeNumber(1, INT32_MAX),
      60_000,
    );
}

interface PredictOptions extends QuestionOptions {
  readonly json?: true;
  readonly verbose?: true;
}

/** `winnow predict`. */
export function predictCommand(): Command {
  const command = new Command("predict")
    .description("send a prediction request to a running router")
    .argument("<model>", "model name")
    .argument("<instances>", `JSON, such as '["42"]'`);
  return addQuestionOptions(command)
    .option("--json", "the router's answer unchanged")
    .option("-v, --verbose", "also print the version and the same request for curl, on stderr")
    .action(async (model: string, json: string, options: PredictOptions) => {
      const command = { ...options, version: options.modelVersion, model, json };
      const release = holdProcess();
      const answer = await predict(command, systemClock).finally(release);
      if (options.verbose === true) {
        const version = terminalLine(answer.version ?? "unknown");
        process.stderr.write(`version ${version}\n${curlLine(command)}\n`);
      }
      const { isTTY } = process.stdout;
      const isTable = isTTY && options.json !== true;
      const text = isTTY ? terminalText(answer.text) : answer.text;
      process.stdout.write(isTable ? predictionTable(answer.text) : `${text}\n`);
    });
}
