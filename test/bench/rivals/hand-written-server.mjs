// The rival that a team writes itself in an afternoon: fastify, a map of users, and MatMul with TopK on
// ONNX Runtime for each request. It speaks just as much of TensorFlow Serving's API as the benchmark asks.
//
//   node hand-written-server.mjs FILE ROWS DIM K THREADS     tells its port in a message once it listens

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import process from "node:process";
import { bruteForceModel, transposedTable } from "./brute-force-model.mjs";

const require = createRequire(import.meta.url);
const { InferenceSession, Tensor } = require("onnxruntime-node");
const fastify = createRequire(new URL("../../../packages/router/package.json", import.meta.url))(
  "fastify",
);

const [file, ...numbers] = process.argv.slice(2);
const [rows, dim, k, threads] = numbers.map(Number);
const bytes = readFileSync(file);
const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
const users = new Map();
for (let at = rows * dim; at < values.length; at += dim) {
  users.set(String(users.size + 1), values.slice(at, at + dim));
}
const session = await InferenceSession.create(
  bruteForceModel(transposedTable(values, rows, dim), rows, dim),
  { intraOpNumThreads: threads, logSeverityLevel: 3 },
);
const unknown = new Float32Array(dim);

const server = fastify();
server.post("/v1/models/movies:predict", async ({ body }) => {
  const { instances } = body;
  const vectors = new Float32Array(instances.length * dim);
  for (const [at, user] of instances.entries()) vectors.set(users.get(user) ?? unknown, at * dim);
  const found = await session.run({
    vectors: new Tensor("float32", vectors, [instances.length, dim]),
    k: new Tensor("int64", BigInt64Array.of(BigInt(k)), [1]),
  });
  const [scores, itemRows] = /** @type {any[]} */ ([found.scores.data, found.rows.data]);
  const predictions = instances.map((_, at) => ({
    output_1: [...scores.subarray(at * k, (at + 1) * k)],
    output_2: Array.from(
      itemRows.subarray(at * k, (at + 1) * k),
      (row) => `item ${Number(row) + 1}`,
    ),
  }));
  return { predictions };
});
await server.listen({ host: "127.0.0.1", port: 0 });
process.send({ port: server.server.address().port });
process.once("disconnect", () => process.exit());
