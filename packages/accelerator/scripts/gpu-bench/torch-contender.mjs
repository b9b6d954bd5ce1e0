// PyTorch as a rival in the same run, if WINNOW_BENCH_PYTHON names a Python that has it.

import { spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const SCRIPT = fileURLToPath(new URL("torch_contender.py", import.meta.url));

/** Starts PyTorch; `undefined` if no Python is named. Its `about` tells version and device. */
export async function startTorch(python = process.env.WINNOW_BENCH_PYTHON) {
  if (python === undefined || python === "") return undefined;
  const child = spawn(python, [SCRIPT], { stdio: ["pipe", "pipe", "inherit"] });
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
  return {
    about: await next(),
    ask: (question) => {
      child.stdin.write(`${JSON.stringify(question)}\n`);
      return next();
    },
    close: () => child.stdin.end(),
  };
}
