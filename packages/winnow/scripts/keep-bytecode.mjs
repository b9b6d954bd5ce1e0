// Fills the bundle's cache of bytecode (bundle-loader.cjs) while an image is built: in the image the files belong
// to root, and the user that runs them could not.
//
//   keep-bytecode.mjs FOLDER [flags of Node…]
//
//   FOLDER   the npm package, unpacked (npm-package.mjs)
//   flags    those of the image's entry point: V8 uses bytecode only under the flags under which it was made
//
// It starts what images start, `serve` and the roles of a cluster, with the demo's models, asks both, and ends
// all when they have written. Nothing depends on it: whatever fails is said in one line, and the build goes on.

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";

const LIMIT_MS = 60_000;
/** Another process may take a port that was free a moment ago. */
const TRIES = 3;
/**
 * After the first answers, until the roles start that wait for a Redis, and from then on. The loader writes 3 s after
 * a start, in steps, and what is left when a process ends, but not when a thread does: both together are longer.
 */
const ANSWERED_MS = 1500;
const STARTED_MS = 2000;
const ROUNDS = 20;

const BODIES = {
  movies: { instances: ["42"] },
  "movies-ranking": { instances: [{ user_id: "42", movie_title: "The Silent Harbor (1954)" }] },
};

const [folder = "", ...flags] = process.argv.slice(2);
const bin = path.resolve(folder, "packages/winnow/bin/winnow.js");
const models = mkdtempSync(path.join(tmpdir(), "winnow-demo-"));
const env = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(WINNOW|MODEL)_/.test(name)),
);
const running = new Set();
/** Called if a process ends by itself. */
let fail = () => undefined;

function start(...args) {
  const command = [...flags, bin, ...args, "--log-level", "error"];
  const child = spawn(process.execPath, command, { env, stdio: "ignore" });
  running.add(child);
  child.once("exit", (code, signal) => {
    running.delete(child);
    fail(new Error(`winnow ${args[0]} ended with ${signal ?? code}`));
  });
}

/** Ends what runs. On SIGTERM, as from a supervisor, processes write before they end. */
async function endAll(signal) {
  fail = () => undefined;
  const ended = Array.from(running, (child) => once(child, "exit"));
  for (const child of running) child.kill(signal);
  await Promise.all(ended);
}

async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => server.address().port);
  for (const server of servers) server.close();
  return ports;
}

async function ask(port, model) {
  const url = `http://127.0.0.1:${port}/v1/models/${model}:predict`;
  try {
    const response = await fetch(url, { method: "POST", body: JSON.stringify(BODIES[model]) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}

async function askUntilAnswered(port, failure) {
  for (const model of Object.keys(BODIES)) {
    while (!(await ask(port, model))) await pause(100, undefined, { signal: failure });
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const model of Object.keys(BODIES)) await ask(port, model);
  }
}

/** Starts all, and ends them when they have written; rejects at once if `failure` is aborted. */
async function keep(failure) {
  const [grpc, rest, ...ports] = await freePorts(10);
  const served = ["--host=127.0.0.1", "--models", models];
  start("serve", ...served, `--port=${grpc}`, `--rest_api_port=${rest}`);
  const members = `--members=w0@127.0.0.1:${ports[0]}`;
  const clusterRest = startRoles(ports.slice(0, 4), served, members);
  await Promise.all([rest, clusterRest].map((port) => askUntilAnswered(port, failure)));
  await pause(ANSWERED_MS, undefined, { signal: failure });
  // What roles load for a Redis, where none is. The others write before them, and what is written stays.
  startRoles(ports.slice(4), served, "--redis=redis://127.0.0.1:1");
  await pause(STARTED_MS, undefined, { signal: failure });
  await endAll("SIGTERM");
}

/** `keep`, several times if processes end by themselves. @throws Error the last failure */
async function keepAtLast() {
  for (let tries = 1; ; tries += 1) {
    const failure = new AbortController();
    fail = (error) => failure.abort(error);
    try {
      return await keep(failure.signal);
    } catch (error) {
      await endAll("SIGKILL");
      if (tries === TRIES) throw failure.signal.reason ?? error;
    }
  }
}

/** A worker and a router as manifests start them. @returns the router's REST port */
function startRoles([port, metrics, rest, grpc], served, membership) {
  const own = [`--port=${port}`, `--metrics-port=${metrics}`];
  start("worker", "--id=w0", ...served, ...own, membership);
  start("router", "--host=127.0.0.1", `--port=${rest}`, `--grpc-port=${grpc}`, membership);
  return rest;
}

function leave(line) {
  for (const child of running) child.kill("SIGKILL");
  rmSync(models, { recursive: true, force: true });
  console.log(line);
  process.exit(0);
}

const said = "No bytecode is kept, so processes start slower";
setTimeout(() => leave(`${said}: it took more than ${LIMIT_MS / 1000} s`), LIMIT_MS).unref();
try {
  execFileSync(process.execPath, [...flags, bin, "demo", models], { env, stdio: "ignore" });
  await keepAtLast();
  const cache = path.resolve(folder, "packages/winnow/dist/bundle/cache");
  const files = readdirSync(cache, { recursive: true }).filter((file) => file.endsWith(".js"));
  leave(`Bytecode of ${files.length} files is kept`);
} catch (error) {
  leave(`${said}: ${error instanceof Error ? error.message.split("\n")[0] : String(error)}`);
}
