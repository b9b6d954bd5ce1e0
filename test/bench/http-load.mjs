// How many requests does a local cluster answer, how soon, and what does each cost? Starts a router
// and workers of this checkout on the demo models, asks over HTTP from 1 … 64 connections, prints a
// table. The load generator runs on the same cores.
//
//   npm run bench:http                                              the whole table, about a minute
//   npm run bench:http -- --connections 1 --asks retrieval          one line of it
//   npm run bench:http -- --against ../other --rounds 3             two checkouts in turn: a change

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { load, percentile, postBytes } from "./http-client.mjs";
import { startProcesses } from "./local-processes.mjs";

const root = path.resolve(import.meta.dirname, "..", "..");
const options = scriptOptions({
  workers: { type: "string", default: "3" },
  connections: { type: "string", default: "1,8,32,64" },
  asks: { type: "string", default: "retrieval,ranking" },
  seconds: { type: "string", default: "3" },
  rounds: { type: "string", default: "1" },
  items: { type: "string", default: "10000" },
  dim: { type: "string", default: "32" },
  threads: { type: "string" },
  idle: { type: "string", default: "5" },
  against: { type: "string" },
});
const USERS = 1000;
/** Long enough for the compilers of all processes to be done with most of it. */
const WARM_SECONDS = 5;
/** After which a started cluster asks its members seldom. */
const SETTLE_MS = 6000;
const checkouts = [root, ...(options.against === undefined ? [] : [path.resolve(options.against)])];
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const folder = mkdtempSync(path.join(os.tmpdir(), "winnow-http-"));
const models = path.join(folder, "models");

/** What is asked: bodies that differ by user. */
const ASKS = {
  retrieval: { model: "movies", instance: (user) => `${user}` },
  ranking: {
    model: "movies-ranking",
    instance: (user) => ({ user_id: `${user}`, movie_title: "The Silent Harbor (1954)" }),
  },
};

function requestsOf({ model, instance }, { host, port }) {
  const path = `/v1/models/${model}:predict`;
  return Array.from({ length: 97 }, (_, number) => {
    const body = JSON.stringify({ instances: [instance((number * 31) % USERS)] });
    return postBytes({ host, port, path, body });
  });
}

/** What the processes cost between two looks, router and all workers apart. */
function costBetween(before, after) {
  const cost = { routerSeconds: 0, workerSeconds: 0, switches: 0 };
  for (const [name, { seconds, switches }] of after) {
    const was = before.get(name);
    cost[name === "router" ? "routerSeconds" : "workerSeconds"] += seconds - was.seconds;
    cost.switches += switches - was.switches;
  }
  return cost;
}

async function measure(cluster, ask, connections) {
  const { host, port } = cluster;
  const requests = requestsOf(ASKS[ask], cluster);
  const before = cluster.costs();
  const seconds = Number(options.seconds);
  const { times, failures, perSecond } = await load({ host, port, requests, connections, seconds });
  const cost = costBetween(before, cluster.costs());
  const sorted = times.toSorted((a, b) => a - b);
  const perAnswer = (value) => value / Math.max(1, times.length);
  return {
    perSecond,
    p50: percentile(sorted, 0.5),
    p90: percentile(sorted, 0.9),
    p99: percentile(sorted, 0.99),
    routerUs: perAnswer(cost.routerSeconds) * 1e6,
    workersUs: perAnswer(cost.workerSeconds) * 1e6,
    switches: perAnswer(cost.switches),
    failures,
  };
}

/** Percent of a core that one process takes while nobody asks. */
async function measureIdle(cluster) {
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const before = cluster.costs();
  const seconds = Number(options.idle);
  await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  const { routerSeconds, workerSeconds } = costBetween(before, cluster.costs());
  const workers = Number(options.workers);
  return {
    router: (routerSeconds / seconds) * 100,
    worker: (workerSeconds / seconds / workers) * 100,
  };
}

async function runRound(checkout, note) {
  const workerArgs = options.threads === undefined ? [] : ["--threads", options.threads];
  const names = Object.values(ASKS).map(({ model }) => model);
  const workers = Number(options.workers);
  const cluster = await startProcesses({ checkout, models, names, workers, workerArgs });
  try {
    const { host, port } = cluster;
    if (options.idle !== "0") note("idle", await measureIdle(cluster));
    for (const ask of options.asks.split(",")) {
      const requests = requestsOf(ASKS[ask], cluster);
      await load({ host, port, requests, connections: 32, seconds: WARM_SECONDS });
      for (const connections of options.connections.split(",")) {
        note(`${ask}|${connections}`, await measure(cluster, ask, Number(connections)));
      }
    }
  } finally {
    await cluster.stop();
  }
}

/** Field by field, the median of all rounds. */
function medians(rounds) {
  return Object.fromEntries(
    Object.keys(rounds[0]).map((field) => [field, median(rounds.map((round) => round[field]))]),
  );
}

function print(checkout, results) {
  const say = (text) => process.stdout.write(`${text}\n`);
  if (checkouts.length > 1) say(`\n${checkout}`);
  const idle = results.get("idle");
  if (idle !== undefined) {
    const { router, worker } = medians(idle);
    say(`idle: router ${router.toFixed(1)} %, a worker ${worker.toFixed(1)} % of a core\n`);
  }
  say(
    "| ask | connections | answers/s | p50 ms | p90 ms | p99 ms | router µs | workers µs | switches |",
  );
  say("| --- | --: | --: | --: | --: | --: | --: | --: | --: |");
  for (const [key, rounds] of results) {
    if (key === "idle") continue;
    const { perSecond, p50, p90, p99, routerUs, workersUs, switches, failures } = medians(rounds);
    const ms = [p50, p90, p99].map((time) => time.toFixed(2));
    const us = [routerUs, workersUs].map((time) => time.toFixed(0));
    const cells = [...key.split("|"), perSecond.toFixed(0), ...ms, ...us, switches.toFixed(1)];
    say(`| ${cells.join(" | ")} |${failures > 0 ? ` ${failures} failed` : ""}`);
  }
}

const written = spawnSync(
  process.execPath,
  [path.join(root, "packages/winnow/bin/winnow.js"), "demo", models].concat([
    "--items",
    options.items,
    "--dim",
    options.dim,
    "--users",
    String(USERS),
  ]),
  { stdio: ["ignore", "ignore", "ignore"] },
);
if (written.status !== 0) throw new Error("The demo models cannot be written; is it built?");
const results = new Map(checkouts.map((checkout) => [checkout, new Map()]));
try {
  for (let round = 0; round < Number(options.rounds); round += 1) {
    for (const checkout of checkouts) {
      const found = results.get(checkout);
      await runRound(checkout, (key, value) => found.set(key, [...(found.get(key) ?? []), value]));
    }
  }
  for (const [checkout, found] of results) print(checkout, found);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
