// Starts the server written by hand (hand-written-server.mjs) as a process to be measured.

import { fork } from "node:child_process";
import path from "node:path";

/** Resolves once it listens. @throws Error when it ends before */
export async function serveByHand({ file, rows, dim, k, threads }) {
  const script = path.join(import.meta.dirname, "hand-written-server.mjs");
  const child = fork(script, [file, rows, dim, k, threads].map(String));
  const port = await new Promise((resolve, reject) => {
    child.once("message", (/** @type {any} */ message) => resolve(message.port));
    child.once("exit", (code) => reject(new Error(`the server by hand ended with ${code}`)));
  });
  return {
    host: "127.0.0.1",
    port,
    pids: [child.pid],
    stop: async () => {
      child.removeAllListeners("exit");
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.kill();
      await ended;
    },
  };
}
