// How much faster is the filtered scan than the fastest exact rival that is installed, on the same
// data in the same minutes? Writes docs/benchmarks/top-k.md and top-k.svg.
//
//   WINNOW_BENCH_PYTHON=/path/to/python npm run bench:top-k            rivals: ONNX Runtime, FAISS
//   … -- --rows 100000 --rounds 3 --output /tmp                         a quick look
//   … -- --attempts 1                                                   whatever others do
//
// The machine may be shared and noisy: contenders take turns, medians are compared, ratios count.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { createContenders } from "./contenders.mjs";
import { watchForeignLoad } from "./foreign-load.mjs";
import { searchData } from "./search-data.mjs";
import { fastestRival, toMarkdown, toSvg } from "./top-k-report.mjs";

const root = path.resolve(import.meta.dirname, "..", "..");
const { values: options } = parseArgs({
  options: {
    rows: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "5" },
    attempts: { type: "string", default: "6" },
    threads: { type: "string", default: String(os.availableParallelism()) },
    output: { type: "string", default: path.join(root, "docs", "benchmarks") },
  },
});
const rounds = Number(options.rounds);
const threads = Number(options.threads);
const attemptsMax = Number(options.attempts);
const QUERIES = 512;
/** Processors others may keep busy during a round; beyond it the round is tried again. */
const FOREIGN_MAX = 0.25;
const CELLS = [
  { batch: 1, k: 100 },
  { batch: 8, k: 100 },
  { batch: 64, k: 100 },
  { batch: 256, k: 100 },
  { batch: 1, k: 10 },
  { batch: 1, k: 1000 },
];
/** Repetitions per round: short searches are asked several times. */
const repetitionsOf = (batch) => (batch === 1 ? 8 : batch === 8 ? 4 : 1);

const folder = mkdtempSync(path.join(os.tmpdir(), "winnow-bench-"));
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** Compiled for this machine; without a compiler the addon would not exist either. */
function compileLimits() {
  const program = path.join(folder, "machine-limits");
  const source = path.join(import.meta.dirname, "machine-limits.cpp");
  execFileSync(process.env.CXX ?? "g++", [
    "-O3",
    "-march=native",
    "-pthread",
    "-o",
    program,
    source,
  ]);
  return () => {
    const words = execFileSync(program, [String(threads)], { encoding: "utf8" }).split(" ");
    return { readGigabytes: Number(words[0]), int8Gigaops: Number(words[1]) };
  };
}

/** Runtimes keep threads spinning after a search, some for 200 ms: the next one must not pay. */
const pause = () => new Promise((resolve) => setTimeout(resolve, 300));

/** Median milliseconds of a few searches; queries differ from one to the next. */
async function timeOf(contender, { batch, k }, round) {
  const times = [];
  let rows;
  for (let repetition = 0; repetition < repetitionsOf(batch); repetition += 1) {
    const from = ((round * 8 + repetition) * batch) % (QUERIES - batch + 1);
    const answer = await contender.search({ from, queries: batch, k });
    times.push(answer.elapsedMs);
    rows = answer.rows;
  }
  return { ms: median(times), rows };
}

/** One turn of every contender; checks that they agree. */
async function runRound(cell, all, round) {
  const times = [];
  let expected;
  for (const contender of all) {
    await pause();
    const { ms, rows } = await timeOf(contender, cell, round);
    times.push(ms);
    expected ??= new Set(rows);
    const common = rows.filter((row) => expected.has(row)).length;
    if (common < 0.98 * cell.k) {
      throw new Error(`${contender.name}: only ${common} of ${cell.k} rows agree`);
    }
  }
  return times;
}

/** A round during which others left the machine alone, or the best of some. */
async function runQuietRound(cell, all, round) {
  let best;
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const foreignSince = watchForeignLoad(all.flatMap(({ pid }) => pid ?? []));
    const times = await runRound(cell, all, round);
    const foreign = foreignSince();
    if (best === undefined || foreign < best.foreign) best = { times, foreign };
    if (best.foreign <= FOREIGN_MAX) break;
  }
  return best;
}

async function runCell(cell, { ours, rivals }) {
  const taking = rivals.filter(({ batchMax }) => cell.batch <= batchMax);
  const list = [];
  for (let round = 0; round < rounds; round += 1) {
    list.push(await runQuietRound(cell, [ours, ...taking], round));
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

async function runTable(kind, { rows, dim }, cells) {
  const { table, vectors } = searchData(kind, { rows, dim, queries: QUERIES });
  const file = path.join(folder, "table.f32");
  writeFileSync(file, table);
  writeFileSync(file, vectors, { flag: "a" });
  const contenders = createContenders(threads);
  const { ours, rivals, obvious } = contenders;
  const data = { file, table, vectors, rows, dim };
  for (const contender of [ours, ...rivals]) await contender.load(data);
  const results = [];
  const limits = [readLimits()];
  for (const cell of cells) {
    const result = { kind, dim, rows, ...cell, ...(await runCell(cell, contenders)) };
    results.push(result);
    const best = fastestRival(result);
    const ratio = (best.ms / result.oursMs).toFixed(1);
    console.log(
      `${kind} dim ${dim} k ${cell.k} batch ${cell.batch}: ${result.oursMs.toFixed(2)} ms; ${best.name} ${best.ms.toFixed(1)} ms; ${ratio} x; others ${result.foreign.toFixed(2)} processors`,
    );
  }
  limits.push(readLimits());
  let jsMs;
  if (kind === "normal" && dim === 64 && rows >= 1e6) {
    await obvious.load(data);
    jsMs = (await timeOf(obvious, { batch: 1, k: 100 }, 0)).ms;
  }
  for (const contender of [ours, ...rivals, obvious]) await contender.close();
  return {
    kind,
    dim,
    rows,
    cells: results,
    device: contenders.device,
    loadMs: ours.loadMs,
    residentBytes: ours.residentBytes,
    jsMs,
    limits: {
      readGigabytes: Math.max(...limits.map((limit) => limit.readGigabytes)),
      int8Gigaops: Math.max(...limits.map((limit) => limit.int8Gigaops)),
    },
  };
}

const readLimits = compileLimits();
const rows = Number(options.rows);
const tables = [];
try {
  for (const dim of [64, 128]) {
    for (const kind of ["normal", "skewed"]) {
      tables.push(await runTable(kind, { rows, dim }, CELLS));
      globalThis.gc?.();
    }
  }
  const small = await runTable("normal", { rows: rows / 10, dim: 64 }, CELLS.slice(0, 3));
  const report = {
    machine: tables[0].device,
    tables,
    small,
    rounds,
    threads,
    jsMs: tables[0].jsMs,
    date: new Date().toISOString().slice(0, 10),
  };
  mkdirSync(options.output, { recursive: true });
  writeFileSync(path.join(options.output, "top-k.md"), toMarkdown(report));
  writeFileSync(path.join(options.output, "top-k.svg"), toSvg(report));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
