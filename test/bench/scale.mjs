// What does each worker more cost, and what does it bring? Starts clusters of 1 … 16 workers and one
// router on a small table (the demo) and a large one, asks over HTTP, and prints what each process cost
// per request, to start and while idle. The figures of CPU hold on a machine that others use too; rates
// and times do so only where `others` (processors that other programs kept busy) is near 0.
//
//   npm run bench:scale                                    everything, about fifteen minutes
//   … -- --workers 1,4 --tables small --only load          a part of it
//   … -- --against ../other                                two checkouts in turn: a change
//   … -- --out figures.json                                keeps figures: a run that is cut short goes on

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { measureCell, memberships } from "./scale-cell.mjs";
import { writeTable } from "./scale-models.mjs";
import { toMarkdown } from "./reports/scale-report.mjs";

const root = path.resolve(import.meta.dirname, "..", "..");
const options = scriptOptions({
  workers: { type: "string", default: "1,2,4,8,16" },
  tables: { type: "string", default: "small,large" },
  /** rows × values of a row. */
  small: { type: "string", default: "10000x32" },
  large: { type: "string", default: "1000000x64" },
  k: { type: "string", default: "10" },
  /** `start` is measured in any case; `redis` is `idle` once more, with members in Redis. */
  only: { type: "string", default: "start,idle,load,redis" },
  connections: { type: "string", default: "1,64" },
  seconds: { type: "string", default: "5" },
  /** Answers before anything is measured, and answers of one figure at least; up to six times `seconds`. */
  warm: { type: "string", default: "4000" },
  answers: { type: "string", default: "500" },
  /** V8 collects what a start left behind for half a minute. */
  settle: { type: "string", default: "45" },
  idle: { type: "string", default: "10" },
  threads: { type: "string", default: "1" },
  /** Workers say that they share this machine, as those of `winnow up` do: as few as possible are asked. */
  machine: { type: "string" },
  against: { type: "string" },
  models: { type: "string" },
  out: { type: "string" },
});
const only = options.only.split(",");
const settings = {
  only,
  connections: options.connections.split(",").map(Number),
  seconds: Number(options.seconds),
  warm: Number(options.warm),
  answers: Number(options.answers),
  settle: Number(options.settle),
  idle: Number(options.idle),
  workerArgs: [
    "--threads",
    options.threads,
    ...(options.machine === undefined ? [] : ["--machine", options.machine]),
  ],
};
// What a signal ends takes its processes along (local-processes.mjs).
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));
const say = (text) => process.stderr.write(`${text}\n`);

/** The commit of a checkout, with a `+` where its packages have changes. */
function labelOf(checkout) {
  const git = (...args) => execFileSync("git", ["-C", checkout, ...args], { encoding: "utf8" });
  try {
    const commit = git("rev-parse", "--short=7", "HEAD").trim();
    return git("status", "--porcelain", "-uno", "--", "packages").trim() === ""
      ? commit
      : `${commit}+`;
  } catch {
    return path.basename(checkout);
  }
}

function* cells(folder, tables) {
  const checkouts = [root, ...(options.against === undefined ? [] : [options.against])];
  const found = only.includes("redis") ? memberships() : ["list"];
  if (only.includes("redis") && !found.includes("redis")) say("no redis-server: left out");
  const sizes = options.workers.split(",").map(Number);
  for (const table of tables) {
    // What membership costs does not depend on the table.
    for (const membership of table === tables[0] ? found : ["list"]) {
      for (const workers of sizes) {
        for (const checkout of checkouts.map((each) => path.resolve(each))) {
          const label = labelOf(checkout);
          const name = `${table.table}, ${label}, ${membership}, ${workers} workers`;
          yield { name, folder, checkout, label, membership, workers, ...table };
        }
      }
    }
  }
}

async function writeTables(folder) {
  const tables = [];
  for (const name of options.tables.split(",")) {
    const [rows, dim] = options[name].split("x").map(Number);
    say(`writing the ${name} table, ${rows} × ${dim}`);
    const written = await writeTable(folder, { name, rows, dim, k: Number(options.k) });
    tables.push({ table: name, ...written });
  }
  return tables;
}

/** Figures of earlier runs, by the name of their cell. */
const figures =
  options.out !== undefined && existsSync(options.out)
    ? JSON.parse(readFileSync(options.out, "utf8"))
    : {};
const temporary = mkdtempSync(path.join(os.tmpdir(), "winnow-scale-"));
process.once("exit", () => rmSync(temporary, { recursive: true, force: true }));

const modelsFolder = options.models ?? temporary;
mkdirSync(modelsFolder, { recursive: true });
const tables = await writeTables(modelsFolder);
const shown = [];
for (const cell of cells(temporary, tables)) {
  if (figures[cell.name] === undefined) {
    const { table, label, membership, workers } = cell;
    const measured = await measureCell(cell, settings);
    figures[cell.name] = { table, label, membership, workers, ...measured };
    say(`${cell.name}: ready after ${measured.start.wallSeconds.toFixed(1)} s`);
    if (options.out !== undefined) {
      writeFileSync(options.out, `${JSON.stringify(figures, undefined, 1)}\n`);
    }
  }
  shown.push(figures[cell.name]);
}
process.stdout.write(
  `${os.cpus()[0].model.trim()}, ${os.availableParallelism()} processors, Node ${process.versions.node}; k = ${options.k}, ${options.threads} scan thread(s) a worker\n\n`,
);
process.stdout.write(toMarkdown(shown));
