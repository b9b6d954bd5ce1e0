// A cluster of real processes to be measured: workers and one router of a checkout, on free ports of
// the loopback, and what each of them has cost so far.

import { spawn } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import process from "node:process";

const READY_WITHIN_MS = 60_000;
/** Clock ticks per second of /proc, on every Linux Node runs on. */
const TICKS_PER_SECOND = 100;
/** Node reads certificates that its machine adds at each start, 29 ms for 144 of them: no cost of Winnow's. */
const { NODE_EXTRA_CA_CERTS: _added, ...env } = process.env;

/**
 * Starts the processes of `checkout` and waits until every model answers. Members find each other in
 * Redis where its URL is given, else by a fixed list; what they log goes to the file descriptor `logTo`.
 */
export async function startProcesses(cluster) {
  const { checkout, models, names, workers, workerArgs = [], readyWithinMs } = cluster;
  const { redis, logLevel = "error", logTo = 2, routerArgs = [], routerFlags = [] } = cluster;
  const script = path.join(checkout, "packages/winnow/bin/winnow.js");
  const [routerPort, ...free] = await freePorts(2 * workers + 1);
  const [ports, metricsPorts] = [free.slice(0, workers), free.slice(workers)];
  const members = ports.map((port, index) => `w${index}@127.0.0.1:${port}`).join(",");
  const found = redis === undefined ? ["--members", members] : ["--redis", redis];
  const replication = String(Math.min(2, workers));
  const shared = [...found, "--replication", replication, "--log-level", logLevel];
  // As `winnow up` and the image start them.
  const start = (role, ...args) => {
    const flags = role === "router" ? ["--max-semi-space-size=32", ...routerFlags] : [];
    const stdio = ["ignore", "ignore", logTo];
    return spawn(process.execPath, [...flags, script, role, ...args, ...shared], { stdio, env });
  };
  const children = new Map();
  children.set("router", start("router", "--port", String(routerPort), ...routerArgs));
  for (const [index, port] of ports.entries()) {
    const own = ["--id", `w${index}`, "--port", String(port), "--models", models];
    const metrics = ["--metrics-port", String(metricsPorts[index])];
    children.set(`w${index}`, start("worker", ...own, ...metrics, ...workerArgs));
  }
  const kill = () => children.forEach((child) => child.kill("SIGKILL"));
  process.once("exit", kill);
  const stop = async () => {
    await stopAll([...children.values()]);
    process.off("exit", kill);
  };
  try {
    await Promise.all(names.map((name) => answers({ routerPort, name, readyWithinMs, children })));
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    host: "127.0.0.1",
    port: routerPort,
    pids: new Map(Array.from(children, ([name, { pid }]) => [name, pid])),
    /** Where each worker tells its metrics and whether it is ready, without the path. */
    workerPages: metricsPorts.map((port) => `http://127.0.0.1:${port}`),
    stop,
    costs: () => costsOf(children),
  };
}

/**
 * CPU seconds and context switches of each process so far, its children's included, by name; empty where
 * /proc is missing.
 */
function costsOf(children) {
  if (!existsSync("/proc/self/stat")) return new Map();
  const parents = parentsOfProcesses();
  const ofFamily = (pid) => {
    const own = [...parents].filter(([, parent]) => parent === pid).map(([child]) => child);
    return [pid, ...own].map(costOf).reduce((sum, { seconds, switches }) => ({
      seconds: sum.seconds + seconds,
      switches: sum.switches + switches,
    }));
  };
  return new Map(Array.from(children, ([name, { pid }]) => [name, ofFamily(pid)]));
}

/** The parent of every process that runs. */
function parentsOfProcesses() {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return new Map(
    pids.flatMap((pid) => {
      try {
        const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
        return [[Number(pid), Number(fields[1])]];
      } catch {
        return []; // It ended meanwhile.
      }
    }),
  );
}

function costOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  let switches = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const status = readFileSync(`/proc/${pid}/task/${thread}/status`, "utf8");
    for (const [, count] of status.matchAll(/ctxt_switches:\s+(\d+)/g)) switches += Number(count);
  }
  return { seconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND, switches };
}

/** Resolves once the model's status says AVAILABLE; rejects if one of the processes ends before. */
async function answers({ routerPort, name, readyWithinMs = READY_WITHIN_MS, children }) {
  const endMs = performance.now() + readyWithinMs;
  for (;;) {
    const text = await fetch(`http://127.0.0.1:${routerPort}/v1/models/${name}`).then(
      (response) => response.text(),
      () => "",
    );
    if (text.includes('"AVAILABLE"')) return;
    const ended = [...children].find(([, child]) => !isRunning(child));
    if (ended !== undefined) throw new Error(`${ended[0]} ended before ${name} was loaded`);
    if (performance.now() > endMs) throw new Error(`${name} did not load`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const isRunning = ({ exitCode, signalCode }) => (exitCode ?? signalCode) === null;

async function stopAll(children) {
  const running = children.filter((child) => isRunning(child));
  await Promise.all(
    running.map(
      (child) =>
        new Promise((resolve) => {
          child.once("exit", resolve);
          child.kill("SIGKILL");
        }),
    ),
  );
}

/** Ports that were free a moment ago, all different. */
export async function freePorts(count) {
  const servers = await Promise.all(
    Array.from(
      { length: count },
      () =>
        new Promise((resolve) => {
          const server = createServer();
          server.listen(0, "127.0.0.1", () => resolve(server));
        }),
    ),
  );
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
