// How fast does a worker load a table, beside what disk and memory could do? The rows go the whole way:
// file → reader thread → compute thread → codes on the device. Writes docs/benchmarks/load.md.
//
//   npm run bench:load                            a minute or two
//   … -- --resume /tmp/figures                    keeps the table for the next run

import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { loadNativeAddon } from "../../packages/accelerator/dist/cpu/native-addon.js";
import { createRowChecks } from "../../packages/accelerator/dist/index.js";
import { openModelVersion } from "../../packages/model/dist/index.js";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { benchFolder } from "./bench-folder.mjs";
import { watchForeignLoad } from "./machine/foreign-load.mjs";
import { loadAll, openCompute, releaseAll, searchesBesideLoad } from "./load-runs.mjs";
import { compileLimits, compileProgram } from "./machine/machine-limits.mjs";
import { writeFigures } from "./reports/report-file.mjs";
import { writeModel } from "./stream-worker.mjs";

/** As many as a worker has under way (packages/worker/src/replicas/plan/replica-jobs.ts). */
const LOADS_AT_ONCE = 2;
const root = path.resolve(import.meta.dirname, "..", "..");
const options = scriptOptions({
  rows: { type: "string", default: "1000000" },
  dim: { type: "string", default: "64" },
  rounds: { type: "string", default: "3" },
  output: { type: "string", default: path.join(root, "docs", "benchmarks") },
  resume: { type: "string" },
});
const rows = Number(options.rows);
const dim = Number(options.dim);
const rounds = Number(options.rounds);
const threads = os.availableParallelism();
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];
const percentile = (values, part) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))];

/** Milliseconds of loads on a fresh thread: the first, and others into memory just given back. */
async function loads(directory, vectors) {
  const opened = await openCompute(directory, threads);
  const firstMs = await loadAll(opened, LOADS_AT_ONCE);
  await releaseAll(opened);
  const serialMs = await loadAll(opened, 1);
  await releaseAll(opened);
  const againMs = await loadAll(opened, LOADS_AT_ONCE);
  const searches = [];
  for (let turn = 0; turn < 3; turn += 1) {
    searches.push(await searchesBesideLoad(opened, vectors, LOADS_AT_ONCE));
  }
  await opened.compute.shutdown();
  return { firstMs, serialMs, againMs, searches, partitions: opened.partitions };
}

/** Milliseconds of each step alone, on one thread. */
async function steps(directory) {
  const { addon, reason } = loadNativeAddon();
  if (addon === undefined) throw new Error(reason);
  const version = openModelVersion(directory, { checks: createRowChecks() });
  const table = version.program.tables.findIndex(({ kind }) => kind === "candidate");
  const spent = { ids: 0, read: 0, take: 0, build: 0 };
  const timed = (step, run) => {
    const start = performance.now();
    const value = run();
    spent[step] += performance.now() - start;
    return value;
  };
  for (let part = 0; part < version.program.tables[table].partitions; part += 1) {
    const reader = timed("ids", () => version.openPartition(table, part));
    const native = addon.createTable(reader.rows, reader.dim, reader.firstRow, true);
    const chunks = reader.chunks();
    let next = timed("read", () => chunks.next());
    while (next.done !== true) {
      const chunk = next.value;
      const start = performance.now();
      await addon.appendRows(native, chunk);
      spent.take += performance.now() - start;
      next = timed("read", () => chunks.next(chunk));
    }
    const start = performance.now();
    await addon.buildTable(native);
    spent.build += performance.now() - start;
    addon.releaseTable(native);
  }
  version.close();
  return spent;
}

const store = benchFolder(options.resume);
try {
  const data = store.data("normal", { rows, dim });
  const folder = path.join(store.folder, `normal-${rows}x${dim}`);
  const directory = path.join(writeModel(folder, { ...data, k: 100 }), "1");
  const file = path.join(directory, "variables", "variables.data-00000-of-00001");
  const diskRead = compileProgram(store.folder, "disk-read");
  const freshMemory = compileProgram(store.folder, "fresh-memory");
  const readLimits = compileLimits(store.folder, threads);
  const asJson = (program, argument) =>
    JSON.parse(execFileSync(program, [argument], { encoding: "utf8" }));
  const vectors = { values: data.vectors, dim, count: data.vectors.length / dim };
  const turns = [];
  for (let round = 0; round < rounds; round += 1) {
    const memory = asJson(freshMemory, String(rows * dim * 4));
    const limits = { ...readLimits(), ...memory, ...asJson(diskRead, file) };
    const foreignSince = watchForeignLoad([]);
    // The disk was read to its end a moment ago: loads find the file in memory.
    const timed = await loads(directory, vectors);
    const spent = await steps(directory);
    turns.push({ ...limits, ...timed, ...spent, foreign: foreignSince() });
  }
  const of = (name) => median(turns.map((turn) => turn[name]));
  const least = (name) => Math.min(...turns.map((turn) => turn[name]));
  const megabytes = (rows * dim * 4) / 1e6;
  const rateOf = (ms) => megabytes / (ms / 1000);
  const timeRow = (name, text) => [
    text,
    `${of(name).toFixed(0)} ms`,
    `${rateOf(of(name)).toFixed(0)} MB/s`,
    `${least(name).toFixed(0)} ms`,
    `${rateOf(least(name)).toFixed(0)} MB/s`,
  ];
  const most = (name) => Math.max(...turns.map((turn) => turn[name]));
  const rateRow = (text, name, unit = 1) => [
    text,
    "",
    `${(of(name) * unit).toFixed(0)} MB/s`,
    "",
    `${(most(name) * unit).toFixed(0)} MB/s`,
  ];
  const copy = of("copyGigabytes") * 1000;
  const slower = Math.min(of("coldMegabytes"), copy);
  const lines = [
    rateRow("disk, after the system forgot the file", "coldMegabytes"),
    rateRow("the same file again, from memory", "warmMegabytes"),
    rateRow("memory copy, one thread", "copyGigabytes", 1000),
    rateRow("memory copy into memory the system grants for it", "freshMegabytes"),
    rateRow("the same into memory given back a moment ago", "againMegabytes"),
    timeRow("firstMs", "**load** of a fresh thread, file in memory"),
    timeRow("againMs", "**load** into memory given back a moment ago"),
    timeRow("serialMs", "the same, one partition after the other"),
    timeRow("ids", "step: ids of each partition"),
    timeRow("read", "step: read, test for finite values, checksum"),
    timeRow("take", "step: copy into the table, test again"),
    timeRow("build", "step: norms, sort, codes, bounds"),
  ];
  const searches = turns.flatMap((turn) => turn.searches);
  const latencyRow = (text, times) => [
    text,
    String(times.length),
    ...[0.5, 0.9, 0.99].map((part) => `${percentile(times, part).toFixed(1)} ms`),
  ];
  const latencies = [
    latencyRow(
      "nothing else to do",
      searches.flatMap(({ alone }) => alone),
    ),
    latencyRow(
      "the same table is loaded beside",
      searches.flatMap(({ beside }) => beside),
    ),
  ];
  const share = (name) => Math.round((100 * rateOf(of(name))) / slower);
  const asTable = (head, all) =>
    [head, head.map(() => "---"), ...all].map((line) => `| ${line.join(" | ")} |`);
  const markdown = [
    `${new Date().toISOString().slice(0, 10)}, ${os.cpus()[0].model.trim()}, ${threads} processors, Node ${process.versions.node}: ${rows.toLocaleString("en")} × ${dim}`,
    `float32 rows (${megabytes.toFixed(0)} MB) with string ids in ${of("partitions")} partition${of("partitions") === 1 ? "" : "s"}, ${LOADS_AT_ONCE} at a time, medians of`,
    `${rounds} rounds and the fastest of them; others kept ${of("foreign").toFixed(2)} processors busy. Made by`,
    `\`npm run bench:load -- --rows ${rows} --dim ${dim} --rounds ${rounds}\`.`,
    "",
    ...asTable(["what", "median", "rows' bytes", "fastest", "rows' bytes"], lines),
    "",
    `Half of the slower of disk and memory copy is ${(slower / 2).toFixed(0)} MB/s. The first load reaches ${share("firstMs")} % of the`,
    `slower one, a load into memory given back a moment ago ${share("againMs")} %.`,
    "",
    `Searches of one query, k = 100, on the table that is held, 5 ms after the one before has ended; a load`,
    `beside them takes ${median(searches.map(({ loadMs }) => loadMs)).toFixed(0)} ms:`,
    "",
    ...asTable(["while", "searches", "median", "90 %", "99 %"], latencies),
  ].join("\n");
  mkdirSync(options.output, { recursive: true });
  writeFigures(path.join(options.output, "load.md"), markdown);
  console.log(markdown);
} finally {
  store.close();
}
