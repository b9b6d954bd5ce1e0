// What a failed command prints: one clear line. Stack traces only with WINNOW_DEBUG=1.

import { inspect } from "node:util";
import { WinnowError } from "@winnow/core";
import picocolors from "picocolors";
import { processVariables } from "./process-settings.ts";
import { terminalText } from "../terminal-text.ts";

/** Prints why a command failed, on stderr. */
export function reportFailure(error: unknown): void {
  if (error instanceof WinnowError) {
    process.stderr.write(`${picocolors.red(error.code)}: ${terminalText(error.message)}\n`);
  } else {
    process.stderr.write(`${picocolors.red("unexpected")}: ${terminalText(String(error))}\n`);
  }
  if (processVariables["WINNOW_DEBUG"] === "1" && error instanceof Error) {
    process.stderr.write(`${inspect(error)}\n`);
  }
}
