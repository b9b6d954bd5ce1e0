// What happens when large batches and interactive requests meet? Starts a router and workers of a
// checkout on a large demo table, sends so many batch requests at once, again and again, with one
// interactive client beside them or without, and prints what each of them got.
//
//   npm run bench:burst                                          every line, about two minutes
//   npm run bench:burst -- --batches 4096x8 --beside with        one of them
//   npm run bench:burst -- --against ../other                    two checkouts in turn

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { Agent, request } from "node:http";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { percentile } from "./http-client.mjs";
import { startProcesses } from "./local-processes.mjs";

const root = path.resolve(import.meta.dirname, "..", "..");
const options = scriptOptions({
  workers: { type: "string", default: "3" },
  /** instances × clients. */
  batches: {
    type: "string",
    default: "4096x1,4096x2,4096x4,4096x8,4096x16,64x64,64x256,64x1000",
  },
  beside: { type: "string", default: "without,with" },
  seconds: { type: "string", default: "4" },
  items: { type: "string", default: "1000000" },
  dim: { type: "string", default: "64" },
  threads: { type: "string" },
  /** A model folder written before, instead of a new one. */
  models: { type: "string" },
  model: { type: "string", default: "movies" },
  against: { type: "string" },
});
const MODEL = options.model;
const USERS = 1000;
/** What a client that was refused waits: a tenth of what `Retry-After` asks of it. */
const REFUSED_PAUSE_MS = 100;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const folder =
  options.models === undefined ? mkdtempSync(path.join(os.tmpdir(), "winnow-burst-")) : undefined;
const models = options.models ?? path.join(folder, "models");

/** Asks for so many instances; the status and how long it took in ms. */
function ask(cluster, agent, { instances, first }) {
  const users = Array.from({ length: instances }, (_, index) => `${(first + index * 31) % USERS}`);
  const body = JSON.stringify({ instances: users });
  const { host, port } = cluster;
  const startMs = performance.now();
  return new Promise((resolve, reject) => {
    const sent = request(
      { host, port, agent, method: "POST", path: `/v1/models/${MODEL}:predict` },
      (response) => {
        response.on("data", () => undefined);
        response.on("end", () =>
          resolve({ status: response.statusCode, ms: performance.now() - startMs }),
        );
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

/** One client until the time is over. */
async function drive(cluster, { instances, endMs, number }, outcome) {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let first = number * 7;
  while (performance.now() < endMs) {
    first += 1;
    const { status, ms } = await ask(cluster, agent, { instances, first });
    if (status === 200) outcome.times.push(ms);
    else {
      outcome.refusedTimes.push(ms);
      outcome.statuses.set(status, (outcome.statuses.get(status) ?? 0) + 1);
      await pause(REFUSED_PAUSE_MS);
    }
  }
  agent.destroy();
}

const newOutcome = () => ({ times: [], refusedTimes: [], statuses: new Map() });

/** Second attempts by kind and reason so far, and ones the budget forbade. */
async function attempts({ host, port }) {
  const url = `http://${host}:${port}/monitoring/prometheus/metrics`;
  const text = await (await fetch(url)).text();
  const counts = new Map();
  for (const line of text.split("\n")) {
    const found = /^winnow_(second_attempts|attempt_budget_spent)_total\{(.*)\} (\d+)$/.exec(line);
    if (found === null) continue;
    const labels = found[2].replaceAll(/\w+="([^"]*)"/g, "$1");
    counts.set(found[1] === "second_attempts" ? labels : `spent ${labels}`, Number(found[3]));
  }
  return counts;
}

function between(before, after) {
  const changes = [...after].map(([name, count]) => [name, count - (before.get(name) ?? 0)]);
  return changes
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${name} ${count}`)
    .join("; ");
}

async function measure(cluster, batch, beside) {
  const [instances, clients] = batch.split("x").map(Number);
  const seconds = Number(options.seconds);
  const before = await attempts(cluster);
  const startMs = performance.now();
  const endMs = startMs + seconds * 1000;
  const large = newOutcome();
  const small = newOutcome();
  const drives = Array.from({ length: clients }, (_, number) =>
    drive(cluster, { instances, endMs, number }, large),
  );
  if (beside === "with") drives.push(drive(cluster, { instances: 1, endMs, number: 1 }, small));
  await Promise.all(drives);
  const elapsed = (performance.now() - startMs) / 1000;
  const counts = between(before, await attempts(cluster));
  return { instances, perSecond: (large.times.length * instances) / elapsed, large, small, counts };
}

const digits = (value) => (Number.isFinite(value) ? value.toFixed(value < 10 ? 1 : 0) : "–");
const sorted = (values) => values.toSorted((a, b) => a - b);
const share = (outcome) =>
  (100 * outcome.refusedTimes.length) /
  Math.max(1, outcome.refusedTimes.length + outcome.times.length);

function print(label, batch, { perSecond, large, small, counts }) {
  const times = sorted(large.times);
  const refused = sorted(large.refusedTimes);
  const interactive = sorted(small.times);
  const cells = [
    label,
    batch,
    Math.round(perSecond),
    times.length,
    `${digits(share(large))} %${[...large.statuses].map(([status, count]) => ` ${status}:${count}`).join("")}`,
    `${digits(percentile(times, 0.5))} / ${digits(times.at(-1) ?? Number.NaN)}`,
    `${digits(percentile(refused, 0.5))} / ${digits(percentile(refused, 0.99))}`,
    `${digits(percentile(interactive, 0.5))} / ${digits(percentile(interactive, 0.99))}`,
    `${interactive.length}, ${small.refusedTimes.length} refused`,
    counts,
  ];
  process.stdout.write(`| ${cells.join(" | ")} |\n`);
}

/** Peak memory of each process in MiB. */
function peaks(cluster) {
  if (!existsSync("/proc/self/status")) return "";
  return Array.from(cluster.pids, ([name, pid]) => {
    const text = readFileSync(`/proc/${pid}/status`, "utf8");
    return `${name} ${Math.round(Number(/VmHWM:\s+(\d+)/.exec(text)[1]) / 1024)}`;
  }).join(", ");
}

async function run(checkout, label) {
  const workerArgs = options.threads === undefined ? [] : ["--threads", options.threads];
  const cluster = await startProcesses({
    checkout,
    models,
    names: [MODEL],
    workers: Number(options.workers),
    workerArgs,
    logLevel: "warn",
  });
  try {
    const warm = newOutcome();
    const warmEndMs = performance.now() + 3000;
    await Promise.all(
      [1, 64].map((instances) => drive(cluster, { instances, endMs: warmEndMs, number: 0 }, warm)),
    );
    for (const beside of options.beside.split(",")) {
      for (const batch of options.batches.split(",")) {
        print(
          label,
          `${batch}${beside === "with" ? " + 1" : ""}`,
          await measure(cluster, batch, beside),
        );
        await pause(500);
      }
    }
    process.stdout.write(`${label}: peak MiB ${peaks(cluster)}\n`);
  } finally {
    await cluster.stop();
  }
}

try {
  if (folder !== undefined) {
    const script = path.join(root, "packages/winnow/bin/winnow.js");
    const size = ["--items", options.items, "--dim", options.dim, "--users", String(USERS)];
    spawnSync(process.execPath, [script, "demo", models, ...size], { stdio: "ignore" });
  }
  process.stdout.write(
    "| | instances × clients | instances/s | answered | refused | answered p50 / max ms | refused p50 / p99 ms | one beside p50 / p99 ms | its answers | second attempts |\n",
  );
  process.stdout.write(`|${" --- |".repeat(10)}\n`);
  await run(root, "this");
  if (options.against !== undefined) await run(path.resolve(options.against), "other");
} finally {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
}
