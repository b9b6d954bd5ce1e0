// What one cluster of so many workers costs: to start, while nobody asks, and per request. CPU seconds
// are utime + stime of all threads of a process (/proc/PID/stat) between two moments: they hold on a
// machine that others use too, which times of answers do not.

import { closeSync, openSync, readFileSync } from "node:fs";
import path from "node:path";
import { watchForeignLoad } from "./machine/foreign-load.mjs";
import { load, percentile, postBytes } from "./http-client.mjs";
import { startProcesses } from "./local-processes.mjs";
import { readPage } from "./metrics-page.mjs";
import { USERS } from "./scale-models.mjs";
import { hasRedisServer, startRedis } from "./redis-server.mjs";

const READY_WITHIN_MS = 300_000;
const POLL_MS = 100;
const TURNS_MAX = 6;
/** Clock ticks per second of /proc, on every Linux Node runs on. */
const TICKS_PER_SECOND = 100;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const isWorker = (name) => name !== "router";

/** Starts the cluster of a cell, measures what `only` names, and stops it. */
export async function measureCell(cell, settings) {
  const redis = cell.membership === "redis" ? await startRedis() : undefined;
  const logFile = path.join(cell.folder, "log");
  const logTo = openSync(logFile, "w");
  let cluster;
  try {
    const foreignSince = watchForeignLoad([]);
    const startMs = performance.now();
    cluster = await startProcesses({
      checkout: cell.checkout,
      models: cell.directory,
      names: cell.models,
      workers: cell.workers,
      workerArgs: settings.workerArgs,
      readyWithinMs: READY_WITHIN_MS,
      redis: redis?.url,
      logLevel: "warn",
      logTo,
    });
    await Promise.all(cluster.workerPages.map((page) => isReady(page)));
    const figures = { start: startFigures(cluster, startMs, foreignSince) };
    if (settings.only.includes("idle")) {
      figures.idle = await measureIdle(cluster, redis, settings);
    }
    if (settings.only.includes("load") && redis === undefined) {
      figures.loads = await measureLoads(cluster, settings);
    }
    figures.memory = await measureMemory(cluster);
    figures.trouble = await measureTrouble(cluster, logFile);
    return figures;
  } catch (error) {
    throw new Error(`${cell.name}: ${error.message}\n${readFileSync(logFile, "utf8")}`, {
      cause: error,
    });
  } finally {
    await cluster?.stop();
    await redis?.stop();
    closeSync(logTo);
  }
}

/** How members of a cluster can find each other on this machine. */
export const memberships = () => (hasRedisServer() ? ["list", "redis"] : ["list"]);

/** Waits until a worker holds its share. */
async function isReady(page) {
  for (let waitedMs = 0; waitedMs < READY_WITHIN_MS; waitedMs += POLL_MS) {
    if ((await fetch(`${page}/readyz`).catch(() => undefined))?.ok === true) return;
    await pause(POLL_MS);
  }
  throw new Error("a worker does not become ready");
}

function startFigures(cluster, startMs, foreignSince) {
  const costs = [...cluster.costs()];
  const workers = costs.filter(([name]) => isWorker(name)).map(([, { seconds }]) => seconds);
  const wallSeconds = (performance.now() - startMs) / 1000;
  const own = costs.reduce((sum, [, { seconds }]) => sum + seconds, 0);
  return {
    wallSeconds,
    routerSeconds: costs.find(([name]) => !isWorker(name))?.[1].seconds ?? 0,
    workerSeconds: meanOf(workers),
    others: Math.max(0, foreignSince() - own / wallSeconds),
  };
}

/** Percent of a core that the router, all workers together and Redis take while nobody asks. */
async function measureIdle(cluster, redis, { settle, idle }) {
  await pause(settle * 1000);
  const redisSeconds = () => (redis === undefined ? 0 : secondsOf(redis.pid));
  const before = { costs: cluster.costs(), redis: redisSeconds(), ms: performance.now() };
  await pause(idle * 1000);
  const { router, workers } = costBetween(before.costs, cluster.costs());
  const percent = 100 / ((performance.now() - before.ms) / 1000);
  return {
    router: router * percent,
    workers: workers * percent,
    redis: (redisSeconds() - before.redis) * percent,
  };
}

/**
 * Asks for so many seconds, and on for a few times as long until there are so many answers.
 * @param {any} asked the settings of `load`, and the number of answers
 */
async function loadAtLeast({ answersMin, ...asked }) {
  const all = { times: [], failures: 0 };
  const startMs = performance.now();
  for (let turn = 0; turn < TURNS_MAX; turn += 1) {
    const { times, failures } = await load(asked);
    all.times = all.times.concat(times);
    all.failures += failures;
    if (all.times.length >= answersMin) break;
  }
  return { ...all, perSecond: (all.times.length * 1000) / (performance.now() - startMs) };
}

async function measureLoads(cluster, { connections, seconds, warm, answers: answersMin }) {
  const requests = requestsOf(cluster);
  const { host, port, pids } = cluster;
  // What a request costs falls until the compilers of all processes are done, after so many of them.
  await loadAtLeast({ host, port, requests, connections: 32, seconds, answersMin: warm });
  const loads = [];
  for (const count of connections) {
    const scansBefore = await scansOf(cluster);
    const foreignSince = watchForeignLoad(pids.values());
    const before = cluster.costs();
    const asked = { host, port, requests, connections: count, seconds };
    const done = await loadAtLeast({ ...asked, answersMin });
    const { router, workers } = costBetween(before, cluster.costs());
    const others = foreignSince();
    const scans = await scansOf(cluster);
    const answers = Math.max(1, done.times.length);
    const sorted = done.times.toSorted((a, b) => a - b);
    const questions = scans.questions - scansBefore.questions;
    loads.push({
      connections: count,
      perSecond: done.perSecond,
      p50: percentile(sorted, 0.5),
      p99: percentile(sorted, 0.99),
      routerUs: (router / answers) * 1e6,
      workersUs: (workers / answers) * 1e6,
      touched: questions / (answers + done.failures),
      batch: questions / Math.max(1, scans.batches - scansBefore.batches),
      failures: done.failures,
      others,
    });
  }
  return loads;
}

/** Searches that workers have answered so far, and scans that they took. */
async function scansOf({ workerPages }) {
  const pages = await Promise.all(workerPages.map((page) => readPage(`${page}/metrics`)));
  const sum = (name, ...labels) => pages.reduce((all, of) => all + of(name, ...labels), 0);
  return {
    questions: sum("winnow_worker_queries_total", 'kind="topK"', 'outcome="OK"'),
    batches: sum("winnow_worker_batch_queries_count", 'kind="topK"'),
  };
}

/** MiB of rows and ids, and of whole processes. */
async function measureMemory({ workerPages, pids }) {
  const pages = await Promise.all(workerPages.map((page) => readPage(`${page}/metrics`)));
  const held = pages.map((of) => of("winnow_worker_memory_bytes", 'kind="used"') / 2 ** 20);
  const resident = Array.from(pids, ([name, pid]) => [name, residentOf(pid)]);
  const workers = resident.filter(([name]) => isWorker(name)).map(([, size]) => size);
  return {
    held: meanOf(held),
    heldMost: Math.max(...held),
    workerResident: meanOf(workers),
    routerResident: resident.find(([name]) => !isWorker(name))[1],
  };
}

/** What a cluster without a fault should do none of, from its start to now. */
async function measureTrouble({ host, port }, logFile) {
  const of = await readPage(`http://${host}:${port}/monitoring/prometheus/metrics`);
  const log = readFileSync(logFile, "utf8");
  return {
    hedges: of("winnow_second_attempts_total", 'kind="hedge"'),
    retries: of("winnow_second_attempts_total", 'kind="retry"'),
    // A worker is suspect for a second: no page of metrics would count what passes between two looks.
    suspicions: log.split("worker suspect").length - 1,
    ejections: log.split("worker ejected").length - 1,
  };
}

function requestsOf({ host, port }) {
  return Array.from({ length: 97 }, (_, number) => {
    const body = JSON.stringify({ instances: [`${((number * 31) % USERS) + 1}`] });
    return postBytes({ host, port, path: "/v1/models/movies:predict", body });
  });
}

/** CPU seconds of the router and of all workers between two looks. */
function costBetween(before, after) {
  const sum = { router: 0, workers: 0 };
  for (const [name, { seconds }] of after) {
    sum[isWorker(name) ? "workers" : "router"] += seconds - before.get(name).seconds;
  }
  return sum;
}

function secondsOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

function residentOf(pid) {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) / 1024;
}

const meanOf = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
