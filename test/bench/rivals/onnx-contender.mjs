// A rival of the search benchmark, in a process of its own: MatMul and TopK on ONNX Runtime.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";
import { bruteForceModel, transposedTable } from "./brute-force-model.mjs";

const { InferenceSession, Tensor } = createRequire(import.meta.url)("onnxruntime-node");

let session;
let vectors;
let shape;

async function load({ file, rows, dim, threads }) {
  const bytes = readFileSync(file);
  const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  vectors = values.slice(rows * dim);
  shape = { rows, dim };
  const model = bruteForceModel(transposedTable(values, rows, dim), rows, dim);
  session = await InferenceSession.create(model, {
    intraOpNumThreads: threads,
    logSeverityLevel: 3,
  });
}

async function search({ from, queries, k }) {
  const { dim } = shape;
  const feeds = {
    vectors: new Tensor("float32", vectors.slice(from * dim, (from + queries) * dim), [
      queries,
      dim,
    ]),
    k: new Tensor("int64", BigInt64Array.of(BigInt(k)), [1]),
  };
  const start = performance.now();
  const { rows } = await session.run(feeds);
  const elapsedMs = performance.now() - start;
  return { elapsedMs, rows: Array.from(rows.data.slice(0, k), Number) };
}

async function answer(message) {
  if (message.kind === "search") return search(message);
  await load(message);
  return { ready: true };
}

process.on("message", (message) => {
  void answer(message).then((found) => process.send(found));
});
