// Who takes part in the search benchmark. Each contender is loaded with one table and then asked for
// batches; the time is that of the search alone. Rivals run in processes of their own.

import { fork, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import path from "node:path";
import process from "node:process";
import { createReferenceAccelerator } from "../../packages/accelerator/dist/index.js";
import { createCpuAccelerator } from "../../packages/accelerator/dist/cpu/accelerator.js";
import { loadNativeAddon } from "../../packages/accelerator/dist/cpu/native-addon.js";

const CAPACITY_BYTES = 16 * 2 ** 30;
/** As the cluster cuts a table of a million rows. */
const PARTITIONS = 16;

/** The partitions of a table as residents of a device, asked in this process. */
function inProcess(name, accelerator) {
  let residents = [];
  let data;
  const contender = {
    name,
    loadMs: 0,
    residentBytes: 0,
    async load(loaded) {
      data = loaded;
      const { table, rows, dim } = data;
      const start = performance.now();
      for (let part = 0; part < PARTITIONS; part += 1) {
        const firstRow = Math.floor((part * rows) / PARTITIONS);
        const end = Math.floor(((part + 1) * rows) / PARTITIONS);
        const shape = { rows: end - firstRow, dim, firstRow, use: "search" };
        residents.push(await accelerator.load(shape, [table.subarray(firstRow * dim, end * dim)]));
      }
      contender.loadMs = performance.now() - start;
      contender.residentBytes = residents.reduce((sum, resident) => sum + resident.bytes, 0);
    },
    async search({ from, queries, k }) {
      const vectors = data.vectors.slice(from * data.dim, (from + queries) * data.dim);
      const start = performance.now();
      const block = await accelerator.topK({ residents, vectors, k });
      return { elapsedMs: performance.now() - start, rows: [...block.rows.subarray(0, k)] };
    },
    async close() {
      await accelerator.close();
      residents = [];
      data = undefined;
    },
  };
  return contender;
}

function onnxRuntime(threads) {
  const child = fork(path.join(import.meta.dirname, "onnx-contender.mjs"));
  const ask = async (message) => {
    child.send(message);
    const [answer] = await once(child, "message");
    return answer;
  };
  return {
    name: "ONNX Runtime 1.30 MatMul + TopK",
    pid: child.pid,
    batchMax: Infinity,
    load: ({ file, rows, dim }) => ask({ kind: "load", file, rows, dim, threads }),
    search: (query) => ask({ kind: "search", ...query }),
    close: async () => child.kill(),
  };
}

function faiss(python, { threads, isBlasForced }) {
  const child = spawn(python, [path.join(import.meta.dirname, "faiss_contender.py")], {
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...process.env, OMP_NUM_THREADS: String(threads) },
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (line) => {
    child.stdin.write(`${line}\n`);
    const { value } = await lines.next();
    return value.split(" ").map(Number);
  };
  return {
    name: `FAISS IndexFlatIP${isBlasForced ? ", BLAS forced" : ""}`,
    pid: child.pid,
    // By default it answers large batches query by query, which takes seconds.
    batchMax: isBlasForced ? Infinity : 64,
    load: ({ file, rows, dim }) =>
      ask(`load ${file} ${rows} ${dim} ${threads} ${isBlasForced ? 1 : 0}`),
    async search({ from, queries, k }) {
      const [elapsedMs, ...rows] = await ask(`search ${from} ${queries} ${k}`);
      return { elapsedMs, rows };
    },
    close: async () => child.kill(),
  };
}

function hasFaiss(python) {
  if (python === undefined || !existsSync(python)) return false;
  return spawnSync(python, ["-c", "import faiss"]).status === 0;
}

/** Ours first, then every rival that is installed, then the obvious loop in JavaScript. */
export function createContenders(threads) {
  const { addon, reason } = loadNativeAddon();
  if (addon === undefined) throw new Error(reason);
  const options = { capacityBytes: CAPACITY_BYTES, threads };
  const python = process.env.WINNOW_BENCH_PYTHON;
  const ours = createCpuAccelerator(addon, options);
  return {
    device: ours.device,
    ours: inProcess("Winnow", ours),
    rivals: [
      onnxRuntime(threads),
      ...(hasFaiss(python)
        ? [
            faiss(python, { threads, isBlasForced: false }),
            faiss(python, { threads, isBlasForced: true }),
          ]
        : []),
    ],
    obvious: inProcess("plain JavaScript loop and heap", createReferenceAccelerator(options)),
  };
}
