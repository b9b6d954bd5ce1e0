// What the lookup tables of a graph hold, found by following the initialiser: each table is filled
// either from two constants (LookupTableImportV2) or from a text file in `assets/`.

import { StringColumn, WinnowError, excerpt, indexVocabularies } from "@winnow/core";
import type { Tensor, Vocabulary, VocabularyIndex } from "@winnow/core";
import type { TextVocabulary } from "../../partitions/stored-table.ts";
import type { VersionFiles } from "../../version-files.ts";
import { fold } from "../constant-folding.ts";
import { constantValue } from "../graph-value.ts";
import type { GraphValue } from "../graph-value.ts";
import { GraphWalk } from "../graph-walk.ts";
import type { GraphNode } from "../graph-walk.ts";
import type { MetaGraph } from "../definition/meta-graph.ts";
import type { OperationTable } from "../definition/operation-table.ts";
import { visitSource } from "./source-nodes.ts";

/** Where the entries of a table come from. */
export type TableOrigin =
  | { readonly kind: "constants"; readonly keys: Tensor; readonly values: Tensor }
  | { readonly kind: "text"; readonly text: TextVocabulary }
  | { readonly kind: "checkpoint"; readonly keys: string; readonly values: string };

const IMPORTS: ReadonlySet<string> = new Set([
  "LookupTableImport",
  "LookupTableImportV2",
  "InitializeTable",
  "InitializeTableV2",
]);
const TEXT_FILES: ReadonlySet<string> = new Set([
  "InitializeTableFromTextFile",
  "InitializeTableFromTextFileV2",
]);

/** The lookup tables of one version; each table's entries are read once, on first use. */
export class TableContents {
  readonly #files: VersionFiles;
  readonly #origins: ReadonlyMap<string, TableOrigin>;
  readonly #read = new Map<string, VocabularyIndex>();
  readonly #byRow = new Map<string, Tensor | undefined>();

  constructor(files: VersionFiles, origins: ReadonlyMap<string, TableOrigin>) {
    this.#files = files;
    this.#origins = origins;
  }

  /** A table's entries. @throws WinnowError FAILED_PRECONDITION when nothing fills the table */
  get(name: string): VocabularyIndex {
    const known = this.#read.get(name);
    if (known !== undefined) return known;
    const origin = this.#origins.get(name);
    if (origin === undefined) {
      const message = `nothing in the graph fills the lookup table ${name}`;
      throw new WinnowError("FAILED_PRECONDITION", message);
    }
    const vocabulary: Vocabulary = { name, ...this.#entriesOf(origin) };
    if (vocabulary.keys.data.length !== vocabulary.values.data.length) {
      const counts = `${vocabulary.keys.data.length} keys and ${vocabulary.values.data.length} values`;
      throw new WinnowError("INVALID_ARGUMENT", `lookup table ${name} is given ${counts}`);
    }
    const index = lazyIndex(vocabulary);
    this.#read.set(name, index);
    return index;
  }

  /**
   * A table's entries, for a lookup that the router will run. @throws WinnowError DATA_LOSS where
   * the table holds a key twice with different values: TensorFlow refuses such a table too, and a
   * file whose last line was cut often holds such a key
   */
  distinct(name: string): VocabularyIndex {
    const index = this.get(name);
    const { keys, values } = index.vocabulary;
    const { repeated } = index;
    if (repeated === undefined) return index;
    const [first, second] = [textAt(values, repeated.first), textAt(values, repeated.second)];
    if (first === second) return index;
    const key = excerpt(textAt(keys, repeated.first));
    const found = `key "${key}" has the values ${excerpt(first)} and ${excerpt(second)}`;
    const file = this.textOf(name)?.file;
    const where = file === undefined ? `lookup table ${name}` : `assets/${excerpt(file)}`;
    throw new WinnowError("DATA_LOSS", `Refused a vocabulary: in ${where} the ${found}`);
  }

  /**
   * A table's values for the keys 0 to `rows` - 1, one after another, where it holds all of these
   * keys, but for a few first ones, whose value is `missing`; the same tensor for the same question.
   * @throws WinnowError DATA_LOSS as `distinct`
   */
  valuesByRow(name: string, { rows, missing }: ValuesWanted): Tensor | undefined {
    const question = `${rows} ${missing === undefined ? "" : textAt(missing, 0)} ${name}`;
    if (!this.#byRow.has(question)) {
      this.#byRow.set(question, byRow(this.distinct(name), { rows, missing }));
    }
    return this.#byRow.get(question);
  }

  /**
   * The text file that fills a table, and how; `undefined` for a table that is filled otherwise.
   */
  textOf(name: string): TextVocabulary | undefined {
    const origin = this.#origins.get(name);
    return origin?.kind === "text" ? origin.text : undefined;
  }

  #entriesOf(origin: TableOrigin): { readonly keys: Tensor; readonly values: Tensor } {
    switch (origin.kind) {
      case "constants":
        return { keys: origin.keys, values: origin.values };
      case "text":
        return this.#files.readTextVocabulary(origin.text);
      case "checkpoint":
        return {
          keys: this.#files.readTensor(origin.keys),
          values: this.#files.readTensor(origin.values),
        };
    }
  }
}

/** How many of the first rows a table may lack: those that inverse lookup layers keep for padding and unknown keys. */
const FIRST_LACKED_MAX = 8;

interface ValuesWanted {
  readonly rows: number;
  /** The value of keys that the table lacks, a scalar. */
  readonly missing: Tensor | undefined;
}

/** Values of keys that count the rows; `undefined` where a later key is missing or is no row number. */
function byRow(index: VocabularyIndex, { rows, missing }: ValuesWanted): Tensor | undefined {
  const { keys, values } = index.vocabulary;
  if (
    keys.data.length < rows - FIRST_LACKED_MAX ||
    (keys.dtype !== "int32" && keys.dtype !== "int64")
  ) {
    return undefined;
  }
  const shape = [rows];
  const asked: Tensor =
    keys.dtype === "int32"
      ? { dtype: "int32", shape, data: Int32Array.from({ length: rows }, (_, row) => row) }
      : {
          dtype: "int64",
          shape,
          data: BigInt64Array.from({ length: rows }, (_, row) => BigInt(row)),
        };
  const positions = index.positionsOf(asked);
  const lacked = positions.lastIndexOf(-1) + 1;
  if (lacked === 0) return valuesAt(values, positions);
  const areFirst = positions.subarray(0, lacked).every((at) => at === -1);
  if (!areFirst || lacked > FIRST_LACKED_MAX || missing === undefined) return undefined;
  const known = valuesAt(values, positions.subarray(lacked));
  return known && behind(valuesAt(missing, new Int32Array(lacked)), known);
}

/** The vector `last` behind `first`; `undefined` where their types differ. */
function behind(first: Tensor | undefined, last: Tensor): Tensor | undefined {
  if (first?.dtype === "string" && last.dtype === "string") {
    const data = StringColumn.joined([first.data, last.data]);
    return { dtype: "string", shape: [data.length], data };
  }
  const count = (first?.data.length ?? 0) + last.data.length;
  if (first?.dtype === "int32" && last.dtype === "int32") {
    const data = new Int32Array(count);
    data.set(first.data);
    data.set(last.data, first.data.length);
    return { dtype: "int32", shape: [count], data };
  }
  if (first?.dtype !== "int64" || last.dtype !== "int64") return undefined;
  const data = new BigInt64Array(count);
  data.set(first.data);
  data.set(last.data, first.data.length);
  return { dtype: "int64", shape: [count], data };
}

/** Values that can be identifiers, at these positions; `undefined` for values of another type. */
function valuesAt({ dtype, data }: Tensor, positions: Int32Array): Tensor | undefined {
  const shape = [positions.length];
  if (dtype === "string") return { dtype, shape, data: data.take(positions) };
  if (dtype === "int32") return { dtype, shape, data: positions.map((at) => data[at]!) };
  if (dtype !== "int64") return undefined;
  return { dtype, shape, data: BigInt64Array.from(Array.from(positions, (at) => data[at]!)) };
}

function textAt(tensor: Tensor, position: number): string {
  return tensor.dtype === "string" ? tensor.data.textAt(position) : String(tensor.data[position]);
}

/** Builds the index on the first lookup of a key: most vocabularies only become keys of a table. */
function lazyIndex(vocabulary: Vocabulary): VocabularyIndex {
  let made: VocabularyIndex | undefined;
  const index = (): VocabularyIndex => (made ??= indexVocabularies([vocabulary])[0]!);
  return {
    vocabulary,
    positionsOf: (keys) => index().positionsOf(keys),
    get repeated() {
      return index().repeated;
    },
  };
}

/** Values of the graph tensors that stand for asset files. */
export function assetValues(meta: MetaGraph): Map<string, GraphValue> {
  return new Map(
    Array.from(meta.assets, ([tensor, asset]) => [
      tensor.replace(/:0$/, ""),
      { dtype: "string", shape: [], asset },
    ]),
  );
}

/** Follows the initialiser. @throws WinnowError INVALID_ARGUMENT, DATA_LOSS for a broken graph */
export function tableOrigins(
  meta: MetaGraph,
  operations: OperationTable,
): Map<string, TableOrigin> {
  const origins = new Map<string, TableOrigin>();
  // An asset's path passes through a variable, which the initialiser assigns before it is read.
  const assigned = new Map<string, GraphValue>();
  const visit = (node: GraphNode, inputs: readonly GraphValue[]): readonly GraphValue[] => {
    const name = inputs[0]?.resource?.name;
    const origin = name === undefined ? undefined : originOf(node, inputs);
    if (name !== undefined && origin !== undefined) origins.set(name, origin);
    if (name !== undefined && node.op === "AssignVariableOp") assigned.set(name, inputs[1]!);
    const value = name === undefined ? undefined : assigned.get(name);
    if (node.op === "ReadVariableOp" && value !== undefined) return [value];
    return visitSource(node, inputs) ?? computed(node, inputs);
  };
  const start = meta.initialiserNode;
  if (meta.graph.nodes.has(start)) {
    new GraphWalk(meta.graph, operations, visit).valuesOf([`^${start}`], assetValues(meta));
  }
  return origins;
}

/** What the initialiser computes: of constants, keys or values, as feature columns number a vocabulary. */
function computed(
  { op, name, attributes, outputDtypes }: GraphNode,
  inputs: readonly GraphValue[],
): readonly GraphValue[] {
  const unknown = outputDtypes.map((dtype) => ({ dtype, shape: undefined }));
  const tensors = inputs.flatMap(({ constant }) => constant ?? []);
  if (tensors.length === 0 || tensors.length < inputs.length) return unknown;
  const call = { op, name, attributes, outputCount: outputDtypes.length, isUnbounded: true };
  return fold(call, tensors)?.map((tensor) => constantValue(tensor)) ?? unknown;
}

function originOf(node: GraphNode, inputs: readonly GraphValue[]): TableOrigin | undefined {
  const [, first, second] = inputs;
  if (IMPORTS.has(node.op) && first?.constant !== undefined && second?.constant !== undefined) {
    return { kind: "constants", keys: first.constant, values: second.constant };
  }
  return TEXT_FILES.has(node.op) ? textOriginOf(node, inputs) : undefined;
}

function textOriginOf(
  { attributes }: GraphNode,
  [table, path]: readonly GraphValue[],
): TableOrigin | undefined {
  const resource = table?.resource;
  if (resource?.kind !== "table" || path?.asset === undefined) return undefined;
  return {
    kind: "text",
    text: {
      file: path.asset,
      keyDtype: resource.keyDtype === "string" ? "string" : "int64",
      valueDtype: resource.valueDtype === "string" ? "string" : "int64",
      keyIndex: attributes.int("key_index"),
      valueIndex: attributes.int("value_index"),
      vocabularySize: attributes.int("vocab_size", -1),
      delimiter: attributes.text("delimiter") || "\t",
      offset: attributes.int("offset", 0),
    },
  };
}
