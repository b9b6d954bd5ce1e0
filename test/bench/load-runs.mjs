// Loads as a worker does them, timed: all partitions of a table, as many at a time as the plan allows,
// and searches on a version that is held while another one is loaded.

import { silentLogger } from "../../packages/core/dist/index.js";
import { startComputeThread } from "../../packages/worker/dist/compute/compute-start.js";
import { resolveWorkerOptions } from "../../packages/worker/dist/worker-settings.js";

const MEMORY_BYTES = 16 * 2 ** 30;
/** Between the end of a search and the next one. */
const PAUSE_MS = 5;
const K = 100;

/** A compute side with version 1 open, on a fresh thread and with a worker's defaults. */
export async function openCompute(directory, threads) {
  const settings = resolveWorkerOptions({
    modelsPath: directory,
    accelerator: "cpu",
    memoryBytesMax: MEMORY_BYTES,
    threads,
  });
  const compute = await startComputeThread(settings, silentLogger);
  return { compute, directory, ...(await openVersion(compute, directory, 1)) };
}

/** Opens the directory as a version of its own, which shares nothing with others, and names its item table. */
async function openVersion(compute, directory, version) {
  const { handle, tables } = await compute.open({ model: "items", version, directory }, []);
  const table = tables.findIndex(({ kind }) => kind === "candidate");
  return { handle, table, partitions: tables[table].partitions };
}

/** Milliseconds to load every partition, so many at a time. */
export async function loadAll({ compute, handle, table, partitions }, atOnce) {
  const start = performance.now();
  let next = 0;
  const loadRest = async () => {
    while (next < partitions) {
      const partition = next;
      next += 1;
      await compute.load({ handle, table, partition });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loadRest));
  return performance.now() - start;
}

/** Gives every partition back. */
export async function releaseAll({ compute, handle, table, partitions }) {
  for (let partition = 0; partition < partitions; partition += 1) {
    await compute.release({ handle, table, partition });
  }
}

/** Milliseconds of searches of one query, one after the other with pauses, until `isOver`. */
async function searchUntil({ compute, handle, table, partitions }, vectors, isOver) {
  const every = Uint16Array.from({ length: partitions }, (_, partition) => partition);
  const times = [];
  for (let query = 0; !isOver(); query += 1) {
    const dim = vectors.dim;
    const at = (query % vectors.count) * dim;
    const vector = vectors.values.slice(at, at + dim);
    const asks = [{ queries: 1, k: K, excluded: [], rowsOnly: false }];
    const start = performance.now();
    const target = { handle, table, partitions: every.slice() };
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
  const { compute, directory } = opened;
  // The same files once more, beside what is held.
  const next = { compute, directory, ...(await openVersion(compute, directory, 2)) };
  let isLoaded = false;
  const [loadMs, beside] = await Promise.all([
    loadAll(next, atOnce).finally(() => (isLoaded = true)),
    searchUntil(opened, vectors, () => isLoaded),
  ]);
  await compute.close(next.handle);
  return { alone, beside, loadMs };
}
