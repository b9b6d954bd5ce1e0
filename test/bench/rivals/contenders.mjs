// Who takes part in the search benchmark. Each contender is loaded with one table and then asked for
// batches; the time is that of the search alone. Rivals run in processes of their own; those that are
// not installed are told apart, so that a report says against whom it compares and against whom not.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { createReferenceAccelerator } from "../../../packages/accelerator/dist/index.js";
import { createCpuAccelerator } from "../../../packages/accelerator/dist/cpu/accelerator.js";
import { loadNativeAddon } from "../../../packages/accelerator/dist/cpu/native-addon.js";
import { nodeRival, pythonRival } from "./rival-process.mjs";

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

/** Rivals of Python's `module`; each made by a function, as making one starts its process. */
function pythonRivals(module, make) {
  const python = process.env.WINNOW_BENCH_PYTHON;
  if (python === undefined || !existsSync(python)) {
    return { made: [], absent: `${module}: WINNOW_BENCH_PYTHON names no Python` };
  }
  const isThere = spawnSync(python, ["-c", `import ${module}`]).status === 0;
  if (!isThere) return { made: [], absent: `${module}: not importable from WINNOW_BENCH_PYTHON` };
  return { made: make(python) };
}

function faissRivals(threads) {
  return pythonRivals("faiss", (python) => {
    const name = "FAISS IndexFlatIP";
    const script = "faiss_contender.py";
    return [
      // By default it answers large batches query by query, which takes seconds.
      pythonRival({ name, python, script, threads, loadWords: [0], batchMax: 64 }),
      pythonRival({ name: `${name}, BLAS forced`, python, script, threads, loadWords: [1] }),
    ];
  });
}

function torchRivals(threads) {
  return pythonRivals("torch", (python) => [
    pythonRival({ name: "PyTorch matmul + topk", python, script: "torch_contender.py", threads }),
  ]);
}

/** USearch is looked for in the folder of an `npm install usearch`; it answers query by query. */
function usearchRivals(threads) {
  const folder = process.env.WINNOW_BENCH_USEARCH;
  if (folder === undefined || !existsSync(path.join(folder, "node_modules", "usearch"))) {
    return { made: [], absent: "usearch: WINNOW_BENCH_USEARCH names no folder it is installed in" };
  }
  const name = "USearch exactSearch";
  const scriptArguments = [path.resolve(folder)];
  const script = "usearch-contender.mjs";
  return { made: [nodeRival({ name, script, scriptArguments, threads, batchMax: 8 })] };
}

/**
 * Ours, every rival that is installed, and the obvious loop in JavaScript, whose canonical scores are
 * what all answers are checked against; `absent` says which rivals are missing, and why.
 */
export function createContenders(threads) {
  const { addon, reason } = loadNativeAddon();
  if (addon === undefined) throw new Error(reason);
  const options = { capacityBytes: CAPACITY_BYTES, threads };
  const ours = createCpuAccelerator(addon, options);
  const looked = [faissRivals(threads), torchRivals(threads), usearchRivals(threads)];
  const name = "ONNX Runtime 1.30 MatMul + TopK";
  return {
    device: ours.device,
    ours: inProcess("Winnow", ours),
    rivals: [
      nodeRival({ name, script: "onnx-contender.mjs", threads }),
      ...looked.flatMap(({ made }) => made),
    ],
    absent: looked.flatMap(({ absent }) => absent ?? []),
    obvious: inProcess("plain JavaScript loop and heap", createReferenceAccelerator(options)),
  };
}
