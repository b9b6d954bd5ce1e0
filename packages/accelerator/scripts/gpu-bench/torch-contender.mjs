// PyTorch as a rival in the same run, if WINNOW_BENCH_PYTHON names a Python that has it.

import { spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Importing PyTorch and waking CUDA take seconds, on a cold disk far more. */
const START_SECONDS_MAX = 120;
const SCRIPT = fileURLToPath(new URL("torch_contender.py", import.meta.url));

/** Starts PyTorch; `undefined` if no Python is named. Its `about` tells version and device. */
export async function startTorch(python = process.env.WINNOW_BENCH_PYTHON, script = SCRIPT) {
  if (python === undefined || python === "") return undefined;
  const child = spawn(python, [script], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => {
    child.once("error", (error) => resolve({ error: error.message }));
    child.once("close", (code, signal) => resolve({ error: `PyTorch ended (${signal ?? code})` }));
  });
  child.stdin.on("error", () => undefined);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await Promise.race([
      lines.next(),
      ended.then((end) => ({ value: JSON.stringify(end), done: false })),
    ]);
    return done ? ended : JSON.parse(value);
  };
  let fault;
  /** What it says next; it is ended if that takes longer. */
  const nextWithin = async (seconds) => {
    const timer = setTimeout(() => {
      fault = { error: `PyTorch was ended: it said nothing for ${Math.round(seconds)} s` };
      child.kill("SIGKILL");
    }, seconds * 1000);
    const told = await next();
    clearTimeout(timer);
    return fault ?? told;
  };
  return {
    about: await nextWithin(START_SECONDS_MAX),
    ask: async (question, secondsMax = 60) => {
      if (fault !== undefined) return fault;
      child.stdin.write(`${JSON.stringify(question)}\n`);
      return nextWithin(secondsMax);
    },
    close: () => child.stdin.end(),
  };
}
