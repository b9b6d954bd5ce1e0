// The command: reads arguments, runs one subcommand, and turns a failure into one clear line and an
// exit code (1 failed, 2 usage). Stack traces only with WINNOW_DEBUG=1.

import { inspect } from "node:util";
import { WinnowError } from "@winnow/core";
import { CommanderError } from "commander";
import picocolors from "picocolors";
import { createCommandLine } from "./command-line.ts";
import { withoutIdleFlags } from "./command-options.ts";
import { winnowVersion } from "./version.ts";

const USAGE_EXIT_CODE = 2;

const args = withoutIdleFlags(process.argv, (flag) => {
  process.stderr.write(`${flag} is a flag of TensorFlow Serving that has no meaning here\n`);
});

try {
  await createCommandLine(winnowVersion).parseAsync(args);
} catch (error) {
  process.exitCode = report(error);
}

function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_EXIT_CODE;
  if (error instanceof WinnowError) {
    process.stderr.write(`${picocolors.red(error.code)}: ${error.message}\n`);
  } else {
    process.stderr.write(`${picocolors.red("unexpected")}: ${String(error)}\n`);
  }
  if (process.env["WINNOW_DEBUG"] === "1" && error instanceof Error) {
    process.stderr.write(`${inspect(error)}\n`);
  }
  return 1;
}
