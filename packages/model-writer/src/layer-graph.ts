// The layers of a recommender model as TensorFlow operations, named and ordered as Keras 2 exports
// them: StringLookup, Embedding, Dense, and the search of TensorFlow Recommenders' BruteForce.

import { type StringColumn, type Tensor, stringTensor } from "@winnow/core";
import type { WrittenLayer, WrittenLookup } from "./model-description.ts";
import { firstTokenRowOf } from "./model-description.ts";
import type { ServingGraph } from "./serving-graph.ts";

/** An embedding table and its lookup: gives the body tensor of the rows, `[-1, dim]`. */
export function addEmbedding(
  graph: ServingGraph,
  lookup: WrittenLookup,
  names: { readonly prefix: string; readonly input: string; readonly key: string },
): string {
  const rows = addStringLookup(graph, lookup, {
    prefix: `${names.prefix}/string_lookup`,
    input: names.input,
  });
  const { rows: count, dim } = lookup.embedding;
  const handle = graph.variable({
    name: `${names.prefix}/embedding/embeddings`,
    key: names.key,
    dtype: "float32",
    shape: [count, dim],
  });
  const gather = graph.addBodyNode({
    name: `${names.prefix}/embedding/embedding_lookup`,
    op: "ResourceGather",
    inputs: [handle, rows],
    attributes: { Tindices: { type: "int64" }, dtype: { type: "float32" } },
  });
  const result = graph.addBodyNode({
    name: `${gather}/Identity`,
    op: "Identity",
    inputs: [`${gather}:output:0`],
    attributes: { T: { type: "float32" } },
  });
  return `${result}:output:0`;
}

/** A dense layer: gives the body tensor of its output. */
export function addDense(
  graph: ServingGraph,
  layer: WrittenLayer,
  names: {
    readonly name: string;
    readonly input: string;
    readonly keys: readonly [string, string];
  },
): string {
  const units = layer.bias.length;
  const read = (part: string, shape: readonly number[], key: string): string => {
    const variable = { name: `${names.name}/${part}`, key, dtype: "float32", shape } as const;
    const name = graph.addBodyNode({
      name: `${names.name}/${part}/ReadVariableOp`,
      op: "ReadVariableOp",
      inputs: [graph.variable(variable)],
      attributes: { dtype: { type: "float32" } },
    });
    return `${name}:value:0`;
  };
  const T = { type: "float32" } as const;
  const kernel = read("kernel", [layer.kernel.length / units, units], names.keys[0]);
  graph.addBodyNode({
    name: `${names.name}/MatMul`,
    op: "MatMul",
    inputs: [names.input, kernel],
    attributes: { T, transpose_a: { bool: false }, transpose_b: { bool: false } },
  });
  graph.addBodyNode({
    name: `${names.name}/BiasAdd`,
    op: "BiasAdd",
    inputs: [`${names.name}/MatMul:product:0`, read("bias", [units], names.keys[1])],
    attributes: { T },
  });
  if (!layer.relu) return `${names.name}/BiasAdd:output:0`;
  graph.addBodyNode({
    name: `${names.name}/Relu`,
    op: "Relu",
    inputs: [`${names.name}/BiasAdd:output:0`],
    attributes: { T },
  });
  return `${names.name}/Relu:activations:0`;
}

interface LookupNames {
  readonly prefix: string;
  readonly input: string;
}

/** Strings to row numbers: gives the body tensor, int64 `[-1]`. */
function addStringLookup(graph: ServingGraph, lookup: WrittenLookup, names: LookupNames): string {
  const { prefix, input } = names;
  const tableName = tableNameOf(prefix);
  const oovRows = lookup.oovRows ?? 1;
  const oovStart = lookup.maskToken === undefined ? 0 : 1;
  const missing = integer(oovRows > 1 ? -1 : oovStart);
  const table = graph.addNode({
    name: tableName,
    op: "HashTableV2",
    inputs: [],
    attributes: {
      key_dtype: { type: "string" },
      value_dtype: { type: "int64" },
      shared_name: { text: tableName },
    },
  });
  fillTable(graph, lookup, table);
  const fallback = graph.capture(graph.constant(`${tableName}_default`, missing), "int64");
  const find = graph.addBodyNode({
    name: `${prefix}/None_Lookup/LookupTableFindV2`,
    op: "LookupTableFindV2",
    inputs: [graph.capture(table, "resource"), input, fallback],
    attributes: { Tin: { type: "string" }, Tout: { type: "int64" } },
  });
  let rows = `${find}:values:0`;
  if (lookup.maskToken !== undefined) rows = addMask(graph, lookup.maskToken, { ...names, rows });
  if (oovRows > 1) rows = addBuckets(graph, { oovRows, oovStart }, { ...names, rows, fallback });
  const result = graph.addBodyNode({
    name: `${prefix}/Identity`,
    op: "Identity",
    inputs: [rows],
    attributes: { T: { type: "int64" } },
  });
  return `${result}:output:0`;
}

function addMask(
  graph: ServingGraph,
  token: string,
  names: LookupNames & { readonly rows: string },
): string {
  const { prefix, input, rows } = names;
  const constants = prefix.replaceAll("/", "_");
  const key = graph.capture(
    graph.constant(`${constants}_mask`, stringTensor([token], [])),
    "string",
  );
  const row = graph.capture(graph.constant(`${constants}_mask_row`, integer(0)), "int64");
  const equal = graph.addBodyNode({
    name: `${prefix}/Equal`,
    op: "Equal",
    inputs: [input, key],
    attributes: { T: { type: "string" } },
  });
  const select = graph.addBodyNode({
    name: `${prefix}/SelectV2`,
    op: "SelectV2",
    inputs: [`${equal}:z:0`, row, rows],
    attributes: { T: { type: "int64" } },
  });
  return `${select}:output:0`;
}

function addBuckets(
  graph: ServingGraph,
  oov: { readonly oovRows: number; readonly oovStart: number },
  names: LookupNames & { readonly rows: string; readonly fallback: string },
): string {
  const { prefix, input, rows, fallback } = names;
  const T = { type: "int64" } as const;
  const missing = graph.addBodyNode({
    name: `${prefix}/Equal_1`,
    op: "Equal",
    inputs: [rows, fallback],
    attributes: { T },
  });
  const bucket = graph.addBodyNode({
    name: `${prefix}/hash_bucket`,
    op: "StringToHashBucketFast",
    inputs: [input],
    attributes: { num_buckets: { int: oov.oovRows } },
  });
  const start = graph.addBodyNode({
    name: `${prefix}/add/y`,
    op: "Const",
    inputs: [],
    attributes: { dtype: T, value: { tensor: integer(oov.oovStart) } },
  });
  const add = graph.addBodyNode({
    name: `${prefix}/add`,
    op: "AddV2",
    inputs: [`${bucket}:output:0`, `${start}:output:0`],
    attributes: { T },
  });
  const select = graph.addBodyNode({
    name: `${prefix}/SelectV2_1`,
    op: "SelectV2",
    inputs: [`${missing}:z:0`, `${add}:z:0`, rows],
    attributes: { T },
  });
  return `${select}:output:0`;
}

function fillTable(graph: ServingGraph, lookup: WrittenLookup, table: string): void {
  const handle = { node: table, name: "table_handle", type: "resource" } as const;
  if (lookup.place === "asset") {
    const file = graph.asset(assetNameOf(table));
    graph.initializer(
      {
        name: "text_file_init/InitializeTableFromTextFileV2",
        op: "InitializeTableFromTextFileV2",
        inputs: ["table_handle", "filename"],
        attributes: {
          key_index: { int: -2 },
          value_index: { int: -1 },
          offset: { int: firstTokenRowOf(lookup) },
        },
      },
      [{ node: file, name: "filename", type: "string" }, handle],
    );
    return;
  }
  const keys = graph.constant(`${table}_keys`, column(lookup.vocabulary));
  const values = graph.constant(`${table}_values`, rowNumbers(lookup));
  graph.initializer(
    {
      name: "key_value_init/LookupTableImportV2",
      op: "LookupTableImportV2",
      inputs: ["table_handle", "keys", "values"],
      attributes: { Tin: { type: "string" }, Tout: { type: "int64" } },
    },
    [
      handle,
      { node: keys, name: "keys", type: "string" },
      { node: values, name: "values", type: "int64" },
    ],
  );
}

function tableNameOf(lookupPrefix: string): string {
  return `${lookupPrefix.replaceAll("/", "_")}_table`;
}

function assetNameOf(table: string): string {
  return `${table}.txt`;
}

/** File under `assets/` for the vocabulary of an embedding with this prefix. */
export function vocabularyFileOf(prefix: string): string {
  return assetNameOf(tableNameOf(`${prefix}/string_lookup`));
}

function column(strings: StringColumn): Tensor {
  return { dtype: "string", shape: [strings.length], data: strings };
}

function rowNumbers(lookup: WrittenLookup): Tensor {
  const first = firstTokenRowOf(lookup);
  const { length } = lookup.vocabulary;
  const data = BigInt64Array.from({ length }, (_, index) => BigInt(index + first));
  return { dtype: "int64", shape: [length], data };
}

function integer(value: number): Tensor {
  return { dtype: "int64", shape: [], data: BigInt64Array.of(BigInt(value)) };
}
