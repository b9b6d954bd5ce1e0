// Writes SavedModels shaped as TensorFlow Recommenders exports them: for the demo, and so that
// tests can make a model of any size and kind. A version appears under its name only when it is
// complete: it is written to a directory beside and then renamed, as a training job should do it.
//
// Keras' object graph is not written. TensorFlow Serving never reads it, and without it TensorFlow
// loads the model by its signatures.

import { renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type StringColumn, WinnowError, makeDirectorySync } from "@winnow/core";
import { BundleWriter } from "./bundle-writer.ts";
import { type WrittenModel, encodeModel } from "./graph-message.ts";
import { addDense, addEmbedding, vocabularyFileOf } from "./layer-graph.ts";
import {
  type RankingModel,
  type RetrievalModel,
  type WriteOptions,
  type WrittenLayer,
  type WrittenLookup,
  type WrittenMatrix,
  lookupRowsOf,
} from "./model-description.ts";
import { ServingGraph } from "./serving-graph.ts";

const SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE";
const CANDIDATES = `candidates${SUFFIX}`;
const IDENTIFIERS = `identifiers${SUFFIX}`;
const TOWER = "brute_force/sequential";

/** Writes a retrieval model as the version directory `directory`, which must not exist. */
export function writeRetrievalModel(
  directory: string,
  model: RetrievalModel,
  options: WriteOptions = {},
): void {
  checkLookup("users", model.users);
  const { rows, dim } = model.candidates;
  if (model.identifiers.length !== rows || model.k < 1 || model.k > rows) {
    const text = `${rows} candidates, ${model.identifiers.length} identifiers, k ${model.k}`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot write the model: ${text}`);
  }
  const layers = model.tower ?? [];
  const graph = new ServingGraph();
  const input = graph.stringInput(model.inputName ?? "input_1");
  const names = { prefix: TOWER, input, key: keyOf(0) };
  const query = addLayers(graph, layers, {
    prefix: TOWER,
    input: addEmbedding(graph, model.users, names),
    firstKey: 1,
  });
  const outputs = addBruteForce(graph, { query, rows, dim, k: model.k });
  writeVersion(directory, graph.finish(outputs), {
    options,
    assets: assetsOf([[TOWER, model.users]]),
    write: (bundle) => {
      writeMatrix(bundle, CANDIDATES, model.candidates);
      const content = { kind: "strings", strings: model.identifiers } as const;
      bundle.write({ key: IDENTIFIERS, shape: [rows], content });
      writeMatrix(bundle, keyOf(0), model.users.embedding);
      writeLayers(bundle, layers, 1);
    },
  });
}

/** Writes a ranking model as the version directory `directory`, which must not exist. */
export function writeRankingModel(
  directory: string,
  model: RankingModel,
  options: WriteOptions = {},
): void {
  checkLookup("users", model.users);
  checkLookup("items", model.items);
  const graph = new ServingGraph();
  const userName = model.userName ?? "user_id";
  const itemName = model.itemName ?? "movie_title";
  // Signature inputs stand in the order of their names, as TensorFlow flattens a dictionary.
  for (const name of [userName, itemName].toSorted()) graph.stringInput(name);
  const [userPrefix, itemPrefix] = ["ranking_model/users", "ranking_model/items"] as const;
  const users = addEmbedding(graph, model.users, {
    prefix: userPrefix,
    input: userName,
    key: keyOf(0),
  });
  const items = addEmbedding(graph, model.items, {
    prefix: itemPrefix,
    input: itemName,
    key: keyOf(1),
  });
  const scores = addLayers(graph, model.layers, {
    prefix: "ranking_model",
    input: addConcatenation(graph, [users, items]),
    firstKey: 2,
  });
  const units = model.layers.at(-1)?.bias.length ?? 0;
  const outputs = [{ value: scores, dtype: "float32", shape: [-1, units] }] as const;
  writeVersion(directory, graph.finish(outputs), {
    options,
    assets: assetsOf([
      [userPrefix, model.users],
      [itemPrefix, model.items],
    ]),
    write: (bundle) => {
      writeMatrix(bundle, keyOf(0), model.users.embedding);
      writeMatrix(bundle, keyOf(1), model.items.embedding);
      writeLayers(bundle, model.layers, 2);
    },
  });
}

const keyOf = (variable: number): string => `variables/${variable}${SUFFIX}`;

function addLayers(
  graph: ServingGraph,
  layers: readonly WrittenLayer[],
  names: { readonly prefix: string; readonly input: string; readonly firstKey: number },
): string {
  let value = names.input;
  for (const [index, layer] of layers.entries()) {
    const key = names.firstKey + index * 2;
    value = addDense(graph, layer, {
      name: `${names.prefix}/dense${index === 0 ? "" : `_${index}`}`,
      input: value,
      keys: [keyOf(key), keyOf(key + 1)],
    });
  }
  return value;
}

function addConcatenation(graph: ServingGraph, values: readonly string[]): string {
  const axis = graph.addBodyNode({
    name: "ranking_model/concat/axis",
    op: "Const",
    inputs: [],
    attributes: {
      dtype: { type: "int32" },
      value: { tensor: { dtype: "int32", shape: [], data: Int32Array.of(1) } },
    },
  });
  const concat = graph.addBodyNode({
    name: "ranking_model/concat",
    op: "ConcatV2",
    inputs: [...values, `${axis}:output:0`],
    attributes: { N: { int: values.length }, T: { type: "float32" }, Tidx: { type: "int32" } },
  });
  return `${concat}:output:0`;
}

function addBruteForce(
  graph: ServingGraph,
  search: {
    readonly query: string;
    readonly rows: number;
    readonly dim: number;
    readonly k: number;
  },
): Parameters<ServingGraph["finish"]>[0] {
  const { rows, dim, k, query } = search;
  const table = {
    name: "candidates",
    key: CANDIDATES,
    dtype: "float32",
    shape: [rows, dim],
  } as const;
  const ids = { name: "identifiers", key: IDENTIFIERS, dtype: "string", shape: [rows] } as const;
  const float = { type: "float32" } as const;
  const read = graph.addBodyNode({
    name: "brute_force/MatMul/ReadVariableOp",
    op: "ReadVariableOp",
    inputs: [graph.variable(table)],
    attributes: { dtype: float },
  });
  const product = graph.addBodyNode({
    name: "brute_force/MatMul",
    op: "MatMul",
    inputs: [query, `${read}:value:0`],
    attributes: { T: float, transpose_a: { bool: false }, transpose_b: { bool: true } },
  });
  const count = graph.addBodyNode({
    name: "brute_force/TopKV2/k",
    op: "Const",
    inputs: [],
    attributes: {
      dtype: { type: "int32" },
      value: { tensor: { dtype: "int32", shape: [], data: Int32Array.of(k) } },
    },
  });
  const top = graph.addBodyNode({
    name: "brute_force/TopKV2",
    op: "TopKV2",
    inputs: [`${product}:product:0`, `${count}:output:0`],
    attributes: { T: float, sorted: { bool: true } },
  });
  const gather = graph.addBodyNode({
    name: "brute_force/Gather",
    op: "ResourceGather",
    inputs: [graph.variable(ids), `${top}:indices:0`],
    attributes: { Tindices: { type: "int32" }, dtype: { type: "string" } },
  });
  return [
    { value: `${top}:values:0`, dtype: "float32", shape: [-1, k] },
    { value: `${gather}:output:0`, dtype: "string", shape: [-1, k] },
  ];
}

interface VersionContent {
  readonly options: WriteOptions;
  readonly assets: readonly { readonly file: string; readonly content: Uint8Array }[];
  readonly write: (bundle: BundleWriter) => void;
}

function writeVersion(directory: string, model: WrittenModel, content: VersionContent): void {
  const beside = `${directory}.writing`;
  rmSync(beside, { recursive: true, force: true });
  makeDirectorySync(path.join(beside, "assets"));
  const bundle = new BundleWriter(beside, content.options.dataFiles ?? 1);
  try {
    for (const { file, content: bytes } of content.assets) {
      writeFileSync(path.join(beside, "assets", file), bytes);
    }
    content.write(bundle);
    bundle.finish();
    writeFileSync(path.join(beside, "saved_model.pb"), encodeModel(model));
    renameSync(beside, directory);
  } catch (error) {
    bundle.abandon();
    rmSync(beside, { recursive: true, force: true });
    throw error;
  }
}

function writeMatrix(bundle: BundleWriter, key: string, matrix: WrittenMatrix): void {
  const { rows, dim, pieces } = matrix;
  bundle.write({ key, shape: [rows, dim], content: { kind: "numbers", dtype: "float32", pieces } });
}

function writeLayers(
  bundle: BundleWriter,
  layers: readonly WrittenLayer[],
  firstKey: number,
): void {
  for (const [index, { kernel, bias }] of layers.entries()) {
    const units = bias.length;
    writePart(bundle, keyOf(firstKey + index * 2), {
      shape: [kernel.length / units, units],
      values: kernel,
    });
    writePart(bundle, keyOf(firstKey + index * 2 + 1), { shape: [units], values: bias });
  }
}

function writePart(
  bundle: BundleWriter,
  key: string,
  part: { readonly shape: readonly number[]; readonly values: Float32Array },
): void {
  const content = { kind: "numbers", dtype: "float32", pieces: () => [part.values] } as const;
  bundle.write({ key, shape: part.shape, content });
}

function assetsOf(
  lookups: readonly (readonly [string, WrittenLookup])[],
): VersionContent["assets"] {
  return lookups
    .filter(([, lookup]) => lookup.place === "asset")
    .map(([prefix, { vocabulary }]) => ({
      file: vocabularyFileOf(prefix),
      content: linesOf(vocabulary),
    }));
}

function linesOf(strings: StringColumn): Uint8Array {
  const bytes = new Uint8Array(strings.byteLength + strings.length);
  let at = 0;
  for (let index = 0; index < strings.length; index += 1) {
    const string = strings.at(index);
    if (string.length === 0 || string.includes(0x0a) || string.at(-1) === 0x0d) {
      const text = `string ${index} of a vocabulary cannot be a line of a file`;
      throw new WinnowError("INVALID_ARGUMENT", `Cannot write the model: ${text}`);
    }
    bytes.set(string, at);
    at += string.length;
    bytes[at] = 0x0a;
    at += 1;
  }
  return bytes;
}

function checkLookup(name: string, lookup: WrittenLookup): void {
  const rows = lookupRowsOf(lookup);
  if (lookup.embedding.rows === rows && (lookup.oovRows ?? 1) >= 1) return;
  const text = `${name} need ${rows} embedding rows and an OOV row, got ${lookup.embedding.rows}`;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot write the model: ${text}`);
}
