// A rival of the search benchmark, in a process of its own: the exact search of USearch. The package
// is no dependency of this repository; the first argument names the folder it was installed in.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const { MetricKind, exactSearch } = createRequire(path.join(process.argv[2], "package.json"))(
  "usearch",
);

let table;
let vectors;
let shape;

function load({ file, rows, dim, threads }) {
  const bytes = readFileSync(file);
  const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  table = values.subarray(0, rows * dim);
  vectors = values.slice(rows * dim);
  shape = { dim, threads };
}

function search({ from, queries, k }) {
  const { dim, threads } = shape;
  const asked = vectors.slice(from * dim, (from + queries) * dim);
  const start = performance.now();
  const { keys } = exactSearch(table, asked, dim, k, MetricKind.IP, threads);
  const elapsedMs = performance.now() - start;
  return { elapsedMs, rows: Array.from(keys.subarray(0, k), Number) };
}

process.on("message", (/** @type {any} */ message) => {
  process.send(message.kind === "load" ? (load(message), {}) : search(message));
});
process.on("disconnect", () => process.exit());
