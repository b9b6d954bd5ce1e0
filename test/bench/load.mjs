// How fast does a worker load a table, beside what disk and memory could do? The rows go the whole way:
// file → reader thread → compute thread → codes on the device. Writes docs/benchmarks/load.md.
//
//   npm run bench:load                            half a minute
//   … -- --resume /tmp/figures                    keeps the table for the next run

import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { loadNativeAddon } from "../../packages/accelerator/dist/cpu/native-addon.js";
import { silentLogger } from "../../packages/core/dist/index.js";
import { openModelVersion } from "../../packages/model/dist/index.js";
import { startComputeThread } from "../../packages/worker/dist/compute/compute-start.js";
import { benchFolder } from "./bench-folder.mjs";
import { watchForeignLoad } from "./foreign-load.mjs";
import { compileLimits, compileProgram } from "./machine-limits.mjs";
import { writeFigures } from "./report-file.mjs";
import { writeModel } from "./stream-worker.mjs";

const root = path.resolve(import.meta.dirname, "..", "..");
const { values: options } = parseArgs({
  options: {
    rows: { type: "string", default: "1000000" },
    dim: { type: "string", default: "64" },
    rounds: { type: "string", default: "3" },
    output: { type: "string", default: path.join(root, "docs", "benchmarks") },
    resume: { type: "string" },
  },
});
const rows = Number(options.rows);
const dim = Number(options.dim);
const rounds = Number(options.rounds);
const threads = os.availableParallelism();
const NAME = { model: "items", version: 1 };
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** Milliseconds for all partitions, so many at once; a worker loads one after the other. */
async function wholeLoad(directory, atOnce) {
  const device = { kind: "cpu", capacityBytes: 16 * 2 ** 30, threads };
  const compute = await startComputeThread({ device, exclusionBytesMax: 2 ** 20 }, silentLogger);
  const { tables } = await compute.open(NAME, directory);
  const table = tables.findIndex(({ kind }) => kind === "candidate");
  const start = performance.now();
  let next = 0;
  const loadRest = async () => {
    while (next < tables[table].partitions) {
      const partition = next;
      next += 1;
      await compute.load({ ...NAME, table, partition });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loadRest));
  const elapsedMs = performance.now() - start;
  await compute.shutdown();
  return elapsedMs;
}

/** Milliseconds of each step alone, on one thread. */
async function steps(directory) {
  const { addon, reason } = loadNativeAddon();
  if (addon === undefined) throw new Error(reason);
  const version = openModelVersion(directory);
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
    const chunks = reader.chunks()[Symbol.iterator]();
    for (;;) {
      const next = timed("read", () => chunks.next());
      if (next.done) break;
      timed("take", () => addon.appendRows(native, next.value));
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
  const readLimits = compileLimits(store.folder, threads);
  const turns = [];
  for (let round = 0; round < rounds; round += 1) {
    const disk = JSON.parse(execFileSync(diskRead, [file], { encoding: "utf8" }));
    const limits = { ...readLimits(), ...disk };
    const foreignSince = watchForeignLoad([]);
    // The disk was read to its end a moment ago: loads find the file in memory.
    const loadMs = await wholeLoad(directory, 1);
    const pairMs = await wholeLoad(directory, 2);
    const spent = await steps(directory);
    turns.push({ ...limits, loadMs, pairMs, ...spent, foreign: foreignSince() });
  }
  const of = (name) => median(turns.map((turn) => turn[name]));
  const megabytes = (rows * dim * 4) / 1e6;
  const rate = (ms) => `${(megabytes / (ms / 1000)).toFixed(0)} MB/s`;
  const slower = Math.min(of("coldMegabytes"), of("copyGigabytes") * 1000);
  const load = megabytes / (of("loadMs") / 1000);
  const lines = [
    ["disk, after the system forgot the file", "", `${of("coldMegabytes").toFixed(0)} MB/s`],
    ["the same file again, from memory", "", `${of("warmMegabytes").toFixed(0)} MB/s`],
    ["memory copy, one thread", "", `${(of("copyGigabytes") * 1000).toFixed(0)} MB/s`],
    ["**load**, file in memory", `${of("loadMs").toFixed(0)} ms`, `**${load.toFixed(0)} MB/s**`],
    ["the same, two partitions at once", `${of("pairMs").toFixed(0)} ms`, rate(of("pairMs"))],
    ...[
      ["ids", "step: ids of each partition"],
      ["read", "step: read, test for finite values, checksum"],
      ["take", "step: copy into the table, test again"],
      ["build", "step: norms, sort, codes, bounds"],
    ].map(([name, text]) => [text, `${of(name).toFixed(0)} ms`, rate(of(name))]),
  ];
  const markdown = [
    `${new Date().toISOString().slice(0, 10)}, ${os.cpus()[0].model.trim()}, ${threads} processors, Node ${process.versions.node}: ${rows.toLocaleString("en")} × ${dim}`,
    `float32 rows (${megabytes.toFixed(0)} MB) with string ids in 16 partitions, medians of ${rounds} rounds; others kept`,
    `${of("foreign").toFixed(2)} processors busy. Made by \`npm run bench:load -- --rounds ${rounds}\`.`,
    "",
    "| what | time | rows' bytes per second |",
    "| --- | --- | --- |",
    ...lines.map((line) => `| ${line.join(" | ")} |`),
    "",
    `Half of the slower of disk and memory copy is ${(slower / 2).toFixed(0)} MB/s; loading reaches ${Math.round((100 * load) / slower)} % of the slower one.`,
  ].join("\n");
  mkdirSync(options.output, { recursive: true });
  writeFigures(path.join(options.output, "load.md"), markdown);
  console.log(markdown);
} finally {
  store.close();
}
