// What a GPU does with Winnow's exact search, in one run with a limit of time: the device, what it can
// do at most, searches over rows × dim × batch with their answers checked bit for bit, a search
// under a mask, PyTorch beside it, and Dawn's switches. A cell that fails is recorded and the run goes
// on; a wrong answer ends it with status 1. Needs compiled packages, webgpu, and a GPU; nothing else.

import { mkdirSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { measureCeilings } from "./gpu-bench/ceilings.mjs";
import { listGpus, openGpuDevice, resolveGpuOptions } from "./gpu-bench/compiled-code.mjs";
import { rounded, writeWhole } from "./gpu-bench/figures.mjs";
import { markdownOf } from "./gpu-bench/report.mjs";
import { loadTable, measureCell, openBench } from "./gpu-bench/search-cells.mjs";
import { scriptOptions } from "./script-options.mjs";
import { startTorch } from "./gpu-bench/torch-contender.mjs";

const HELP = `gpu-bench.mjs: what a GPU does with Winnow's exact search

  --rows 1e6,1e7,1e8       rows of the tables
  --dims 64,128            values per row
  --batches 1,8,64,256,1024
  --k 100                  rows per answer
  --masked 15500000x128    table of the search under a mask; "" leaves it out
  --masked-k 2000          rows per answer there
  --masked-share 0.11      share of the rows its mask admits
  --minutes 25             ends in about so long; what finds no time is recorded as skipped
  --seconds-in-all <n>     the same in seconds
  --seconds 2              longest time of a cell
  --ceiling-mib 1024       memory that is read to measure its speed
  --toggles                also measures Dawn's switches, and lists what experimental ones show
  --software               takes a device that only pretends to be a GPU
  --adapter <name>         takes the GPU with this in its name
  --slab-gib 4             one buffer of rows at most
  --out <folder>           where the results go; default: test/bench/results

WINNOW_BENCH_PYTHON=<python with torch> measures PyTorch's matmul and topk in the same run.
Progress goes to stderr, the names of the written files (JSON, Markdown) to stdout.`;

const OUT = fileURLToPath(new URL("../../../test/bench/results", import.meta.url));
const argument = scriptOptions(
  {
    rows: { type: "string", default: "1e6,1e7,1e8" },
    dims: { type: "string", default: "64,128" },
    batches: { type: "string", default: "1,8,64,256,1024" },
    k: { type: "string", default: "100" },
    masked: { type: "string", default: "15500000x128" },
    "masked-k": { type: "string", default: "2000" },
    "masked-share": { type: "string", default: "0.11" },
    minutes: { type: "string", default: "25" },
    "seconds-in-all": { type: "string" },
    seconds: { type: "string", default: "2" },
    "ceiling-mib": { type: "string", default: "1024" },
    "slab-gib": { type: "string", default: "4" },
    toggles: { type: "boolean", default: false },
    software: { type: "boolean", default: false },
    adapter: { type: "string" },
    out: { type: "string", default: OUT },
  },
  HELP,
);

const startMs = performance.now();
const secondsInAll = Number(argument["seconds-in-all"] ?? Number(argument.minutes) * 60);
const endMs = startMs + secondsInAll * 1000;
/** Seconds until then. */
const secondsLeft = () => (endMs - performance.now()) / 1000;
const numbers = (text) => text.split(",").map(Number);
const batches = numbers(argument.batches);
const k = Number(argument.k);
const seconds = Number(argument.seconds);
const options = {
  allowSoftware: argument.software,
  adapterName: argument.adapter,
  slabBytesMax: Math.floor(Number(argument["slab-gib"]) * 2 ** 30),
};
const results = {
  about: {},
  survey: { gpus: [] },
  ceilings: undefined,
  tables: [],
  cells: [],
  masked: [],
  rivals: { about: "not asked for", cells: [] },
  toggles: [],
  experiments: [],
};

const minutes = () => rounded((performance.now() - startMs) / 60_000);
const say = (what) => process.stderr.write(`${minutes().toFixed(1)} min  ${what}\n`);
const brief = (cell) =>
  cell.wallMs === undefined
    ? JSON.stringify(cell)
    : `${cell.wallMs} ms (device ${cell.deviceMs ?? "?"})`;

/** What `work` gives, or why it gave nothing: one failure must not end the run. */
async function kept(cell, work) {
  if (performance.now() > endMs) return { ...cell, skipped: "no time left" };
  try {
    return await work();
  } catch (error) {
    return { ...cell, error: `${error.code ?? error.name}: ${error.message}`.slice(0, 500) };
  }
}

/** Seconds per value that the last table took to come onto the device. */
let secondsPerValue = 0;

async function withTable(bench, { shape, ...asked }, measure) {
  const guess = shape.rows * shape.dim * secondsPerValue * 1000;
  if (performance.now() + guess > endMs) {
    results.tables.push({
      ...shape,
      skipped: `no time to load (about ${Math.round(guess / 1000)} s)`,
    });
    return;
  }
  say(`load ${shape.rows} × ${shape.dim}`);
  const began = performance.now();
  const loaded = await kept(shape, async () => {
    const table = await loadTable(bench, shape, asked);
    secondsPerValue = (performance.now() - began) / 1000 / (shape.rows * shape.dim);
    results.tables.push(table.loaded);
    await measure(table);
    await bench.accelerator.release(table.resident);
  });
  if (loaded !== undefined) results.tables.push(loaded);
}

async function grid(bench, torch) {
  for (const rows of numbers(argument.rows)) {
    for (const dim of numbers(argument.dims)) {
      await withTable(
        bench,
        { shape: { rows, dim }, queriesMax: Math.max(...batches), k },
        async (table) => {
          for (const batch of batches) {
            const plan = { batch, k, seconds, endMs, ceilings: results.ceilings };
            const cell = await kept({ rows, dim, k, batch }, () => measureCell(bench, table, plan));
            results.cells.push(cell);
            say(`search ${rows} × ${dim}, batch ${batch}: ${brief(cell)}`);
            write();
          }
        },
      );
      for (const batch of batches) await rival(torch, { rows, dim, batch, k });
      await torch?.ask({ free: true });
      write();
    }
  }
}

/** One query over a table of which a mask admits some rows. */
async function maskedSearch(bench, torch) {
  if (argument.masked === "") return;
  const [rows, dim] = argument.masked.split("x").map(Number);
  const share = Number(argument["masked-share"]);
  const maskedK = Number(argument["masked-k"]);
  await withTable(
    bench,
    { shape: { rows, dim }, queriesMax: 1, k: maskedK, share },
    async (table) => {
      const plan = { batch: 1, k: maskedK, seconds, endMs, ceilings: results.ceilings };
      const name = { rows, dim, k: maskedK, batch: 1 };
      const cell = await kept(name, () => measureCell(bench, table, plan));
      results.masked.push({ ...cell, share });
      say(`search under a mask: ${brief(cell)}`);
    },
  );
  await rival(torch, { rows, dim, batch: 1, k: maskedK, share });
  await torch?.ask({ free: true });
  write();
}

async function rival(torch, asked) {
  if (torch === undefined) return;
  for (const dtype of ["float32", "float16"]) {
    const question = { ...asked, dtype, seconds };
    const cell = await kept(question, async () => ({
      ...question,
      ...(await torch.ask(question, Math.max(1, Math.min(60, secondsLeft())))),
    }));
    results.rivals.cells.push(cell);
    write();
    say(`PyTorch ${dtype} ${asked.rows} × ${asked.dim}, batch ${asked.batch}: ${brief(cell)}`);
  }
}

const TOGGLES = {
  "none (as a worker runs)": {},
  skip_validation: { enabledToggles: ["skip_validation"] },
  disable_robustness: { enabledToggles: ["disable_robustness"] },
  both: { enabledToggles: ["skip_validation", "disable_robustness"] },
  "no subgroups": { usesSubgroups: false },
  "no matrix units": { usesMatrixUnits: false },
};

async function toggles() {
  const [rows] = numbers(argument.rows);
  const [dim] = numbers(argument.dims);
  const tried = batches.filter((batch) => batch <= 64);
  for (const [name, switches] of Object.entries(TOGGLES)) {
    const failed = await kept({ name }, async () => {
      const bench = await openBench({ ...options, ...switches });
      const table = await loadTable(bench, { rows, dim }, { k, queriesMax: Math.max(...tried) });
      for (const batch of tried) {
        const plan = { batch, k, seconds, endMs, ceilings: results.ceilings };
        const cell = await kept({ rows, dim, k, batch }, () => measureCell(bench, table, plan));
        results.toggles.push({ name, ...cell });
        write();
        say(`switches ${name}, batch ${batch}: ${brief(cell)}`);
      }
      await bench.accelerator.close();
    });
    if (failed !== undefined) results.toggles.push(failed);
  }
  const told = await kept({}, experiments);
  results.experiments.push(...(Array.isArray(told) ? told : [told.error ?? told.skipped]));
}

/** Which features appear behind experimental switches; no kernel uses them. */
async function experiments() {
  const device = await openGpuDevice(
    resolveGpuOptions({
      ...options,
      enabledToggles: ["allow_unsafe_apis", "vulkan_enable_f16_on_nvidia"],
      furtherFeatures: ["shader-f16", "chromium-experimental-subgroup-matrix"],
    }),
  );
  const { features, adapterInfo } = device.connection;
  const shapes = Array.from(adapterInfo?.subgroupMatrixConfigs ?? [], (config) => {
    const { componentType, resultComponentType, M, N, K } = config;
    return `${componentType} → ${resultComponentType} ${M}×${N}×${K}`;
  });
  const has = (name) => `${name}: ${features.has(name) ? "there" : "absent"}`;
  await device.close();
  return [
    has("shader-f16"),
    has("chromium-experimental-subgroup-matrix"),
    `subgroup matrix shapes: ${shapes.join(", ") || "none"}`,
  ];
}

function write() {
  const date = new Date().toISOString().slice(0, 10);
  const command = ["gpu-bench.mjs", ...process.argv.slice(2)].join(" ");
  Object.assign(results.about, { date, command, node: process.version, minutes: minutes() });
  const slug = String(results.about.device)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-");
  const name = path.join(argument.out, `${slug.slice(0, 60).replace(/-$/, "")}-${date}`);
  mkdirSync(argument.out, { recursive: true });
  writeWhole(`${name}.json`, results);
  writeWhole(`${name}.md`, markdownOf(results));
  return [`${name}.json`, `${name}.md`];
}

async function main() {
  say("look for GPUs");
  results.survey.gpus = await listGpus().catch(() => []);
  const bench = await openBench(options);
  results.about.device = bench.device.name;
  say(`device ${bench.device.name}`);
  const bytes = Number(argument["ceiling-mib"]) * 2 ** 20;
  const ceilings = await kept({}, () => measureCeilings(bench.device, bytes));
  say(`ceilings ${JSON.stringify(ceilings)}`);
  if (ceilings.readGbPerS !== undefined) results.ceilings = ceilings;
  else results.ceilingFault = ceilings.error ?? ceilings.skipped;
  const torch = await startTorch();
  if (torch !== undefined) {
    results.rivals.about = Object.values(torch.about).join(", ");
    say(`PyTorch: ${results.rivals.about}`);
  }
  write();
  if (argument.toggles) await toggles();
  await maskedSearch(bench, torch);
  await grid(bench, torch);
  torch?.close();
  const files = write();
  await bench.accelerator.close();
  console.log(files.join("\n"));
  const wrong = [...results.cells, ...results.masked, ...results.toggles].filter(
    ({ wrong: difference }) => difference !== undefined,
  );
  for (const cell of wrong) say(`WRONG: ${JSON.stringify(cell)}`);
  return wrong.length === 0 ? 0 : 1;
}

await main().then(
  (code) => process.exit(code),
  (error) => {
    console.error(error.code === undefined ? error : error.message);
    process.exit(1);
  },
);
