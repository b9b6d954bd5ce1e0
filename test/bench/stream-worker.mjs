// A real worker process with a table of a given kind, and the package's own client of its stream.

import { fork } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { StringColumn, silentLogger, systemClock } from "../../packages/core/dist/index.js";
import { GrpcConnector, WorkerChannel } from "../../packages/cluster/dist/index.js";
import { writeRetrievalModel } from "../../packages/model-writer/dist/index.js";

const MAIN = path.resolve(import.meta.dirname, "../../packages/winnow/dist/main.js");
const MODEL = "items";
const READY_MS_MAX = 120_000;

/** Writes the table as a retrieval model whose items have names, unless it is there. */
export function writeModel(folder, { table, rows, dim, k }) {
  const basePath = path.join(folder, MODEL);
  if (existsSync(path.join(basePath, "1"))) return basePath;
  writeRetrievalModel(path.join(basePath, "1"), {
    users: {
      vocabulary: StringColumn.fromText(["1"]),
      embedding: { rows: 2, dim, pieces: () => [new Float32Array(2 * dim)] },
    },
    candidates: { rows, dim, pieces: () => [table] },
    identifiers: StringColumn.fromText(Array.from({ length: rows }, (_, row) => `item ${row}`)),
    k,
  });
  return basePath;
}

/** A port that was free a moment ago. */
async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  server.close();
  await once(server, "close");
  return port;
}

/** Starts a worker that is alone in its cluster; resolves when it holds the whole table. */
export async function startStreamWorker(basePath, { threads, nodeFlags = [] }) {
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  const flags = ["--members", `bench@${address}`, "--id", "bench", "--port", String(port)];
  const model = ["--model_name", MODEL, "--model_base_path", basePath, "--replication", "1"];
  const rest = ["--threads", String(threads), "--log-level", "warn"];
  // A child with a channel to its parent ends with it.
  const child = fork(MAIN, ["worker", ...flags, ...model, ...rest], { execArgv: nodeFlags });
  const environment = { clock: systemClock, random: Math.random, log: silentLogger };
  const connector = new GrpcConnector(systemClock);
  let channel;
  const holding = await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error("the worker is not ready")), READY_MS_MAX);
    child.once("exit", (code) => reject(new Error(`the worker ended with exit code ${code}`)));
    channel = new WorkerChannel(
      { environment, connector, routerId: "bench" },
      {
        onAnnouncement({ state, versions }) {
          const held = versions.find((version) => version.state === "ready");
          if (state !== "ready" || held === undefined) return;
          clearTimeout(timer);
          resolve(held);
        },
        onPong: () => undefined,
        onDrain: () => undefined,
        onDisconnect: () => undefined,
      },
      { address },
    );
  });
  const { version, fingerprint, tables } = holding;
  const candidates = tables.at(-1);
  return {
    pid: child.pid,
    channel,
    /** Goes into every question. */
    target: {
      version: { model: MODEL, version, fingerprint },
      table: candidates.table,
      partitions: Uint16Array.from({ length: candidates.partitions }, (_, partition) => partition),
    },
    async close() {
      channel.close();
      connector.close();
      const ended = once(child, "exit");
      child.send("winnow:stop");
      await ended;
    },
  };
}
