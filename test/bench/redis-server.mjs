// A redis-server for a benchmark, on a free port of the loopback, with nothing persisted.

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { freePorts } from "./local-processes.mjs";

const TRIES_MAX = 200;
const TRY_MS = 25;

/** Whether this machine has one. */
export function hasRedisServer() {
  return spawnSync("redis-server", ["--version"], { stdio: "ignore" }).status === 0;
}

/** Starts one; resolves when it answers. */
export async function startRedis() {
  const [port] = await freePorts(1);
  const where = ["--port", String(port), "--bind", "127.0.0.1"];
  const child = spawn("redis-server", [...where, "--save", "", "--appendonly", "no"], {
    stdio: "ignore",
  });
  for (let tries = 0; !(await accepts(port)); tries += 1) {
    if (tries === TRIES_MAX) throw new Error(`redis-server does not answer on port ${port}`);
    await new Promise((resolve) => setTimeout(resolve, TRY_MS));
  }
  return {
    url: `redis://127.0.0.1:${port}`,
    pid: child.pid,
    async stop() {
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}

function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}
