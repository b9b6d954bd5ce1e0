// What a failed command prints: one clear line. Stack traces only with WINNOW_DEBUG=1.

import { inspect } from "node:util";
import { WinnowError } from "@winnow/core";
import picocolors from "picocolors";
import { processVariables } from "./process-settings.ts";
import { terminalText } from "../terminal-text.ts";

const FOLDER_GONE =
  "The folder in which this command was started no longer exists, and paths are relative to it; go to another one, or give absolute paths";

/** The exit code of a process whose flags, variables, settings or request cannot be meant. */
export const USAGE_EXIT_CODE = 2;

/** Prints why a command failed, on stderr. */
export function reportFailure(error: unknown): void {
  const told = isFolderGone(error) ? new WinnowError("FAILED_PRECONDITION", FOLDER_GONE) : error;
  if (told instanceof WinnowError) {
    process.stderr.write(`${picocolors.red(told.code)}: ${terminalText(told.message)}\n`);
  } else {
    process.stderr.write(`${picocolors.red("unexpected")}: ${terminalText(String(error))}\n`);
  }
  if (processVariables["WINNOW_DEBUG"] === "1" && error instanceof Error) {
    process.stderr.write(`${inspect(error)}\n`);
  }
}

/** Whether Node was asked for the current folder after that was removed. */
function isFolderGone(error: unknown): boolean {
  return error instanceof Error && "syscall" in error && error.syscall === "uv_cwd";
}
