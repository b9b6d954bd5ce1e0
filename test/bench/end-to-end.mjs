// From request to answer: what does a client wait for, beside what its team would use instead? One
// instance per request over HTTP, then 256 instances outstanding in fewer requests, everything on the
// same cores, the load generator too: Winnow with one worker and with several, a server written by hand
// (fastify, ONNX Runtime), TensorFlow's own call of the same SavedModel without any server, and the bare
// scan without any cluster. Ratios within one run count.
//
//   npm run bench:end-to-end                                          three minutes and more
//   … -- --workers 1 --connections 1,64                               a part of it
//   … -- --rows 10000 --dim 32                                        a small table
//   WINNOW_BENCH_PYTHON=/venv/bin/python npm run bench:end-to-end     with TensorFlow as well

import { spawnSync } from "node:child_process";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { benchFolder } from "./bench-folder.mjs";
import { createContenders } from "./rivals/contenders.mjs";
import { watchForeignLoad } from "./machine/foreign-load.mjs";
import { serveByHand } from "./rivals/hand-written.mjs";
import { load, percentile, postBytes } from "./http-client.mjs";
import { startProcesses } from "./local-processes.mjs";
import { pythonRival } from "./rivals/rival-process.mjs";
import { USERS, writeTable } from "./scale-models.mjs";

const options = scriptOptions({
  rows: { type: "string", default: "1000000" },
  dim: { type: "string", default: "64" },
  k: { type: "string", default: "10" },
  workers: { type: "string", default: "1,3" },
  connections: { type: "string", default: "1,8,64,256" },
  /** Connections × instances per request. */
  batches: { type: "string", default: "64x4,16x16,8x32" },
  seconds: { type: "string", default: "4" },
  warm: { type: "string", default: "5" },
  rounds: { type: "string", default: "1" },
  /** Keeps tables and models here, for further runs. */
  folder: { type: "string" },
});
const root = path.resolve(import.meta.dirname, "..", "..");
const [rows, dim, k, seconds] = ["rows", "dim", "k", "seconds"].map((name) =>
  Number(options[name]),
);
const connections = options.connections.split(",").map(Number);
const batches = options.batches.split(",").filter((each) => each !== "");
const loads = [
  ...connections.map((count) => ({ name: count, count, instances: 1 })),
  ...batches.map((each) => {
    const [count, instances] = each.split("x").map(Number);
    return { name: `${count} × ${instances} instances`, count, instances };
  }),
];
const FRESH_REQUESTS = 100;
/** Scores of two exact servers differ in the last bits of a float32 sum. */
const TOLERANCE = 1e-4;
const threads = os.availableParallelism();
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const say = (text) => process.stdout.write(`${text}\n`);
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const TARGET = "/v1/models/movies:predict";
const requestsOf = ({ host, port }, instances = 1) =>
  Array.from({ length: 97 }, (_, number) => {
    const users = Array.from({ length: instances }, (_, place) =>
      String(((number * 31 + place * 7) % USERS) + 1),
    );
    const body = JSON.stringify({ instances: users });
    return postBytes({ host, port, path: TARGET, body });
  });

/** The answers to a few users, to be compared with another server's. */
async function answersOf({ host, port }) {
  const body = JSON.stringify({ instances: ["1", "17", String(USERS), "nobody"] });
  const response = await fetch(`http://${host}:${port}${TARGET}`, {
    method: "POST",
    body,
    headers: { "content-type": "application/json" },
  });
  if (response.status !== 200) throw new Error(`answered ${response.status}`);
  /** @type {any} */
  const answer = await response.json();
  return answer.predictions;
}

function assertAlike(name, found, expected) {
  for (const [at, { output_1: scores, output_2: ids }] of expected.entries()) {
    const isAlike = scores.every((score, place) => {
      const difference = Math.abs(found[at].output_1[place] - score);
      const isTie = difference <= TOLERANCE * Math.max(1, Math.abs(score));
      return isTie && (score === 0 || found[at].output_2[place] === ids[place]);
    });
    if (!isAlike) throw new Error(`${name} answers instance ${at} otherwise`);
  }
}

/** p50 of the first requests of a fresh server, then answers per second and times by load. */
async function measure(server) {
  const { host, port } = server;
  const requests = requestsOf(server);
  const fresh = await load({
    host,
    port,
    requests,
    connections: 1,
    seconds: 60,
    answers: FRESH_REQUESTS,
  });
  await load({ host, port, requests, connections: 64, seconds: Number(options.warm) });
  const byLoad = new Map();
  for (const { name, count, instances } of loads) {
    const foreign = watchForeignLoad(server.pids);
    const { times, failures, perSecond } = await load({
      host,
      port,
      requests: requestsOf(server, instances),
      connections: count,
      seconds,
    });
    const sorted = times.toSorted((a, b) => a - b);
    byLoad.set(name, {
      perSecond: perSecond * instances,
      failures,
      p50: percentile(sorted, 0.5),
      p99: percentile(sorted, 0.99),
      others: foreign(),
    });
  }
  return {
    freshP50: percentile(
      fresh.times.toSorted((a, b) => a - b),
      0.5,
    ),
    byLoad,
  };
}

/** What `winnow up` says to workers that share a machine (packages/winnow/src/local-cluster/local-flags.ts). */
const SHARED_MACHINE = [
  ["--machine", "local", "--threads", String(os.availableParallelism())],
  ["--partition-bytes", String(2 ** 30), "--extra-memory", "0"],
].flat();

const winnow = (count, models) => ({
  name: `Winnow, ${count} worker${count === 1 ? "" : "s"}`,
  async start() {
    const cluster = await startProcesses({
      checkout: root,
      models,
      names: ["movies"],
      workers: count,
      workerArgs: count > 1 ? SHARED_MACHINE : [],
    });
    return { ...cluster, pids: [...cluster.pids.values()] };
  },
});

/** The scan alone, as a worker runs it: ms of one query, queries per second in batches of 256. */
async function bareScan(data) {
  const { ours, rivals } = createContenders(threads);
  for (const rival of rivals) await rival.close();
  await ours.load(data);
  const timesOf = async (queries, runs) => {
    const times = [];
    for (let run = 0; run < runs; run += 1) {
      const { elapsedMs } = await ours.search({ from: (run * 7) % 256, queries, k });
      times.push(elapsedMs);
    }
    return median(times.slice(runs >> 2));
  };
  const oneMs = await timesOf(1, 200);
  const manyMs = await timesOf(256, 24);
  await ours.close();
  return { oneMs, perSecond: 256_000 / manyMs };
}

async function tensorflow(model) {
  const python = process.env.WINNOW_BENCH_PYTHON;
  if (python === undefined) return undefined;
  if (spawnSync(python, ["-c", "import tensorflow"], { stdio: "ignore" }).status !== 0)
    return undefined;
  const rival = pythonRival({ name: "TensorFlow", python, script: "saved_model_call.py", threads });
  try {
    await rival.ask("load", model, threads);
    const calls = [];
    for (const batch of [1, 8, 64]) {
      const [ms] = await rival.ask("call", batch, seconds);
      calls.push({ batch, ms });
    }
    return calls;
  } finally {
    await rival.close();
  }
}

const bench = benchFolder(options.folder);
process.once("exit", () => bench.close());
const data = bench.data("normal", { rows, dim });
const { directory: models } = await writeTable(bench.folder, { name: "large", rows, dim, k });
const servers = [
  { name: "written by hand", start: () => serveByHand({ file: data.file, rows, dim, k, threads }) },
  ...options.workers.split(",").map((count) => winnow(Number(count), models)),
];
const found = new Map(servers.map(({ name }) => [name, []]));
let expected;
for (let round = 0; round < Number(options.rounds); round += 1) {
  for (const { name, start } of servers) {
    const server = await start();
    try {
      const figures = await measure(server);
      const answers = await answersOf(server);
      expected ??= answers;
      assertAlike(name, answers, expected);
      found.get(name).push(figures);
      process.stderr.write(`${name}: measured\n`);
    } finally {
      await server.stop();
    }
  }
}
const bare = await bareScan(data);
const calls = await tensorflow(path.join(models, "movies", "1"));

/** The median of a figure over all rounds. */
const figure = (name, under, field) =>
  median(found.get(name).map(({ byLoad }) => byLoad.get(under)[field]));
say(
  `${os.cpus()[0].model.trim()}, ${threads} processors, Node ${process.versions.node}; ${rows} × ${dim}, k = ${k}\n`,
);
say("| server | connections | answers/s | × by hand | p50 ms | p99 ms | failed | others |");
say("| --- | --: | --: | --: | --: | --: | --: | --: |");
for (const { name } of servers) {
  for (const { name: under } of loads) {
    const value = (field) => figure(name, under, field);
    const ratio = value("perSecond") / figure(servers[0].name, under, "perSecond");
    const cells = [name, under, value("perSecond").toFixed(0), ratio.toFixed(1)];
    const ends = [
      value("p50").toFixed(2),
      value("p99").toFixed(2),
      value("failures"),
      value("others").toFixed(2),
    ];
    say(`| ${[...cells, ...ends].join(" | ")} |`);
  }
}
say("");
for (const { name } of servers) {
  const freshP50 = median(found.get(name).map((each) => each.freshP50));
  const warm = connections.includes(1) ? `, warm ${figure(name, 1, "p50").toFixed(2)} ms` : "";
  say(`- ${name}: p50 of the first ${FRESH_REQUESTS} requests ${freshP50.toFixed(2)} ms${warm}`);
}
say(
  `- the scan alone: ${bare.oneMs.toFixed(2)} ms for one query, ${bare.perSecond.toFixed(0)} queries/s in batches of 256`,
);
say(
  calls === undefined
    ? "- TensorFlow: WINNOW_BENCH_PYTHON names no Python that imports it"
    : `- TensorFlow's call of the SavedModel: ${calls.map(({ batch, ms }) => `${ms.toFixed(1)} ms for ${batch}`).join(", ")}`,
);
process.exit(0);
