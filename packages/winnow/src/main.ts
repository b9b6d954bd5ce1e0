// The command: reads arguments, runs one subcommand, and turns a failure into one clear line and an
// exit code: 2 where what was typed or set cannot be meant, so that the same again would end the same way, 1 for all else.

import { WinnowError } from "@winnow/core";
import { CommanderError } from "commander";
import type { Command } from "commander";
import { createCommandLine } from "./command-line/command-line.ts";
import { takeArguments } from "./command-line/model-server-flags.ts";
import { USAGE_EXIT_CODE, reportFailure, reportFailureOf } from "./process/failure-report.ts";
import { winnowVersion } from "./version.ts";

process.stdout.on("error", (cause: NodeJS.ErrnoException) => {
  // The reader may stop reading: `winnow inspect models | head`.
  if (cause.code === "EPIPE") return;
  // On a full disk the output would lack its end.
  const text = `Cannot write to the standard output: ${cause.message}`;
  reportFailure(new WinnowError("UNAVAILABLE", text, { cause }));
  process.exit(1);
});

// Without `await` at the top level, which the bundle's format does not have.
void run();

async function run(): Promise<void> {
  let command: Command | undefined;
  try {
    const { args, idle } = takeArguments(process.argv);
    const root = createCommandLine(winnowVersion, { idleFlags: idle, command: args[2] });
    command = root.commands.find((each) => each.name() === args[2]);
    await root.parseAsync(args);
  } catch (error) {
    const code = await report(error, command?.opts() ?? {});
    if (error instanceof CommanderError) process.exitCode = code;
    // What a process had opened when its start failed (Redis, files that it follows) would keep it alive, and neither
    // a supervisor nor a person would see that it does not serve.
    else process.exit(code);
  }
}

async function report(error: unknown, options: object): Promise<number> {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_EXIT_CODE;
  await reportFailureOf(error, options);
  const isUsage = error instanceof WinnowError && error.code === "INVALID_ARGUMENT";
  return isUsage ? USAGE_EXIT_CODE : 1;
}
