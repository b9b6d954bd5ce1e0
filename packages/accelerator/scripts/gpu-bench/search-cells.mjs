// The searches of the benchmark: a table is loaded once, then each batch is checked against the
// reference and measured: time on the host's clock, time on the device's own, stage by stage.

import { createGpuAccelerator, openGpuDevice, resolveGpuOptions } from "./compiled-code.mjs";
import { median, rounded } from "./figures.mjs";
import { differenceOf, passingTable, queryVectors, randomMask } from "./rows.mjs";

const RUNS_LEAST = 3;
const RUNS_MOST = 1000;
/** Before the first measurement of a table: a GPU that has waited for its rows has slowed its clock down, which one in software has not. */
const WARM_MS = 1000;

/** An accelerator on a device of its own, and what its searches cost. */
export async function openBench(options) {
  const device = await openGpuDevice(resolveGpuOptions({ ...options, isTimed: true }));
  const costs = [];
  const accelerator = createGpuAccelerator(device, {
    ...options,
    capacityBytes: 2 ** 53,
    ownsDevice: true,
    isTimed: true,
    onSearch: (cost) => costs.push(cost),
  });
  return { device, accelerator, costs };
}

/** Queries that are compared with the reference: fewer where that takes long. */
const checkedQueries = ({ rows, dim }) => (rows * dim > 2e9 ? 1 : 2);

/** A loaded table with the reference's answers; `share` is of the rows that a mask admits, if there is one. */
export async function loadTable(
  { accelerator },
  shape,
  /** @type {any} */ { k, queriesMax, share },
) {
  const { rows, dim } = shape;
  const vectors = queryVectors(queriesMax, dim);
  const admittedRows = share === undefined ? undefined : randomMask(rows, share);
  const checked = Math.min(queriesMax, checkedQueries(shape));
  const passing = passingTable(shape, { k, vectors, checked, admittedRows });
  const start = performance.now();
  const wanted = { rows, dim, firstRow: 0, use: "search" };
  const resident = await accelerator.load(wanted, passing.chunks);
  const seconds = (performance.now() - start) / 1000;
  const loaded = {
    rows,
    dim,
    bytes: resident.bytes,
    loadSeconds: rounded(seconds - passing.hostMs / 1000),
    generateSeconds: rounded(passing.hostMs / 1000),
  };
  const filters = admittedRows && [accelerator.filter(resident, admittedRows)];
  return { resident, vectors, filters, answers: passing.answers(), loaded };
}

/** The least this search takes: the codes read once, the products of all queries. */
function floorOf({ rows, dim, batch }, ceilings) {
  if (ceilings === undefined) return {};
  const readMs = (rows * dim) / (ceilings.readGbPerS * 1e6);
  const productMs = (2 * rows * dim * batch) / (ceilings.dp4aTops * 1e9);
  return { readMs: rounded(readMs), productMs: rounded(productMs) };
}

/** Calls `search` for some time; what it took each time. */
async function repeat(search, /** @type {any} */ { costs, seconds, endMs }) {
  const wall = [];
  const stages = [];
  const stop = Math.min(performance.now() + seconds * 1000, endMs);
  while (wall.length < RUNS_LEAST || (performance.now() < stop && wall.length < RUNS_MOST)) {
    costs.length = 0;
    const start = performance.now();
    await search();
    wall.push(performance.now() - start);
    stages.push(costs[0]?.stageNs ?? {});
  }
  return { wall, stages };
}

/**
 * The stages' timestamps, which cost a little; then the wall time without them; then that of a batch where
 * two are under way, as a worker sends them: one is prepared or read while the other computes.
 */
async function turns(search, { device, ...plan }) {
  const { isTimed } = device;
  const { stages } = await repeat(search, { ...plan, seconds: plan.seconds / 2 });
  device.isTimed = false;
  const { wall } = await repeat(search, { ...plan, seconds: plan.seconds / 2 });
  const both = () => Promise.all([search(), search()]);
  const pairs = await repeat(both, { ...plan, seconds: plan.seconds / 4 });
  device.isTimed = isTimed;
  const stageMs = Object.fromEntries(
    Object.keys(stages[0]).map((stage) => [
      stage,
      rounded(median(stages.map((ns) => ns[stage])) / 1e6),
    ]),
  );
  return { wall, pairMs: median(pairs.wall) / 2, stageMs };
}

/** One cell: exactness first, then the time. @throws Error if the answer is wrong */
export async function measureCell(bench, table, { batch, k, seconds, endMs, ceilings }) {
  const { accelerator, costs, device } = bench;
  const { resident, answers } = table;
  const { rows, dim } = resident;
  const vectors = table.vectors.subarray(0, batch * dim);
  const filters = table.filters && Array.from({ length: batch }, () => table.filters);
  const search = () => accelerator.topK({ residents: [resident], vectors, k, filters });
  const checked = answers.slice(0, batch);
  const difference = differenceOf(await search(), checked);
  const cell = { rows, dim, k, batch };
  if (difference !== undefined) return { ...cell, wrong: difference };
  const warmMs = device.isSoftware ? 0 : WARM_MS;
  if (!table.isWarm) await repeat(search, { costs, seconds: warmMs / 1000, endMs });
  table.isWarm = true;
  const { wall, pairMs, stageMs } = await turns(search, { device, costs, seconds, endMs });
  const deviceMs = Object.values(stageMs).reduce((sum, ms) => sum + ms, 0);
  const floor = floorOf(cell, ceilings);
  const scanMs = stageMs.scan ?? 0;
  const { filteredQueries, keptGroups, scoredRows, matrixQueries } = costs[0];
  return {
    ...cell,
    exactQueries: checked.length,
    runs: wall.length,
    wallMs: rounded(median(wall)),
    wallMsBest: rounded(Math.min(...wall)),
    wallMsOfTwoAtOnce: rounded(pairMs),
    queriesPerSecond: Math.round((batch * 1000) / median(wall)),
    ...(scanMs > 0 ? { deviceMs: rounded(deviceMs), stageMs } : {}),
    floor,
    ...(scanMs > 0 && ceilings !== undefined
      ? { scanOverFloor: rounded(scanMs / Math.max(floor.readMs, floor.productMs)) }
      : {}),
    matrixUnits: matrixQueries > 0,
    filteredQueries,
    keptGroupsPerQuery: rounded(keptGroups / batch),
    scoredRowsPerQuery: rounded(scoredRows / batch),
  };
}
