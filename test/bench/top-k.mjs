// How much faster is the filtered scan than the fastest exact rival that is installed, on the same
// data in the same minutes? Writes docs/benchmarks/top-k.md and top-k.svg.
//
//   WINNOW_BENCH_PYTHON=/path/to/python       has FAISS, PyTorch, or both
//   WINNOW_BENCH_USEARCH=/path/to/folder      where `npm install usearch` was run
//   npm run bench:top-k                                             five minutes
//   … -- --full                                                     every k at every batch
//   … -- --resume /tmp/figures --seconds 100                        in pieces: again until it reports
//   … -- --rows 100000 --rounds 1 --output /tmp                     a quick look
//   … -- --attempts 1                                               whatever others do
//
// The machine may be shared and noisy: contenders take turns, medians are compared, ratios count. Every
// answer is checked against canonical scores computed by a plain loop.

import { mkdirSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { QUERIES, benchFolder } from "./bench-folder.mjs";
import { createContenders } from "./rivals/contenders.mjs";
import { watchForeignLoad } from "./machine/foreign-load.mjs";
import { bestLimits, compileLimits } from "./machine/machine-limits.mjs";
import { fastestRival, toMarkdown } from "./reports/top-k-report.mjs";
import { toSvg } from "./reports/top-k-chart.mjs";

const root = path.resolve(import.meta.dirname, "..", "..");
const options = scriptOptions({
  rows: { type: "string", default: "1000000" },
  rounds: { type: "string", default: "3" },
  attempts: { type: "string", default: "6" },
  threads: { type: "string", default: String(os.availableParallelism()) },
  output: { type: "string", default: path.join(root, "docs", "benchmarks") },
  full: { type: "boolean", default: false },
  resume: { type: "string" },
  seconds: { type: "string", default: "Infinity" },
});
const rounds = Number(options.rounds);
const threads = Number(options.threads);
const attemptsMax = Number(options.attempts);
const endMs = performance.now() + Number(options.seconds) * 1000;
/** Processors others may keep busy during a round; beyond it the round is tried again. */
const FOREIGN_MAX = 0.25;
const BATCHES = [1, 8, 64, 256];
const CELLS = [
  ...BATCHES.map((batch) => ({ batch, k: 100 })),
  ...[10, 1000].flatMap((k) => (options.full ? BATCHES : [1]).map((batch) => ({ batch, k }))),
];
const TABLES = [64, 128].flatMap((dim) => ["normal", "skewed"].map((kind) => ({ kind, dim })));
/** Repetitions per round: short searches are asked several times. */
const repetitionsOf = (batch) => (batch === 1 ? 8 : batch === 8 ? 4 : 1);
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** Runtimes keep threads spinning after a search, some for 200 ms: the next one must not pay. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 300));

const firstQueryOf = ({ batch }, round, repetition) =>
  ((round * 8 + repetition) * batch) % (QUERIES - batch + 1);

/** Median milliseconds of a few searches; queries differ from one to the next. */
async function timeOf(contender, { batch, k }, round) {
  const times = [];
  let rows;
  for (let repetition = 0; repetition < repetitionsOf(batch); repetition += 1) {
    const from = firstQueryOf({ batch }, round, repetition);
    const answer = await contender.search({ from, queries: batch, k });
    times.push(answer.elapsedMs);
    rows = answer.rows;
  }
  return { ms: median(times), rows };
}

/** Rivals round float32 sums in their own way: next to equal scores may change places at the end. */
function checkRival(name, rows, expected) {
  const wanted = new Set(expected);
  const common = rows.filter((row) => wanted.has(row)).length;
  if (common >= Math.floor(0.98 * expected.length)) return;
  throw new Error(`${name}: only ${common} of the ${expected.length} best rows`);
}

/** One turn of every contender, whose answers to the last query must be right. */
async function runRound(cell, { ours, all, obvious }, round) {
  const from = firstQueryOf(cell, round, repetitionsOf(cell.batch) - 1);
  const { rows: expected } = await obvious.search({ from, queries: 1, k: cell.k });
  const times = [];
  for (const contender of all) {
    await pause();
    const { ms, rows } = await timeOf(contender, cell, round);
    times.push(ms);
    if (contender === ours && rows.join() !== expected.join()) {
      throw new Error("Winnow's answer is not the canonical one");
    }
    checkRival(contender.name, rows, expected);
  }
  return times;
}

/** A round during which others left the machine alone, or the best of some. */
async function runQuietRound(cell, contenders, round) {
  let best;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const foreignSince = watchForeignLoad(contenders.all.flatMap(({ pid }) => pid ?? []));
    const times = await runRound(cell, contenders, round);
    const foreign = foreignSince();
    if (best === undefined || foreign < best.foreign) best = { times, foreign };
    if (best.foreign <= FOREIGN_MAX) break;
  }
  return best;
}

async function runCell(cell, { ours, rivals, obvious }) {
  const taking = rivals.filter(({ batchMax }) => cell.batch <= batchMax);
  const all = [ours, ...taking];
  const list = [];
  for (let round = 0; round < rounds; round += 1) {
    list.push(await runQuietRound(cell, { ours, all, obvious }, round));
  }
  const medianOf = (place) => median(list.map(({ times }) => times[place]));
  return {
    oursMs: medianOf(0),
    foreign: median(list.map(({ foreign }) => foreign)),
    rivals: rivals.map((rival) => {
      const place = taking.indexOf(rival);
      return { name: rival.name, ms: place < 0 ? undefined : medianOf(place + 1) };
    }),
  };
}

/** Measures what is missing of one table; `undefined` when time is up. */
async function runTable({ kind, dim, rows }, cells, store) {
  const title = `${kind} ${rows}x${dim} on ${threads} threads`;
  const nameOf = ({ k, batch }) => `${title}, k ${k}, batch ${batch}`;
  const missing = cells.filter((cell) => !store.has(nameOf(cell)));
  if (missing.length > 0 || !store.has(title)) {
    const contenders = createContenders(threads);
    const { ours, rivals, obvious } = contenders;
    const data = store.data(kind, { rows, dim });
    for (const contender of [ours, ...rivals, obvious]) await contender.load(data);
    try {
      const limits = [readLimits()];
      for (const cell of missing) {
        if (performance.now() > endMs) return undefined;
        say(
          { kind, dim, ...cell },
          await store.figure(nameOf(cell), () => runCell(cell, contenders)),
        );
      }
      limits.push(readLimits());
      const jsMs = (await timeOf(obvious, { batch: 1, k: 100 }, 0)).ms;
      const { device, absent } = contenders;
      const { loadMs, residentBytes } = ours;
      const facts = { device, absent, loadMs, residentBytes, jsMs, limits: bestLimits(limits) };
      await store.figure(title, () => facts);
    } finally {
      for (const contender of [ours, ...rivals, obvious]) await contender.close();
    }
  }
  const results = [];
  for (const cell of cells) {
    results.push({ kind, dim, rows, ...cell, ...(await store.figure(nameOf(cell))) });
  }
  return { kind, dim, rows, cells: results, ...(await store.figure(title)) };
}

function say({ kind, dim, k, batch }, result) {
  const best = fastestRival(result);
  const ratio = (best.ms / result.oursMs).toFixed(1);
  console.log(
    `${kind} dim ${dim} k ${k} batch ${batch}: ${result.oursMs.toFixed(2)} ms; ${best.name} ${best.ms.toFixed(1)} ms; ${ratio} x; others ${result.foreign.toFixed(2)} processors`,
  );
}

const store = benchFolder(options.resume);
const readLimits = compileLimits(store.folder, threads);
const rows = Number(options.rows);
try {
  const wanted = [
    ...TABLES.map(({ kind, dim }) => ({ kind, dim, rows, cells: CELLS })),
    { kind: "normal", dim: 64, rows: rows / 10, cells: CELLS.slice(0, 3) },
  ];
  const tables = [];
  for (const { cells, ...table } of wanted) {
    const result = await runTable(table, cells, store);
    if (result === undefined) break;
    tables.push(result);
    globalThis.gc?.();
  }
  if (tables.length === wanted.length) {
    const report = {
      machine: tables[0].device,
      absent: tables[0].absent,
      tables: tables.slice(0, -1),
      small: tables.at(-1),
      rounds,
      threads,
      jsMs: tables[0].jsMs,
      date: new Date().toISOString().slice(0, 10),
    };
    mkdirSync(options.output, { recursive: true });
    writeFileSync(path.join(options.output, "top-k.md"), toMarkdown(report));
    writeFileSync(path.join(options.output, "top-k.svg"), toSvg(report));
    console.log(`written to ${options.output}`);
  } else {
    console.log("time is up; run it again with the same --resume to go on");
  }
} finally {
  store.close();
}
