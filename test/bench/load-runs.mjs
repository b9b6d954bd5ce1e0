// Loads as a worker does them, timed: all partitions of a table, as many at a time as the plan allows,
// and searches on a version that is held while another one is loaded.

import { silentLogger } from "../../packages/core/dist/index.js";
import { startComputeThread } from "../../packages/worker/dist/compute/compute-start.js";

/** The version that is loaded. */
const NAME = { model: "items", version: 1 };
/** The one that is loaded beside it, from the same files. */
const NEXT = { model: "items", version: 2 };
/** Between the end of a search and the next one. */
const PAUSE_MS = 5;
const K = 100;

/** A compute side with the version open, on a fresh thread. */
export async function openCompute(directory, threads) {
  const device = { kind: "cpu", capacityBytes: 16 * 2 ** 30, threads };
  const compute = await startComputeThread(
    { device, exclusionBytesMax: 2 ** 20, filterBytesMax: 2 ** 20 },
    silentLogger,
  );
  const { tables } = await compute.open(NAME, directory);
  const table = tables.findIndex(({ kind }) => kind === "candidate");
  return { compute, directory, table, partitions: tables[table].partitions };
}

/** Milliseconds to load every partition, so many at a time. */
export async function loadAll({ compute, table, partitions }, atOnce, name = NAME) {
  const start = performance.now();
  let next = 0;
  const loadRest = async () => {
    while (next < partitions) {
      const partition = next;
      next += 1;
      await compute.load({ ...name, table, partition });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loadRest));
  return performance.now() - start;
}

/** Gives every partition back. */
export async function releaseAll({ compute, table, partitions }) {
  for (let partition = 0; partition < partitions; partition += 1) {
    await compute.release({ ...NAME, table, partition });
  }
}

/** Milliseconds of searches of one query, one after the other with pauses, until `isOver`. */
async function searchUntil({ compute, table, partitions }, vectors, isOver) {
  const every = Uint16Array.from({ length: partitions }, (_, partition) => partition);
  const times = [];
  for (let query = 0; !isOver(); query += 1) {
    const dim = vectors.dim;
    const at = (query % vectors.count) * dim;
    const vector = vectors.values.slice(at, at + dim);
    const asks = [{ queries: 1, k: K, excluded: [], rowsOnly: false }];
    const start = performance.now();
    const target = { ...NAME, table, partitions: every.slice() };
    await compute.topK({ target, asks, vectors: vector });
    times.push(performance.now() - start);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  return times;
}

/** Searches on what is held: for a while with nothing else to do, then while it is loaded once more. */
export async function searchesBesideLoad(opened, vectors, atOnce) {
  const until = performance.now() + 500;
  const alone = await searchUntil(opened, vectors, () => performance.now() > until);
  await opened.compute.open(NEXT, opened.directory);
  let isLoaded = false;
  const [loadMs, beside] = await Promise.all([
    loadAll(opened, atOnce, NEXT).finally(() => (isLoaded = true)),
    searchUntil(opened, vectors, () => isLoaded),
  ]);
  await opened.compute.close(NEXT);
  return { alone, beside, loadMs };
}
