// Rivals of the search benchmark live in processes of their own, so that their threads and heaps stay
// apart: Node scripts answer messages, Python scripts answer lines.

import { fork, spawn } from "node:child_process";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";

const scriptOf = (name) => path.join(import.meta.dirname, name);

/** A rival in Node; asks are objects with a `kind`. */
export function nodeRival({ name, script, scriptArguments = [], threads, batchMax = Infinity }) {
  const child = fork(scriptOf(script), scriptArguments);
  const ask = (message) =>
    new Promise((resolve, reject) => {
      const onExit = (code) => reject(new Error(`${name} ended with exit code ${code}`));
      child.once("exit", onExit);
      child.once("message", (answer) => {
        child.off("exit", onExit);
        resolve(answer);
      });
      child.send(message);
    });
  return {
    name,
    pid: child.pid,
    batchMax,
    load: ({ file, rows, dim }) => ask({ kind: "load", file, rows, dim, threads }),
    search: (query) => ask({ kind: "search", ...query }),
    close: async () => child.kill(),
  };
}

/** A rival in Python; asks are lines, the last words of `load` are the script's own. */
export function pythonRival({
  name,
  python,
  script,
  loadWords = [],
  threads,
  batchMax = Infinity,
}) {
  const child = spawn(python, [scriptOf(script)], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, OMP_NUM_THREADS: String(threads) },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (...words) => {
    child.stdin.write(`${words.join(" ")}\n`);
    const { value } = await lines.next();
    if (value === undefined) throw new Error(`${name} has ended`);
    return value.split(" ").map(Number);
  };
  return {
    name,
    pid: child.pid,
    batchMax,
    /** One line; the numbers of the line that answers it. */
    ask,
    load: ({ file, rows, dim }) => ask("load", file, rows, dim, threads, ...loadWords),
    async search({ from, queries, k }) {
      const [elapsedMs, ...rows] = await ask("search", from, queries, k);
      return { elapsedMs, rows };
    },
    close: async () => child.kill(),
  };
}
