// What a GPU does with Winnow's exact search: the device, its exactness, and a table of rows × batch
// with wall time and the device's own time by stage. Needs compiled packages (npm run build), the
// package webgpu beside this script or in the project, and a GPU; nothing else.
//
//   node packages/accelerator/scripts/gpu-bench.mjs [--rows 1e6,1e7] [--batches 1,8,64]
//        [--dim 64] [--k 100] [--slab-gib 1] [--software] [--adapter <part of a name>]
//
// Every line is one fact. A wrong answer ends the run with status 1.

import { register } from "node:module";
import process from "node:process";
import { parseArgs } from "node:util";

// Without an installed project, the one import of the compiled code is the package beside it, and
// webgpu lies where this script is.
const core = new URL("../../core/dist/index.js", import.meta.url).href;
register(
  `data:text/javascript,${encodeURIComponent(`
    export async function resolve(specifier, context, next) {
      try { return await next(specifier, context); }
      catch (error) {
        if (specifier === "@winnow/core") return { url: ${JSON.stringify(core)}, shortCircuit: true };
        if (specifier !== "webgpu") throw error;
        return next(specifier, { ...context, parentURL: ${JSON.stringify(import.meta.url)} });
      }
    }`)}`,
);

const dist = new URL("../dist/", import.meta.url);
const { openGpuDevice } = await import(new URL("gpu/device.js", dist).href);
const { createGpuAccelerator } = await import(new URL("gpu/accelerator.js", dist).href);
const { resolveGpuOptions } = await import(new URL("gpu/gpu-settings.js", dist).href);
const { canonicalScore, widenQueries } = await import(new URL("canonical-score.js", dist).href);

const { values: argument } = parseArgs({
  options: {
    rows: { type: "string", default: "1e6,1e7" },
    batches: { type: "string", default: "1,8,64,256" },
    dim: { type: "string", default: "64" },
    k: { type: "string", default: "100" },
    "slab-gib": { type: "string", default: "1" },
    seconds: { type: "string", default: "2" },
    software: { type: "boolean", default: false },
    adapter: { type: "string" },
  },
});
const numbers = (text) => text.split(",").map(Number);
const [dim, k, seconds] = [argument.dim, argument.k, argument.seconds].map(Number);
const say = (name, facts) => console.log(`${name}: ${JSON.stringify(facts)}`);

/** Normal values from a seed (xorshift128 and Box-Muller over a table), fast enough for 10^9 of them. */
function normalSource(seed) {
  const pool = new Float32Array(2 ** 20);
  let state = seed | 1;
  const random = () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  for (let index = 0; index < pool.length; index += 1) {
    pool[index] = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  }
  /** A vector of `length` values: a random window of the pool, each with its own scale. */
  return (target, at, length) => {
    const from = Math.floor(random() * (pool.length - length));
    const scale = 0.5 + random();
    for (let j = 0; j < length; j += 1) target[at + j] = pool[from + j] * scale;
  };
}

function* tableChunks(rows, seed) {
  const next = normalSource(seed);
  const chunkRows = 16_384;
  for (let from = 0; from < rows; from += chunkRows) {
    const count = Math.min(chunkRows, rows - from);
    const chunk = new Float32Array(count * dim);
    for (let row = 0; row < count; row += 1) next(chunk, row * dim, dim);
    yield chunk;
  }
}

function queries(count, seed) {
  const next = normalSource(seed);
  const vectors = new Float32Array(count * dim);
  for (let query = 0; query < count; query += 1) next(vectors, query * dim, dim);
  return vectors;
}

/** The k best of one query by scoring everything here. */
function bruteForce(rows, seed, vector) {
  const [query] = widenQueries(vector, dim);
  const scores = new Float32Array(rows);
  let row = 0;
  for (const chunk of tableChunks(rows, seed)) {
    for (let at = 0; at < chunk.length; at += dim) {
      scores[row] = canonicalScore(query, chunk, at);
      row += 1;
    }
  }
  return Array.from({ length: rows }, (_, index) => index)
    .toSorted((a, b) => scores[b] - scores[a] || a - b)
    .slice(0, k)
    .map((index) => [index, scores[index]]);
}

function checkExact(block, { rows, seed, vectors, checked }) {
  for (const query of checked) {
    const expected = bruteForce(rows, seed, vectors.subarray(query * dim, (query + 1) * dim));
    for (const [place, [row, score]] of expected.entries()) {
      const at = query * block.k + place;
      if (block.rows[at] === row && Object.is(block.scores[at], score)) continue;
      const found = `row ${block.rows[at]} (${block.scores[at]})`;
      throw new Error(`query ${query}, place ${place}: ${found} is not row ${row} (${score})`);
    }
  }
}

const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const rounded = (value) => Number(value.toPrecision(4));

async function measure(accelerator, resident, { batch, costs }) {
  const vectors = queries(batch, 77 + batch);
  const search = () => accelerator.topK({ residents: [resident], vectors, k });
  for (let turn = 0; turn < 3; turn += 1) await search();
  const [wall, stages] = [[], []];
  const end = performance.now() + seconds * 1000;
  while (wall.length < 5 || performance.now() < end) {
    costs.length = 0;
    const start = performance.now();
    await search();
    wall.push(performance.now() - start);
    stages.push(costs[0].stageNs ?? {});
    if (wall.length >= 1000) break;
  }
  const stageMs = Object.fromEntries(
    Object.keys(stages[0]).map((stage) => [
      stage,
      rounded(median(stages.map((ns) => ns[stage])) / 1e6),
    ]),
  );
  const { keptGroups, finalists, filteredQueries } = costs[0];
  return {
    rows: resident.rows,
    dim,
    k,
    batch,
    runs: wall.length,
    wallMs: rounded(median(wall)),
    wallMsBest: rounded(Math.min(...wall)),
    queriesPerSecond: Math.round((batch * 1000) / median(wall)),
    deviceMs: rounded(Object.values(stageMs).reduce((sum, ms) => sum + ms, 0)),
    stageMs,
    filteredQueries,
    keptGroupsPerQuery: rounded(keptGroups / batch),
    finalistsPerQuery: rounded(finalists / batch),
  };
}

async function main() {
  const options = {
    capacityBytes: 2 ** 53,
    allowSoftware: argument.software,
    adapterName: argument.adapter,
    slabBytesMax: Math.floor(Number(argument["slab-gib"]) * 2 ** 30),
    isTimed: true,
  };
  const device = await openGpuDevice(resolveGpuOptions(options));
  const { limits } = device;
  say("device", { name: device.name, node: process.version, isTimed: device.isTimed });
  say("limits", {
    maxBufferSize: limits.maxBufferSize,
    maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
    maxStorageBuffersPerShaderStage: limits.maxStorageBuffersPerShaderStage,
    maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
  });
  const costs = [];
  const accelerator = createGpuAccelerator(device, {
    ...options,
    ownsDevice: true,
    onSearch: (cost) => costs.push(cost),
  });
  for (const rows of numbers(argument.rows)) {
    const shape = { rows, dim, firstRow: 0, use: "search" };
    const start = performance.now();
    const resident = await accelerator.load(shape, tableChunks(rows, rows));
    const loadSeconds = rounded((performance.now() - start) / 1000);
    say("load", { rows, dim, bytes: resident.bytes, loadSeconds });
    const vectors = queries(8, 5);
    const block = await accelerator.topK({ residents: [resident], vectors, k });
    const checked = rows <= 2e6 ? [0, 3, 7] : [3];
    checkExact(block, { rows, seed: rows, vectors, checked });
    say("exact", { rows, queriesChecked: checked.length });
    for (const batch of numbers(argument.batches)) {
      say("search", await measure(accelerator, resident, { batch, costs }));
    }
    await accelerator.release(resident);
  }
  await accelerator.close();
}

await main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
