// The command: reads arguments, runs one subcommand, and turns a failure into one clear line and an
// exit code (1 failed, 2 usage).

import { CommanderError } from "commander";
import { createCommandLine } from "./command-line/command-line.ts";
import { withoutIdleFlags } from "./command-options.ts";
import { reportFailure } from "./process/failure-report.ts";
import { winnowVersion } from "./version.ts";

const USAGE_EXIT_CODE = 2;

// The reader of the output may stop reading: `winnow inspect models | head`.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});

try {
  const args = withoutIdleFlags(process.argv, (flag) => {
    process.stderr.write(`${flag} is a flag of TensorFlow Serving that has no meaning here\n`);
  });
  await createCommandLine(winnowVersion).parseAsync(args);
} catch (error) {
  process.exitCode = report(error);
}

function report(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USAGE_EXIT_CODE;
  reportFailure(error);
  return 1;
}
