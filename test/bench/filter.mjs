// What a filter costs, from request to answer: by the share of items that it admits, once its rows are known and
// the first time it is asked, beside the same search without a filter, a mask in NumPy and FAISS with a bitmap
// (their processes alone, without any server, their masks made beforehand), and PostgreSQL with pgvector. What a worker takes for the search
// alone is told beside the whole answer, and what an answer takes whose search is next to nothing: that of 10,000
// items of 32 values. Ratios within one run count.
//
//   npm run bench:filter                                          two minutes
//   … -- --rows 100000 --instances 1                              a part of it
//   WINNOW_BENCH_PYTHON=/venv/bin/python npm run bench:filter     with NumPy and FAISS as well
//   WINNOW_BENCH_PGVECTOR=postgres://… npm run bench:filter       with a PostgreSQL that has pgvector as well; the
//                                                                 table winnow_bench_items in it is made anew

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { setTimeout } from "node:timers/promises";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { benchFolder } from "./bench-folder.mjs";
import { openConnection, postBytes } from "./http-client.mjs";
import { startProcesses } from "./local-processes.mjs";
import { readPage } from "./metrics-page.mjs";
import { pgvectorRival } from "./rivals/pgvector-contender.mjs";
import { pythonRival } from "./rivals/rival-process.mjs";
import { USERS, writeSearched, writeTable } from "./scale-models.mjs";

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
/** Ten thousand buckets of items, spread over all partitions alike. */
const bucketOf = (row) => (row * 7919) % BUCKETS;
const FIRST_USES = 9;
/** Uses after which every filter that is worth it is copied, and time for the copy. */
const WARM_USES = 20;
const COPIED_MS = 2000;
/**
 * Requests without a filter, with one and of the small table take turns in blocks: a search of the whole table leaves
 * nothing of the others in the processors' caches.
 */
const BLOCKS = 5;
/** Turns in which rivals are asked for one instance; of many instances they need a second each. */
const RIVAL_TURNS = 10;
/** A model whose search takes some microseconds. */
const FLOOR = { model: "floor", rows: 10_000, dim: 32 };
const say = (text) => process.stdout.write(`${text}\n`);
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

/** The items' buckets, as attributes. */
function describeItems(directory) {
  const folder = path.join(directory, "movies", "1", "assets.extra");
  mkdirSync(folder, { recursive: true });
  let lines = "";
  for (let row = 0; row < rows; row += 1) {
    lines += `{"id":"item ${row + 1}","bucket":${bucketOf(row)}}\n`;
  }
  writeFileSync(path.join(folder, "items.jsonl"), lines);
}

const usersFrom = (from, count) =>
  Array.from({ length: count }, (_, at) => String(((from + at) % USERS) + 1));

/** Asks one model after the other on one connection. */
function clientOf({ host, port }) {
  const connection = openConnection({ host, port });
  const ask = (asked, model = "movies") => {
    const path = `/v1/models/${model}:predict`;
    return connection.ask(postBytes({ host, port, path, body: JSON.stringify(asked) }));
  };
  return { ask, close: connection.close };
}

/** What the worker's own clock says of searches so far. */
async function searchesOf({ workerPages: [page] }) {
  const sumOf = await readPage(`${page}/metrics`);
  const name = "winnow_worker_topk_duration_seconds";
  return { ms: 1000 * sumOf(`${name}_sum`), searches: sumOf(`${name}_count`) };
}

const rowsOf = ({ text }) =>
  JSON.parse(text).predictions[0].output_2.map((id) => Number(id.slice("item ".length)) - 1);

/** A rival must find what Winnow finds; rounded sums may order two equal scores otherwise. */
function assertAlike(name, found, expected) {
  const missing = expected.filter((row) => !found.includes(row));
  if (missing.length > 1) throw new Error(`${name} finds ${found}, not ${expected}`);
}

async function measured(server, rivals, { instances, admitted }) {
  const { client } = server;
  const filter = { bucket: { $lt: admitted } };
  const bodyOf = (turn) => {
    return { instances: usersFrom((turn * 31) % (USERS - instances), instances), k };
  };
  const ways = {
    free: (turn) => client.ask(bodyOf(turn)),
    filtered: (turn) => client.ask({ ...bodyOf(turn), filter }),
    floor: (turn) => client.ask(bodyOf(turn), FLOOR.model),
  };
  const found = Object.fromEntries(Object.keys(ways).map((name) => [name, { ms: [], search: [] }]));
  const first = [];
  const rivalTimes = rivals.map(() => []);
  // The first requests find code that is not compiled yet, and rows that are not copied yet.
  for (const ask of Object.values(ways)) {
    for (let turn = 0; turn < WARM_USES; turn += 1) await ask(turn);
  }
  await setTimeout(COPIED_MS);
  for (let block = 0; block < BLOCKS; block += 1) {
    for (const [name, ask] of Object.entries(ways)) {
      const before = await searchesOf(server);
      for (let turn = 0; turn < repetitions / BLOCKS; turn += 1) {
        found[name].ms.push((await ask(block + turn * BLOCKS)).elapsed);
      }
      const after = await searchesOf(server);
      found[name].search.push((after.ms - before.ms) / (after.searches - before.searches));
    }
  }
  for (let turn = 0; turn < RIVAL_TURNS / Math.min(instances, 3); turn += 1) {
    const from = (turn * 31) % (USERS - instances);
    for (const [at, rival] of rivals.entries()) {
      const [elapsed, ...best] = await rival.ask("search", from, instances, k, admitted);
      const isEnough = admitted * rows >= k * BUCKETS;
      if (isEnough) assertAlike(rival.name, best, rowsOf(await ways.filtered(turn)));
      rivalTimes[at].push(elapsed);
    }
  }
  for (let use = 0; use < FIRST_USES; use += 1) {
    const since = admitted === BUCKETS ? -1 - use : 1 + use * 7;
    const range = { $gte: since, $lt: since + admitted + (admitted === BUCKETS ? use + 1 : 0) };
    const body = { instances: usersFrom(use, instances), k, filter: { bucket: range } };
    first.push((await client.ask(body)).elapsed);
  }
  const medians = Object.entries(found).map(([name, { ms, search }]) => {
    return [name, { ms: median(ms), search: median(search) }];
  });
  return { ...Object.fromEntries(medians), first: median(first), rivals: rivalTimes.map(median) };
}

const kept = benchFolder(options.folder);
const python = process.env["WINNOW_BENCH_PYTHON"];
const data = kept.data("normal", { rows, dim });
const { directory } = await writeTable(kept.folder, { name: "large", rows, dim, k });
describeItems(directory);
const floorFolder = path.join(directory, FLOOR.model);
if (!existsSync(floorFolder)) {
  mkdirSync(floorFolder);
  writeSearched(path.join(floorFolder, "1"), { ...FLOOR, k });
}
const rivals = [];
for (const kind of python === undefined ? [] : ["numpy", "faiss"]) {
  const script = "filtered_contender.py";
  const rival = pythonRival({ name: kind, python, script, loadWords: [kind], threads });
  await rival.load(data);
  rivals.push(rival);
}
const url = process.env["WINNOW_BENCH_PGVECTOR"];
if (url !== undefined) {
  const rival = pgvectorRival({ url, threads, bucketOf });
  await rival.load(data);
  rivals.push(rival);
}
const processes = await startProcesses({
  checkout: root,
  models: directory,
  names: ["movies", FLOOR.model],
  workers: 1,
  readyWithinMs: 300_000,
});
try {
  const server = { ...processes, client: clientOf(processes) };
  say(`${rows} × ${dim}, k = ${k}, one worker, ${threads} threads, p50 in ms\n`);
  const names = ["instances", "admitted", "no filter", "filter", "ratio"];
  names.push("search, no filter", "search, filter", "search, ratio", "floor", "first use");
  const columns = [...names, ...rivals.map(({ name }) => name)];
  say(`| ${columns.join(" | ")} |\n| ${columns.map(() => "---:").join(" | ")} |`);
  for (const instances of numbersOf(options.instances)) {
    for (const admitted of numbersOf(options.admitted)) {
      const found = await measured(server, rivals, { instances, admitted });
      const share = `${(admitted * 100) / BUCKETS} %`;
      const { free, filtered, floor, first } = found;
      const cells = [free.ms, filtered.ms, filtered.ms / free.ms, free.search, filtered.search];
      cells.push(filtered.search / free.search, floor.ms, first, ...found.rivals);
      const texts = cells.map((each) => each.toFixed(each < 0.1 ? 3 : 2));
      say(`| ${[instances, share, ...texts].join(" | ")} |`);
    }
  }
} finally {
  await processes.stop();
  for (const rival of rivals) await rival.close();
  kept.close();
}
