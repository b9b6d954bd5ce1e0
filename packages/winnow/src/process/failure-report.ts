// What a failed command prints: one clear line, in the form of its log if that is JSON. Stack traces only with
// WINNOW_DEBUG=1.

import { inspect } from "node:util";
import { WinnowError } from "@winnow/core";
import picocolors from "picocolors";
import type { LogFormat, LogLevel } from "./process-log.ts";
import { processVariables } from "./process-settings.ts";
import { terminalText } from "../terminal-text.ts";

const FOLDER_GONE =
  "The folder in which this command was started no longer exists, and paths are relative to it; go to another one, or give absolute paths";

/** The exit code of a process whose flags, variables, settings or request cannot be meant. */
export const USAGE_EXIT_CODE = 2;

/** Prints why a command with these options failed, on stderr: who reads a log as JSON gets no other line. */
export async function reportFailureOf(
  error: unknown,
  { logFormat, logLevel }: { readonly logFormat?: LogFormat; readonly logLevel?: LogLevel },
): Promise<void> {
  const isJson = logFormat === "json" && logLevel !== undefined && logLevel !== "silent";
  if (!isJson || isDebugged()) {
    reportFailure(error);
    return;
  }
  const { processLog } = await import("./process-log.ts");
  const log = processLog({ level: logLevel, process: "winnow", format: logFormat });
  log.error("the process ends", factsOf(error));
}

/** Prints why a command failed, on stderr. */
export function reportFailure(error: unknown): void {
  const { code, message } = factsOf(error);
  process.stderr.write(`${picocolors.red(code)}: ${terminalText(message)}\n`);
  if (isDebugged() && error instanceof Error) {
    process.stderr.write(`${inspect(error)}\n`);
  }
}

const isDebugged = (): boolean => processVariables["WINNOW_DEBUG"] === "1";

function factsOf(error: unknown): { readonly code: string; readonly message: string } {
  const told = isFolderGone(error) ? new WinnowError("FAILED_PRECONDITION", FOLDER_GONE) : error;
  return told instanceof WinnowError
    ? { code: told.code, message: told.message }
    : { code: "unexpected", message: String(error) };
}

/** Whether Node was asked for the current folder after that was removed. */
function isFolderGone(error: unknown): boolean {
  return error instanceof Error && "syscall" in error && error.syscall === "uv_cwd";
}
