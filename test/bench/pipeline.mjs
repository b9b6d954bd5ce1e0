// What a pipeline costs, from request to answer: candidates retrieved under a filter, ranked, and thinned by maximal
// marginal relevance; beside a client that makes the separate calls and does the rest itself, and beside the sum of the
// parts. The client's answer is compared with the pipeline's. Ratios within one run count.
//
//   npm run bench:pipeline                                        two minutes
//   WINNOW_BENCH_PYTHON=/venv/bin/python npm run bench:pipeline   with a client in Python (NumPy) as well
//   … -- --rows 100000 --repetitions 10                           a quick look

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { StringColumn } from "../../packages/core/dist/index.js";
import { writeRankingModel } from "../../packages/model-writer/dist/index.js";
import { scriptOptions } from "../../packages/accelerator/scripts/script-options.mjs";
import { benchFolder } from "./bench-folder.mjs";
import { startProcesses } from "./local-processes.mjs";
import { USERS, writeTable } from "./scale-models.mjs";

const options = scriptOptions({
  rows: { type: "string", default: "1000000" },
  dim: { type: "string", default: "64" },
  candidates: { type: "string", default: "500" },
  count: { type: "string", default: "20" },
  /** Items per ten thousand that the filter admits. */
  admitted: { type: "string", default: "1100" },
  repetitions: { type: "string", default: "100" },
  /** Keeps tables and models here, for further runs. */
  folder: { type: "string" },
});
const root = path.resolve(import.meta.dirname, "..", "..");
const sizes = ["rows", "dim", "candidates", "count", "admitted", "repetitions"];
const [rows, dim, candidates, count, admitted, repetitions] = sizes.map((name) =>
  Number(options[name]),
);
const BALANCE = 0.7;
/** Users whose answers are compared before anything is measured. */
const COMPARED = 30;
const UNITS = 64;
const filter = { bucket: { $lt: admitted } };
const say = (text) => process.stdout.write(`${text}\n`);
const sorted = (values) => values.toSorted((a, b) => a - b);
const at = (values, share) =>
  sorted(values)[Math.min(values.length - 1, Math.floor(values.length * share))];
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const names = (length, prefix) =>
  StringColumn.fromText(Array.from({ length }, (_, index) => `${prefix}${index + 1}`));

function describeItems(directory) {
  const folder = path.join(directory, "movies", "1", "assets.extra");
  mkdirSync(folder, { recursive: true });
  let lines = "";
  for (let row = 0; row < rows; row += 1) {
    lines += `{"id":"item ${row + 1}","bucket":${(row * 7919) % 10_000}}\n`;
  }
  writeFileSync(path.join(folder, "items.jsonl"), lines);
}

/** A ranking model over the same users and items: both embeddings through one hidden layer. */
function writeRanking(directory, { table, vectors }) {
  const folder = path.join(directory, "ranking");
  if (existsSync(folder)) return;
  mkdirSync(folder);
  const unknown = new Float32Array(dim);
  const lookup = (length, prefix, pieces) => ({
    vocabulary: names(length, prefix),
    place: /** @type {const} */ ("asset"),
    embedding: { rows: length + 1, dim, pieces: () => [unknown, ...pieces] },
  });
  const weights = (length) =>
    Float32Array.from({ length }, (_, index) => Math.sin(index * 12.9898) / 8);
  writeRankingModel(path.join(folder, "1"), {
    users: lookup(USERS, "", [vectors.subarray(0, USERS * dim)]),
    items: lookup(rows, "item ", [table]),
    layers: [
      { kernel: weights(2 * dim * UNITS), bias: new Float32Array(UNITS), relu: true },
      { kernel: weights(UNITS), bias: Float32Array.of(1), relu: false },
    ],
  });
}

function writePipeline(directory) {
  const folder = path.join(directory, "feed", "1");
  mkdirSync(folder, { recursive: true });
  const text = `inputs: { user_id: string }
stages:
  - retrieve: { model: movies, k: ${candidates}, inputs: { input_1: user_id } }
  - filter: { bucket: { $lt: ${admitted} } }
  - rank: { model: ranking, inputs: { user_id: request.user_id, movie_title: item } }
  - diversify: { mmr: ${BALANCE}, count: ${count} }
`;
  writeFileSync(path.join(folder, "pipeline.yaml"), text);
}

async function ask({ host, port }, model, asked) {
  const response = await fetch(`http://${host}:${port}/v1/models/${model}:predict`, {
    method: "POST",
    body: JSON.stringify(asked),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(text);
  return JSON.parse(text).predictions;
}

const retrieved = (server, user, more = {}) =>
  ask(server, "movies", { instances: [user], k: candidates, filter, ...more });

async function ranked(server, user, ids) {
  const instances = ids.map((movie_title) => ({ user_id: user, movie_title }));
  return (await ask(server, "ranking", { instances })).flat();
}

const dot = (a, b) => {
  let sum = 0;
  for (let place = 0; place < a.length; place += 1) sum += a[place] * b[place];
  return sum;
};

/** Places by score, descending, then those that maximal marginal relevance takes of them. */
function chosen(scores, vectors) {
  const order = scores.map((_, place) => place).toSorted((a, b) => scores[b] - scores[a] || a - b);
  const [most, least] = [scores[order[0]], scores[order.at(-1)]];
  const relevance = (place) => (most > least ? (scores[place] - least) / (most - least) : 1);
  const norms = vectors.map((vector) => Math.sqrt(dot(vector, vector)));
  const likeness = new Float64Array(scores.length).fill(-Infinity);
  const taken = [];
  while (taken.length < count && order.length > 0) {
    let [best, bestValue] = [0, -Infinity];
    for (const [index, place] of order.entries()) {
      const unlike = taken.length === 0 ? 0 : (1 - BALANCE) * likeness[place];
      const value = BALANCE * relevance(place) - unlike;
      if (value > bestValue) [best, bestValue] = [index, value];
    }
    const [place] = order.splice(best, 1);
    taken.push(place);
    for (const other of order) {
      const product = norms[place] * norms[other];
      const cosine = product > 0 ? dot(vectors[other], vectors[place]) / product : 0;
      likeness[other] = Math.max(likeness[other], cosine);
    }
  }
  return taken;
}

function vectorOf({ $vector: text }) {
  const bytes = Buffer.from(text, "base64");
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

/** What a client does without the pipeline. Vectors come as base64, or as numbers. */
async function separately(server, user, asNumbers = false) {
  const wanted = asNumbers ? { return_vectors: true } : { return: ["$vector"] };
  const [found] = await retrieved(server, user, wanted);
  const scores = await ranked(server, user, found.output_2);
  const vectors = asNumbers
    ? found.vectors.map((vector) => Float32Array.from(vector))
    : found.attributes.map(vectorOf);
  const places = chosen(scores, vectors);
  return {
    output_1: places.map((place) => scores[place]),
    output_2: places.map((place) => found.output_2[place]),
  };
}

/** The client in Python, if there is one: a user on a line, and the answer with its milliseconds on another. */
function pythonClient({ host, port }) {
  const python = process.env["WINNOW_BENCH_PYTHON"];
  if (python === undefined) return undefined;
  const script = path.join(import.meta.dirname, "rivals", "pipeline_client.py");
  const words = [host, port, candidates, count, BALANCE, JSON.stringify(filter)].map(String);
  const child = spawn(python, [script, ...words], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    ask: async (user) => {
      child.stdin.write(`${user}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error("the client in Python ended");
      return JSON.parse(value);
    },
    stop: () => child.stdin.end(),
  };
}

async function timed(work) {
  const began = performance.now();
  const result = await work();
  return { result, elapsed: performance.now() - began };
}

/** The parts of one request, each alone: no vectors travel to the client, and diversifying has them at hand. */
async function partsOf(server, user, vectorsFor) {
  const retrieval = await timed(() => retrieved(server, user));
  const ids = retrieval.result[0].output_2;
  const ranking = await timed(() => ranked(server, user, ids));
  const vectors = vectorsFor(ids);
  const diversity = await timed(() => chosen(ranking.result, vectors));
  return { retrieve: retrieval.elapsed, rank: ranking.elapsed, mmr: diversity.elapsed };
}

async function measured(server, table, python) {
  const vectorsFor = (ids) =>
    ids.map((id) => {
      const row = Number(id.slice("item ".length)) - 1;
      return table.slice(row * dim, (row + 1) * dim);
    });
  const names = ["pipeline", "client", "numbers", "python", "retrieve", "rank", "mmr", "parts"];
  const times = Object.fromEntries(names.map((name) => [name, []]));
  const feed = async (user) => (await ask(server, "feed", { instances: [user] }))[0];
  const ways = [
    async (user) => ({ pipeline: (await timed(() => feed(user))).elapsed }),
    async (user) => ({ client: (await timed(() => separately(server, user))).elapsed }),
    async (user) => ({ numbers: (await timed(() => separately(server, user, true))).elapsed }),
    ...(python ? [async (user) => ({ python: (await python.ask(user)).elapsed })] : []),
    async (user) => {
      const parts = await partsOf(server, user, vectorsFor);
      return { ...parts, parts: parts.retrieve + parts.rank + parts.mmr };
    },
  ];
  // What is asked first also warms up code and processor.
  for (let user = 1; user <= COMPARED; user += 1) {
    const pipeline = JSON.stringify(await feed(String(user)));
    const answers = [
      await separately(server, String(user)),
      await separately(server, String(user), true),
      ...(python ? [(await python.ask(String(user))).answer] : []),
    ];
    for (const client of answers.map((answer) => JSON.stringify(answer))) {
      if (pipeline === client) continue;
      throw new Error(`user ${user}: the pipeline answers ${pipeline}, separate calls ${client}`);
    }
  }
  // Each has users of its own, for whom nobody asked a moment ago, and each is the first as often.
  for (let turn = 0; turn < repetitions * ways.length; turn += 1) {
    const way = ways[(turn + Math.floor(turn / ways.length)) % ways.length];
    const found = await way(String(((turn * 31) % USERS) + 1));
    for (const [name, elapsed] of Object.entries(found)) times[name].push(elapsed);
  }
  return times;
}

const kept = benchFolder(options.folder);
const data = kept.data("normal", { rows, dim });
const { directory } = await writeTable(kept.folder, { name: "large", rows, dim, k: 10 });
describeItems(directory);
writeRanking(directory, data);
writePipeline(directory);
const server = await startProcesses({
  checkout: root,
  models: directory,
  names: ["movies", "ranking", "feed"],
  workers: 1,
  readyWithinMs: 300_000,
});
const python = pythonClient(server);
try {
  const threads = os.availableParallelism();
  say(
    `${rows} × ${dim}, ${admitted / 100} % admitted, ${candidates} retrieved and ranked, MMR to ${count};`,
  );
  say(`one worker, ${threads} threads, one request at a time, ms of ${repetitions} requests\n`);
  const times = await measured(server, data.table, python);
  say("| | p50 | p90 |\n| :-- | --: | --: |");
  const rowOf = (name, values) =>
    say(`| ${name} | ${at(values, 0.5).toFixed(2)} | ${at(values, 0.9).toFixed(2)} |`);
  rowOf("pipeline", times.pipeline);
  rowOf("client, vectors as base64", times.client);
  rowOf("client, vectors as numbers", times.numbers);
  if (python) rowOf("client in Python", times.python);
  rowOf("sum of the parts", times.parts);
  for (const name of ["retrieve", "rank", "mmr"]) rowOf(`part: ${name}`, times[name]);
  const ratio = (over, under) => (at(over, 0.5) / at(under, 0.5)).toFixed(2);
  say(`\npipeline ÷ sum of the parts: ${ratio(times.pipeline, times.parts)}`);
  say(`client, base64 ÷ pipeline: ${ratio(times.client, times.pipeline)}`);
  say(`client, numbers ÷ pipeline: ${ratio(times.numbers, times.pipeline)}`);
  if (python) say(`client in Python ÷ pipeline: ${ratio(times.python, times.pipeline)}`);
} finally {
  python?.stop();
  await server.stop();
  kept.close();
}
