// What a filter costs, from request to answer: by the share of items that it admits, once its rows are known and
// the first time it is asked, beside the same search without a filter, a mask in NumPy and FAISS with a bitmap
// (their processes alone, without any server, their masks made beforehand). Ratios within one run count.
//
//   npm run bench:filter                                          two minutes
//   … -- --rows 100000 --instances 1                              a part of it
//   WINNOW_BENCH_PYTHON=/venv/bin/python npm run bench:filter     with NumPy and FAISS as well

import { mkdirSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { scriptOptions } from "../script-options.mjs";
import { benchFolder } from "./bench-folder.mjs";
import { startProcesses } from "./local-processes.mjs";
import { pythonRival } from "./rivals/rival-process.mjs";
import { USERS, writeTable } from "./scale-models.mjs";

const options = scriptOptions({
  rows: { type: "string", default: "1000000" },
  dim: { type: "string", default: "64" },
  k: { type: "string", default: "10" },
  instances: { type: "string", default: "1,64" },
  /** Items per ten thousand that filters admit. */
  admitted: { type: "string", default: "10000,5000,1100,100,10,1" },
  repetitions: { type: "string", default: "40" },
  /** Keeps tables and models here, for further runs. */
  folder: { type: "string" },
});
const root = path.resolve(import.meta.dirname, "..", "..");
const [rows, dim, k, repetitions] = ["rows", "dim", "k", "repetitions"].map((name) =>
  Number(options[name]),
);
const numbersOf = (text) => text.split(",").map(Number);
const threads = os.availableParallelism();
const BUCKETS = 10_000;
const FIRST_USES = 9;
const say = (text) => process.stdout.write(`${text}\n`);
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

/** Ten thousand buckets of items, spread over all partitions alike. */
function describeItems(directory) {
  const folder = path.join(directory, "movies", "1", "assets.extra");
  mkdirSync(folder, { recursive: true });
  let lines = "";
  for (let row = 0; row < rows; row += 1) {
    lines += `{"id":"item ${row + 1}","bucket":${(row * 7919) % BUCKETS}}\n`;
  }
  writeFileSync(path.join(folder, "items.jsonl"), lines);
}

const usersFrom = (from, count) =>
  Array.from({ length: count }, (_, at) => String(((from + at) % USERS) + 1));

async function ask({ host, port }, asked) {
  const began = performance.now();
  const response = await fetch(`http://${host}:${port}/v1/models/movies:predict`, {
    method: "POST",
    body: JSON.stringify(asked),
  });
  const text = await response.text();
  const elapsed = performance.now() - began;
  if (response.status !== 200) throw new Error(text);
  return { elapsed, text };
}

const rowsOf = ({ text }) =>
  JSON.parse(text).predictions[0].output_2.map((id) => Number(id.slice("item ".length)) - 1);

/** A rival must find what Winnow finds; rounded sums may order two equal scores otherwise. */
function assertAlike(name, found, expected) {
  const missing = expected.filter((row) => !found.includes(row));
  if (missing.length > 1) throw new Error(`${name} finds ${found}, not ${expected}`);
}

async function measured(server, rivals, { instances, admitted }) {
  const filter = { bucket: { $lt: admitted } };
  const times = { free: [], filtered: [], first: [] };
  const rivalTimes = rivals.map(() => []);
  for (let turn = 0; turn < repetitions + 5; turn += 1) {
    const from = (turn * 31) % (USERS - instances);
    const body = { instances: usersFrom(from, instances), k };
    const free = await ask(server, body);
    const filtered = await ask(server, { ...body, filter });
    // Of the first turns some find code that is not compiled yet.
    if (turn < 5) continue;
    times.free.push(free.elapsed);
    times.filtered.push(filtered.elapsed);
    if (turn >= 15) continue;
    for (const [at, rival] of rivals.entries()) {
      const [elapsed, ...found] = await rival.ask("search", from, instances, k, admitted);
      if (admitted * rows >= k * BUCKETS) assertAlike(rival.name, found, rowsOf(filtered));
      rivalTimes[at].push(elapsed);
    }
  }
  for (let use = 0; use < FIRST_USES; use += 1) {
    const since = admitted === BUCKETS ? -1 - use : 1 + use * 7;
    const range = { $gte: since, $lt: since + admitted + (admitted === BUCKETS ? use + 1 : 0) };
    const body = { instances: usersFrom(use, instances), k, filter: { bucket: range } };
    times.first.push((await ask(server, body)).elapsed);
  }
  return {
    free: median(times.free),
    filtered: median(times.filtered),
    first: median(times.first),
    rivals: rivalTimes.map(median),
  };
}

const kept = benchFolder(options.folder);
const python = process.env["WINNOW_BENCH_PYTHON"];
const data = kept.data("normal", { rows, dim });
const { directory } = await writeTable(kept.folder, { name: "large", rows, dim, k });
describeItems(directory);
const rivals = [];
for (const kind of python === undefined ? [] : ["numpy", "faiss"]) {
  const script = "filtered_contender.py";
  const rival = pythonRival({ name: kind, python, script, loadWords: [kind], threads });
  await rival.load(data);
  rivals.push(rival);
}
const server = await startProcesses({
  checkout: root,
  models: directory,
  names: ["movies"],
  workers: 1,
  readyWithinMs: 300_000,
});
try {
  say(`${rows} × ${dim}, k = ${k}, one worker, ${threads} threads, p50 in ms\n`);
  const names = ["instances", "admitted", "no filter", "filter", "ratio", "first use"];
  const columns = [...names, ...rivals.map(({ name }) => name)];
  say(`| ${columns.join(" | ")} |\n| ${columns.map(() => "---:").join(" | ")} |`);
  for (const instances of numbersOf(options.instances)) {
    for (const admitted of numbersOf(options.admitted)) {
      const found = await measured(server, rivals, { instances, admitted });
      const share = `${(admitted * 100) / BUCKETS} %`;
      const ratio = (found.filtered / found.free).toFixed(2);
      const figures = [found.free, found.filtered].map((ms) => ms.toFixed(2));
      const others = [found.first, ...found.rivals].map((ms) => ms.toFixed(2));
      say(`| ${[instances, share, ...figures, ratio, ...others].join(" | ")} |`);
    }
  }
} finally {
  await server.stop();
  for (const rival of rivals) await rival.close();
  kept.close();
}
