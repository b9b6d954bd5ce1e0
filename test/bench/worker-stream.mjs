// How much of the bare scan's throughput reaches a router through a worker's gRPC stream? One worker
// process, one client, batches that form under load; in turns with the same scan in this process while
// the worker is idle. Writes docs/benchmarks/worker-stream.md.
//
//   npm run bench:worker                                      two minutes
//   … -- --threads 1 --kinds normal                           one configuration
//   … -- --resume /tmp/figures --seconds 60                   in pieces: again until it reports
//   … -- --node-flags=--perf-basic-prof                       flags of the worker, to profile it

import { mkdirSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { createCpuAccelerator } from "../../packages/accelerator/dist/cpu/accelerator.js";
import { loadNativeAddon } from "../../packages/accelerator/dist/cpu/native-addon.js";
import { rowRangeOf } from "../../packages/core/dist/index.js";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { QUERIES, benchFolder } from "./bench-folder.mjs";
import { watchForeignLoad } from "./machine/foreign-load.mjs";
import { writeFigures } from "./reports/report-file.mjs";
import { startStreamWorker, writeModel } from "./stream-worker.mjs";
import { threadSeconds, threadUse } from "./machine/thread-times.mjs";
import { toMarkdown } from "./reports/worker-stream-report.mjs";

const root = path.resolve(import.meta.dirname, "..", "..");
const options = scriptOptions({
  rows: { type: "string", default: "1000000" },
  dim: { type: "string", default: "64" },
  k: { type: "string", default: "100" },
  kinds: { type: "string", default: "normal,skewed" },
  threads: { type: "string", default: "1,2" },
  rounds: { type: "string", default: "3" },
  turn: { type: "string", default: "1.5" },
  output: { type: "string", default: path.join(root, "docs", "benchmarks") },
  resume: { type: "string" },
  seconds: { type: "string", default: "Infinity" },
  "node-flags": { type: "string", default: "" },
});
const rows = Number(options.rows);
const dim = Number(options.dim);
const k = Number(options.k);
const rounds = Number(options.rounds);
const turnMs = Number(options.turn) * 1000;
const endMs = performance.now() + Number(options.seconds) * 1000;
const nodeFlags = options["node-flags"].split(" ").filter((flag) => flag !== "");
const BATCH = 64;
const DEADLINE_MS = 60_000;
/** Questions without an answer at any time, and query vectors in each. */
const LOADS = [
  { outstanding: 64, queries: 1 },
  { outstanding: 128, queries: 1 },
  { outstanding: 256, queries: 1 },
  { outstanding: 32, queries: 8 },
  { outstanding: 4, queries: 64 },
];
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const pause = () => new Promise((resolve) => setTimeout(resolve, 300));

/** The same partitions of the same table in this process. */
async function bareScan(data, { threads, partitions }) {
  const { addon, reason } = loadNativeAddon();
  if (addon === undefined) throw new Error(reason);
  const accelerator = createCpuAccelerator(addon, { capacityBytes: 16 * 2 ** 30, threads });
  const residents = [];
  for (const partition of partitions) {
    const { firstRow, endRow } = rowRangeOf(partition, { rows, partitions: partitions.length });
    const shape = { rows: endRow - firstRow, dim, firstRow, use: /** @type {const} */ ("search") };
    const values = data.table.subarray(firstRow * dim, endRow * dim);
    residents.push(await accelerator.load(shape, [values]));
  }
  return {
    device: accelerator.device,
    topK: (vectors) => accelerator.topK({ residents, vectors, k }),
    close: () => accelerator.close(),
  };
}

/** Query vectors from a place in the list of queries, which begins anew at its end. */
function queriesFrom(data, at, count) {
  const from = (at * count) % (QUERIES - count + 1);
  return data.vectors.slice(from * dim, (from + count) * dim);
}

/** Batches one after the other for the length of a turn: queries per second. */
async function bareTurn(scan, data) {
  const start = performance.now();
  let batches = 0;
  for (; performance.now() - start < turnMs; batches += 1) {
    await scan.topK(queriesFrom(data, batches, BATCH));
  }
  return (batches * BATCH) / ((performance.now() - start) / 1000);
}

/** Keeps so many questions without an answer for the length of a turn. */
async function streamTurn({ channel, target, pid }, data, { outstanding, queries }) {
  const start = performance.now();
  const state = { asked: 0, answered: 0, computeUs: [], latencyMs: [] };
  const before = { threads: threadSeconds(pid), client: process.cpuUsage() };
  await new Promise((resolve, reject) => {
    const ask = () => {
      const askedMs = performance.now();
      const vectors = queriesFrom(data, state.asked, queries);
      state.asked += 1;
      const question = {
        ...target,
        ask: { kind: "topK", k, queries, vectors, excluded: [], rowsOnly: false },
        deadlineMs: askedMs + DEADLINE_MS,
      };
      const asked = channel.ask(question, ({ answer, computeUs }) => {
        if (answer.kind !== "topK") return reject(answer.error);
        const nowMs = performance.now();
        state.answered += 1;
        state.computeUs.push(computeUs);
        state.latencyMs.push(nowMs - askedMs);
        if (nowMs - start < turnMs) ask();
        else if (channel.pending === 0) resolve(undefined);
      });
      if (asked.state !== "asked") reject(new Error(`the question was refused: ${asked.reason}`));
    };
    for (let begun = 0; begun < outstanding; begun += 1) ask();
  });
  const elapsedSeconds = (performance.now() - start) / 1000;
  const { user, system } = process.cpuUsage(before.client);
  const after = threadSeconds(pid);
  await pause();
  return {
    rate: (state.answered * queries) / elapsedSeconds,
    computeMs: median(state.computeUs) / 1000,
    latencyMs: median(state.latencyMs),
    client: (user + system) / 1e6 / elapsedSeconds,
    ...threadUse(pid, { before: before.threads, after, elapsedSeconds }),
  };
}

/** The stream's answer must be the scan's, bit for bit. */
async function checkAnswers(worker, scan, data) {
  const vectors = queriesFrom(data, 1, BATCH);
  const expected = await scan.topK(vectors);
  const { channel, target } = worker;
  const ask = { kind: "topK", k, queries: BATCH, vectors, excluded: [], rowsOnly: false };
  const answer = await new Promise((resolve) => {
    const deadlineMs = performance.now() + DEADLINE_MS;
    channel.ask({ ...target, ask, deadlineMs }, (reply) => resolve(reply.answer));
  });
  const isSame = (name) =>
    Buffer.compare(bytesOf(answer.block[name]), bytesOf(expected[name])) === 0;
  if (!["counts", "scores", "rows"].every(isSame)) throw new Error("the worker's answer is wrong");
}

const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);

/** Median of each number of some records. */
function medianRecord(records) {
  const names = Object.keys(records[0]);
  return Object.fromEntries(
    names.map((name) => [name, median(records.map((record) => record[name]))]),
  );
}

/** Turns of the bare scan and of the stream; the median of each figure. */
async function runLoad(load, { worker, scan, data }) {
  const turns = [];
  for (let round = 0; round < rounds; round += 1) {
    const foreignSince = watchForeignLoad([worker.pid]);
    const bare = await bareTurn(scan, data);
    await pause();
    const stream = await streamTurn(worker, data, load);
    turns.push({ ...stream, bare, ratio: stream.rate / bare, foreign: foreignSince() });
  }
  return { ...load, ...medianRecord(turns) };
}

/** Measures what is missing of one worker; `undefined` when time is up. */
async function runWorker(kind, threads, store) {
  const title = `worker ${kind} ${rows}x${dim} k ${k} on ${threads} threads`;
  const nameOf = ({ outstanding, queries }) => `${title}, ${outstanding} x ${queries}`;
  const missing = LOADS.filter((load) => !store.has(nameOf(load)));
  if (missing.length > 0 || !store.has(title)) {
    const data = store.data(kind, { rows, dim });
    const folder = path.join(store.folder, `${kind}-${rows}x${dim}`);
    const basePath = writeModel(folder, { ...data, k });
    const worker = await startStreamWorker(basePath, { threads, nodeFlags });
    const scan = await bareScan(data, { threads, partitions: worker.target.partitions });
    try {
      await checkAnswers(worker, scan, data);
      await streamTurn(worker, data, LOADS[2]);
      for (const load of missing) {
        if (performance.now() > endMs) return undefined;
        const measure = () => runLoad(load, { worker, scan, data });
        say(nameOf(load), await store.figure(nameOf(load), measure));
      }
      await store.figure(title, () => ({ device: scan.device }));
    } finally {
      await worker.close();
      await scan.close();
    }
  }
  const loads = [];
  for (const load of LOADS) loads.push(await store.figure(nameOf(load)));
  return { kind, threads, loads, ...(await store.figure(title)) };
}

function say(name, { rate, bare, ratio, computeMs, latencyMs, foreign, ...use }) {
  console.log(
    `${name}: ${rate.toFixed(0)}/s of ${bare.toFixed(0)}/s: ${(100 * ratio).toFixed(0)} %; loop ${use.eventLoop.toFixed(2)}, compute ${use.compute.toFixed(2)}, scan ${use.others.toFixed(2)}, client ${use.client.toFixed(2)} processors; scan ${computeMs.toFixed(1)} ms, answer ${latencyMs.toFixed(1)} ms; others ${foreign.toFixed(2)}`,
  );
}

const store = benchFolder(options.resume);
try {
  const wanted = options.threads
    .split(",")
    .flatMap((threads) =>
      options.kinds.split(",").map((kind) => ({ kind, threads: Number(threads) })),
    );
  const workers = [];
  for (const { kind, threads } of wanted) {
    const result = await runWorker(kind, threads, store);
    if (result === undefined) break;
    workers.push(result);
  }
  if (workers.length === wanted.length) {
    mkdirSync(options.output, { recursive: true });
    const date = new Date().toISOString().slice(0, 10);
    const report = { workers, rows, dim, k, rounds, date, processors: os.availableParallelism() };
    writeFigures(path.join(options.output, "worker-stream.md"), toMarkdown(report));
    console.log(`written to ${options.output}`);
  } else {
    console.log("time is up; run it again with the same --resume to go on");
  }
} finally {
  store.close();
}
