// Looks for GPUs in a process of its own, so that a driver's crash or hang becomes a finding.

import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { entryBeside } from "@winnow/core";
import type { GpuSurvey } from "./gpu-survey.ts";

/** Drivers may take seconds to start; software devices compile slowly. */
const SURVEY_MS_MAX = 60_000;
const SAID_CHARACTERS = 1024;

const ENTRY = entryBeside(import.meta.url, "survey-process");

/** The survey that the process at `entry` sends, or why it sent none. Never rejects. */
export function startGpuSurvey(entry: URL = ENTRY): Promise<GpuSurvey> {
  return new Promise((resolve) => {
    const child = fork(fileURLToPath(entry), [], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      execArgv: [],
      timeout: SURVEY_MS_MAX,
      killSignal: "SIGKILL",
    });
    let said = "";
    child.stderr?.setEncoding("utf8");
    child.stderr?.on("data", (text: string) => (said = (said + text).slice(-SAID_CHARACTERS)));
    child.once("message", (message) => resolve(message as GpuSurvey));
    const fail = (what: string): void => {
      const detail = said.trim() === "" ? "" : `: ${said.trim()}`;
      const fault = `The process that looked for a GPU ${what}; suspect the driver${detail}`;
      resolve({ gpus: [], opened: undefined, fault });
    };
    child.once("error", (error) => fail(`did not start (${error.message})`));
    child.once("close", (code, signal) => fail(`ended with ${signal ?? `exit code ${code}`}`));
  });
}
