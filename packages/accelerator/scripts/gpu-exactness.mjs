// Searches by chance on a GPU, compared with the reference bit for bit until the time is up: tables of
// ties, of near ties and of norms that differ, any dim, k up to 2,000, masks, excluded rows, partitions
// over few slabs or many, several batches at once while other partitions come and go. Larger than the
// tests, for what only real hardware shows. The first difference ends it with status 1.
//
//   node gpu-exactness.mjs [--seconds 60] [--seed 1] [--small] [--out exactness.json]

import process from "node:process";
import {
  createGpuAccelerator,
  createReferenceAccelerator,
  gpuOptionsFromEnvironment,
  openGpuDevice,
  resolveGpuOptions,
} from "./gpu-bench/compiled-code.mjs";
import { writeWhole } from "./gpu-bench/figures.mjs";
import {
  blockDifference,
  filtersOf,
  randomSearch,
  randomShape,
} from "./gpu-bench/random-searches.mjs";
import { xorshift } from "./gpu-bench/rows.mjs";
import { scriptOptions } from "./script-options.mjs";

const argument = scriptOptions({
  seconds: { type: "string", default: "60" },
  seed: { type: "string", default: "1" },
  small: { type: "boolean", default: false },
  out: { type: "string" },
});
const endMs = performance.now() + Number(argument.seconds) * 1000;
const random = xorshift(Number(argument.seed) * 7919);
const device = await openGpuDevice(resolveGpuOptions(gpuOptionsFromEnvironment()));
const costs = [];
const onSearch = (cost) => costs.push(cost);
const results = {
  device: device.name,
  date: new Date().toISOString(),
  command: ["gpu-exactness.mjs", ...process.argv.slice(2)].join(" "),
  searches: 0,
  queriesCompared: 0,
  queriesByRoad: { filtered: 0, exact: 0, host: 0 },
  cases: [],
  wrong: undefined,
};

function write() {
  if (argument.out !== undefined) writeWhole(argument.out, results);
}

/** Loads a table in parts, one after the other. */
async function loadParts(accelerator, { table, dim, parts }) {
  const rows = table.length / dim;
  const residents = [];
  for (let part = 0; part < parts; part += 1) {
    const [first, end] = [part, part + 1].map((at) => Math.floor((at * rows) / parts));
    const shape = { rows: end - first, dim, firstRow: first, use: "search" };
    residents.push(await accelerator.load(shape, [table.subarray(first * dim, end * dim)]));
  }
  return residents;
}

/** One table: batches at once, while a partition of another is loaded and released. */
async function tryShape(shape) {
  const capacityBytes = 2 ** 34;
  const { slabBytesMax } = shape;
  const accelerator = createGpuAccelerator(device, { capacityBytes, slabBytesMax, onSearch });
  const reference = createReferenceAccelerator({ capacityBytes });
  const { table, batches } = randomSearch(shape, random);
  const residents = await loadParts(accelerator, { ...shape, table });
  const known = await loadParts(reference, { ...shape, table, parts: 1 });
  const stranger = { rows: 1000, dim: shape.dim, firstRow: 0, use: "search" };
  const comesAndGoes = accelerator
    .load(stranger, [new Float32Array(1000 * shape.dim).fill(0.5)])
    .then((resident) => accelerator.release(resident));
  const answers = await Promise.all(
    batches.map((query) => {
      const filters = filtersOf(accelerator, residents, query);
      return accelerator.topK({ ...query, residents, filters });
    }),
  );
  await comesAndGoes;
  let difference;
  for (const [at, query] of batches.entries()) {
    const some = {
      ...query,
      residents: known,
      vectors: query.vectors.subarray(0, shape.compared * shape.dim),
      excludedRows: query.excludedRows?.slice(0, shape.compared),
    };
    const filters = filtersOf(reference, known, some);
    difference ??= blockDifference(answers[at], await reference.topK({ ...some, filters }));
  }
  await accelerator.close();
  results.searches += batches.length;
  results.queriesCompared += batches.length * shape.compared;
  results.cases.push(shape);
  return difference;
}

do {
  const shape = randomShape(random, { isSmall: argument.small });
  const difference = await tryShape(shape).catch((error) => String(error.stack ?? error));
  if (difference !== undefined) results.wrong = { ...shape, difference };
  for (const { filteredQueries, exactQueries, hostQueries } of costs.splice(0)) {
    results.queriesByRoad.filtered += filteredQueries;
    results.queriesByRoad.exact += exactQueries;
    results.queriesByRoad.host += hostQueries;
  }
  write();
} while (performance.now() < endMs && results.wrong === undefined);
const { searches, queriesCompared, queriesByRoad, wrong } = results;
console.log(`${searches} searches, ${queriesCompared} queries compared, by road:`, queriesByRoad);
console.log(wrong === undefined ? "no difference" : `WRONG: ${JSON.stringify(wrong)}`);
process.exit(wrong === undefined ? 0 : 1);
