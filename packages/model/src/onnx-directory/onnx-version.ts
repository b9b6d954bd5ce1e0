// A directory with a `model.onnx` as a model version: the graph becomes the dense step of the program,
// `winnow.json` says which of its inputs are strings and which items its output searches.
//
//   strings ─▶ vocabulary ─▶ model.onnx ─▶ outputs                             a ranking model
//                                └─ query ─▶ (to length 1) ─▶ topK ─▶ scores, ids     retrieval

import {
  PARTITION_BYTES,
  WinnowError,
  excerpt,
  indexVocabularies,
  plainRowChecks,
  stringTensor,
} from "@winnow/core";
import type {
  Dtype,
  HostStep,
  ModelProgram,
  SignatureTensor,
  Step,
  Tensor,
  UncutTable,
  ValueId,
  Vocabulary,
  WarmUpRequest,
} from "@winnow/core";
import { contentFingerprint } from "../content-fingerprint.ts";
import type {
  BoundFile,
  ModelVersion,
  MoreRows,
  MoreRowsShape,
  PartitionReader,
  TableReading,
} from "../model-version.ts";
import { OnnxModel } from "../saved-model/graph/onnx/onnx-model.ts";
import { parseTextVocabulary } from "../saved-model/text-vocabulary.ts";
import type { StoredTable } from "../saved-model/partitions/stored-table.ts";
import type { ReadingOptions } from "../saved-model/version-files.ts";
import { readWarmUp } from "../saved-model/warm-up.ts";
import {
  DESCRIPTION_BYTES_MAX,
  DESCRIPTION_FILE,
  PLAIN_DESCRIPTION,
  parseDescription,
} from "./description/description.ts";
import type { Description, Retrieval, VocabularyInput } from "./description/description.ts";
import { DirectoryFiles, refuseByteOrderMark } from "./directory-files.ts";
import { checkUtf8 } from "../storage/utf8-lines.ts";
import { checkedGraph } from "./graph/graph-check.ts";
import type { ServedGraph, ServedValue } from "./graph/graph-check.ts";
import { MODEL_FILE, parseModelFile } from "./graph/model-file.ts";
import type { OnnxFile } from "./graph/model-file.ts";
import { largeTensors, selfContainedModel, tensorBytes } from "./graph/self-contained-model.ts";
import { openItemTable } from "./tables/item-table.ts";
import type { ItemTable } from "./tables/item-table.ts";

const MODEL_BYTES_MAX = 2 ** 31 - 1;
const VOCABULARY_BYTES_MAX = 2 ** 32 - 1;
const SIGNATURE = "serving_default";
const METHOD = "tensorflow/serving/predict";
const WHOLE_LINE = -2;
const LINE_NUMBER = -1;
/** Values of all vectors of a query, at most: as many as a row has. */
const QUERY_VALUES_MAX = 32_768;
/** As in `torch.nn.functional.normalize`: a query of zeros stays zero. */
const LENGTH_MIN = 1e-12;

/**
 * Opens a version directory with a `model.onnx`; reads no rows.
 * @throws WinnowError NOT_FOUND, DATA_LOSS, INVALID_ARGUMENT, UNIMPLEMENTED naming file, field and remedy
 */
export function openOnnxDirectory(directory: string, options: ReadingOptions = {}): ModelVersion {
  const files = new DirectoryFiles(directory, options.store);
  try {
    return new OnnxVersion(files, readVersion(files, options));
  } catch (error) {
    files.close();
    throw error;
  }
}

interface ReadVersion {
  readonly program: ModelProgram;
  readonly table: ItemTable | undefined;
}

function readVersion(files: DirectoryFiles, options: ReadingOptions): ReadVersion {
  const { checks = plainRowChecks, partitionBytes = PARTITION_BYTES } = options;
  const description = readDescription(files);
  const where = `Cannot read ${MODEL_FILE}`;
  const file = parseModelFile(files.readMessage(MODEL_FILE, { where, bytesMax: MODEL_BYTES_MAX }));
  const graph = checkedGraph(file);
  const { retrieval } = description;
  const table = retrieval && openItemTable(files, retrieval, { checks, partitionBytes });
  const writer = new ProgramWriter(graph, { files, file, description });
  const parts = writer.write(table);
  const uncutTables = largeTensors(file.graph, partitionBytes).map(
    ({ tensor, reader }): UncutTable => ({
      tensor: tensor.name,
      bytes: tensorBytes(tensor),
      ranking: undefined,
      obstacle: { node: reader?.name ?? "", op: reader?.op ?? "" },
    }),
  );
  const tables = table === undefined ? [] : [table.spec];
  const ofFiles = files.fingerprintWith(tables.flatMap(({ sources }) => sources));
  const fingerprint = contentFingerprint(ofFiles, table === undefined ? [] : [layoutOf(table)]);
  const uncut = uncutTables.length > 0 && { uncutTables };
  return { program: { fingerprint, tables, ...parts, ...uncut }, table };
}

function layoutOf({ spec, derivation }: ItemTable): Pick<StoredTable, "spec" | "derivation"> {
  return { spec, derivation };
}

function readDescription(files: DirectoryFiles): Description {
  if (!files.has(DESCRIPTION_FILE)) return PLAIN_DESCRIPTION;
  const where = `Cannot read ${DESCRIPTION_FILE}`;
  return parseDescription(files.read(DESCRIPTION_FILE, { where, bytesMax: DESCRIPTION_BYTES_MAX }));
}

interface Surroundings {
  readonly files: DirectoryFiles;
  readonly file: OnnxFile;
  readonly description: Description;
}

type ProgramParts = Pick<ModelProgram, "signatures" | "vocabularies" | "denseModels">;

/** Writes the program of the one signature. */
class ProgramWriter {
  readonly #graph: ServedGraph;
  readonly #around: Surroundings;
  readonly #steps: Step[] = [];
  readonly #constants: { readonly value: ValueId; readonly tensor: Tensor }[] = [];
  readonly #vocabularies: Vocabulary[] = [];
  #values = 0;

  constructor(graph: ServedGraph, around: Surroundings) {
    this.#graph = graph;
    this.#around = around;
  }

  write(table: ItemTable | undefined): ProgramParts {
    const { file, files, description } = this.#around;
    this.#checkInputNames();
    const inputs = this.#graph.inputs.map((input): SignatureTensor => {
      const isText = description.inputs.has(input.name);
      return this.#declared({ ...input, dtype: isText ? "string" : input.dtype }, this.#newValue());
    });
    const read = inputs.map(({ value }, at) => ({
      name: this.#graph.inputs[at]!.modelName,
      value: this.#integersOf(this.#graph.inputs[at]!, value),
    }));
    const computed = this.#graph.outputs.map((output) => ({ ...output, value: this.#newValue() }));
    const { retrieval } = description;
    const wanted = retrieval === undefined ? computed : [queryOf(computed, retrieval, table)];
    const searched = retrieval === undefined ? undefined : wanted[0]!.name;
    const denseModels = [selfContainedModel(file, files, searched)];
    const outputs = wanted.map(({ modelName: name, value, dtype }) => ({ name, value, dtype }));
    this.#steps.push({ kind: "dense", model: 0, inputs: read, outputs });
    const declared =
      retrieval === undefined
        ? computed.map((output) => this.#declared(output, output.value))
        : this.#search(wanted[0]!, { retrieval, table, denseModels });
    const signature = {
      name: SIGNATURE,
      methodName: METHOD,
      inputs,
      outputs: declared,
      constants: this.#constants,
      steps: this.#steps,
    };
    return { signatures: [signature], vocabularies: this.#vocabularies, denseModels };
  }

  #checkInputNames(): void {
    const names = this.#graph.inputs.map(({ name }) => name);
    for (const [name, { where }] of this.#around.description.inputs) {
      if (names.includes(name)) continue;
      const text = `${where}: ${MODEL_FILE} has no input "${excerpt(name)}", but ${names.join(", ")}`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
  }

  #declared({ name, dtype, shape }: DeclaredValue, value: ValueId): SignatureTensor {
    return { name, dtype, shape, graphTensor: name, value };
  }

  /** The integers of an input: the ones sent, or those of the strings sent. */
  #integersOf({ name, dtype }: ServedValue, value: ValueId): ValueId {
    const input = this.#around.description.inputs.get(name);
    if (input === undefined) return value;
    if (dtype !== "int64" && dtype !== "int32") {
      const text = `${input.where}: input "${excerpt(name)}" of ${MODEL_FILE} is ${dtype}; only int64 and int32 can have a vocabulary`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    const vocabulary = this.#vocabulary(name, input);
    const missing = this.#constant(BigInt64Array.of(BigInt(input.unknown ?? -1)), []);
    const found = this.#host("LookupTableFindV2", [value, missing], { name, vocabulary });
    if (input.unknown === undefined) this.#refuseMissing({ name, file: input.file, value, found });
    return dtype === "int64"
      ? found
      : this.#host("Cast", [found], { name, attributes: { DstT: dtype } });
  }

  /** Adds an assertion that every string was found. */
  #refuseMissing({ name, file, value, found }: FoundKeys): void {
    const none = this.#constant(BigInt64Array.of(0n), []);
    const isKnown = this.#host("GreaterEqual", [found, none], { name });
    const flat = this.#constant(BigInt64Array.of(-1n), [1]);
    const column = this.#host("Reshape", [isKnown, flat], { name });
    const axis = this.#constant(BigInt64Array.of(0n), []);
    const attributes = { keep_dims: false };
    const areKnown = this.#host("All", [column, axis], { name, attributes });
    const text = `input "${name}" holds a key that ${file} does not list, among`;
    const message = this.#newValue();
    this.#constants.push({ value: message, tensor: stringTensor([text], []) });
    const inputs = [areKnown, message, value];
    const step: HostStep = {
      kind: "host",
      op: "Assert",
      node: name,
      attributes: {},
      inputs,
      outputs: [],
    };
    this.#steps.push(step);
  }

  #vocabulary(input: string, described: VocabularyInput): number {
    const { file: name, where } = described;
    const { files } = this.#around;
    const content = files.read(name, { where, bytesMax: VOCABULARY_BYTES_MAX });
    refuseByteOrderMark(content, name);
    checkUtf8({ name: excerpt(name) }, content, 1);
    const { keys, values } = parseTextVocabulary(content, {
      file: name,
      folder: "",
      keyDtype: "string",
      valueDtype: "int64",
      keyIndex: WHOLE_LINE,
      valueIndex: LINE_NUMBER,
      vocabularySize: -1,
      delimiter: "\t",
      offset: 0,
    });
    const vocabulary: Vocabulary = { name, keys, values };
    const repeated = indexVocabularies([vocabulary])[0]?.repeated;
    if (repeated !== undefined) {
      const lines = `lines ${repeated.first + 1} and ${repeated.second + 1} of ${excerpt(name)} are one key`;
      throw new WinnowError("INVALID_ARGUMENT", `${where}: ${lines}; each key needs one integer`);
    }
    files.countEntries(name, keys.data.length);
    this.#checkReach(input, described, keys.data.length);
    return this.#vocabularies.push(vocabulary) - 1;
  }

  /**
   * Refuses a vocabulary that does not fit the embedding after it: one that lost its last lines reads like a
   * good one.
   */
  #checkReach(
    input: string,
    { file: name, where, unknown = -1 }: VocabularyInput,
    entries: number,
  ): void {
    const { file, files } = this.#around;
    const needed = Math.max(entries, unknown + 1);
    for (const { tensor, rows } of embeddingsOf(file, input)) {
      if (needed === rows || (needed < rows && files.isVouchedFor(name))) continue;
      if (unknown >= rows && entries <= rows) {
        const text = `"unknown" is ${unknown} where the embedding "${excerpt(tensor)}" has ${rows} rows, of which the first is 0`;
        throw new WinnowError("INVALID_ARGUMENT", `${where}: ${text}`);
      }
      const found = `${excerpt(name)} has ${entries} entries where the embedding "${excerpt(tensor)}" has ${rows} rows`;
      const remedy =
        needed > rows
          ? "export both of one training"
          : 'the file may be cut; where it is not, say which row is "unknown", or list the file in SHA256SUMS';
      throw new WinnowError("INVALID_ARGUMENT", `${where}: ${found}; ${remedy}`);
    }
  }

  /** The steps of a search, and the outputs of the signature. */
  #search(
    query: ComputedValue,
    { retrieval, table, denseModels }: WantedSearch,
  ): SignatureTensor[] {
    const { k, similarity, outputs, where } = retrieval;
    if (table === undefined) throw new RangeError("a search without a table");
    const { rows, idDtype } = table.spec;
    if (k > rows) {
      const text = `${where}.k: ${k} items are wanted where the table has ${rows}`;
      throw new WinnowError("INVALID_ARGUMENT", text);
    }
    const vectors = vectorsOf(query, table.spec.dim);
    let searched = query.value;
    if (similarity === "cosine" || vectors !== undefined) {
      searched = this.#newValue();
      const shape = { dim: table.spec.dim, vectors };
      const model = denseModels.push(queryModel(shape, similarity)) - 1;
      const inputs = [{ name: "input_0", value: query.value }];
      const outputs = [{ name: "output_0", value: searched, dtype: "float32" }] as const;
      this.#steps.push({ kind: "dense", model, inputs, outputs });
    }
    const [scores, ids] = [this.#newValue(), this.#newValue()];
    // The lists of several vectors are put together by their rows.
    const rowsBesideIds = vectors === undefined ? undefined : this.#newValue();
    const answer =
      idDtype === undefined ? { rows: ids, ids: undefined } : { rows: rowsBesideIds, ids };
    const node = "retrieval";
    this.#steps.push({
      kind: "topK",
      table: 0,
      node,
      query: searched,
      ...(vectors !== undefined && { vectors }),
      k,
      capped: false,
      scores,
      ...answer,
    });
    const shape = [-1, k];
    return [
      this.#declared({ name: outputs.scores, dtype: "float32", shape }, scores),
      this.#declared({ name: outputs.ids, dtype: idDtype ?? "int32", shape }, ids),
    ];
  }

  #host(op: string, inputs: readonly ValueId[], { name, ...rest }: HostWords): ValueId {
    const output = this.#newValue();
    this.#steps.push({
      kind: "host",
      op,
      node: name,
      attributes: {},
      inputs,
      outputs: [output],
      ...rest,
    });
    return output;
  }

  #constant(data: BigInt64Array, shape: readonly number[]): ValueId {
    const value = this.#newValue();
    this.#constants.push({ value, tensor: { dtype: "int64", shape, data } });
    return value;
  }

  #newValue(): ValueId {
    this.#values += 1;
    return this.#values - 1;
  }
}

interface DeclaredValue {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[] | undefined;
}

interface ComputedValue extends ServedValue {
  readonly value: ValueId;
}

interface FoundKeys {
  readonly name: string;
  readonly file: string;
  readonly value: ValueId;
  readonly found: ValueId;
}

interface WantedSearch {
  readonly retrieval: Retrieval;
  readonly table: ItemTable | undefined;
  readonly denseModels: Uint8Array[];
}

interface HostWords {
  /** Input of the signature, for messages. */
  readonly name: string;
  readonly vocabulary?: number;
  readonly attributes?: HostStep["attributes"];
}

/** The embeddings in which an input of the model is looked up directly. */
function embeddingsOf(
  { graph }: OnnxFile,
  input: string,
): { readonly tensor: string; readonly rows: number }[] {
  return graph.nodes
    .filter(({ op, domain, inputs }) => domain === "" && op === "Gather" && inputs[1] === input)
    .flatMap(({ inputs: [tensor = ""] }) => {
      const rows = graph.initialisers.find(({ name }) => name === tensor)?.dims[0];
      return rows === undefined ? [] : [{ tensor, rows }];
    });
}

/** The output that is searched with. @throws WinnowError INVALID_ARGUMENT */
function queryOf(
  outputs: readonly ComputedValue[],
  { query, where, items }: Retrieval,
  table: ItemTable | undefined,
): ComputedValue {
  const only = outputs.length === 1 ? outputs[0] : undefined;
  const found = query === undefined ? only : outputs.find(({ name }) => name === query);
  if (found === undefined) {
    const names = outputs.map(({ name }) => excerpt(name)).join(", ");
    const wanted = query === undefined ? "one output" : `an output "${excerpt(query)}"`;
    const text = `${where}.query: ${MODEL_FILE} has not ${wanted}, but ${names}; name one of them`;
    throw new WinnowError("INVALID_ARGUMENT", text);
  }
  const dim = table?.spec.dim ?? 0;
  if (isQuery(found, dim)) return found;
  const { name, dtype, shape = [] } = found;
  const given = `output "${excerpt(name)}" of ${MODEL_FILE} is ${dtype} [${shape.join(",")}]`;
  const several =
    shape.length === 3 ? `, or [batch,vectors,${dim}] with a fixed number of vectors,` : "";
  const wanted = `float32 [batch,${dim}], as the rows of ${excerpt(items.file)}${several} belongs`;
  throw new WinnowError("INVALID_ARGUMENT", `${where}.query: ${given} where ${wanted}`);
}

/** Whether an output is one vector for each instance, or a fixed number of them. */
function isQuery({ dtype, shape }: ServedValue, dim: number): boolean {
  if (dtype !== "float32") return false;
  if (shape === undefined) return true;
  const isOfVectors = shape.length === 2 || (shape.length === 3 && shape[1]! >= 1);
  return isOfVectors && [-1, dim].includes(shape.at(-1)!);
}

/** How many vectors a query has, the best of which is the score of an item; `undefined`: one. */
function vectorsOf({ shape }: ServedValue, dim: number): number | undefined {
  if (shape?.length !== 3) return undefined;
  const vectors = shape[1]!;
  if (vectors * dim <= QUERY_VALUES_MAX) return vectors;
  const text = `Cannot serve ${MODEL_FILE}: a query of ${vectors} vectors of ${dim} values`;
  throw new WinnowError("RESOURCE_EXHAUSTED", `${text}; it may have ${QUERY_VALUES_MAX} values`);
}

interface QueryShape {
  readonly dim: number;
  readonly vectors: number | undefined;
}

/**
 * Brings the vectors of queries to length 1 for cosines, as `torch.nn.functional.normalize` does, and puts several
 * one after the other.
 */
function queryModel({ dim, vectors }: QueryShape, similarity: Retrieval["similarity"]): Uint8Array {
  const model = new OnnxModel();
  let query = model.input("float32", vectors === undefined ? [-1, dim] : [-1, vectors, dim]);
  if (similarity === "cosine") {
    const length = model.node("ReduceL2", [query], { axes: [-1], keepdims: 1 });
    const bounded = model.node("Max", [length, model.scalar("float32", LENGTH_MIN)]);
    query = model.node("Div", [query, bounded]);
  }
  if (vectors !== undefined) {
    // A size of 0 stands for the size of the input: there may be no query at all.
    query = model.node("Reshape", [query, model.integers([0, vectors * dim])]);
  }
  model.output(query, "float32");
  return model.toBytes();
}

class OnnxVersion implements ModelVersion {
  readonly directory: string;
  readonly program: ModelProgram;
  readonly warmUp: readonly WarmUpRequest[];
  readonly #files: DirectoryFiles;
  readonly #table: ItemTable | undefined;

  constructor(files: DirectoryFiles, { program, table }: ReadVersion) {
    this.directory = files.directory;
    this.program = program;
    this.warmUp = readWarmUp(files.stored, program.signatures);
    this.#files = files;
    this.#table = table;
  }

  get files(): readonly BoundFile[] {
    return this.#files.boundFiles;
  }

  get bytesRead(): number {
    return this.#files.stored.bytesRead;
  }

  partitionBytes(table: number, partition: number): number {
    return this.#readingOf(table, partition).partitionBytes(partition);
  }

  openPartition(table: number, partition: number): PartitionReader {
    return this.#readingOf(table, partition).openPartition(partition);
  }

  moreRowsShape(table: number): MoreRowsShape {
    return this.#tableAt(table).moreRowsShape();
  }

  moreRows(table: number, more: MoreRows): TableReading {
    return this.#tableAt(table).moreRows(more);
  }

  close(): void {
    this.#files.close();
  }

  #tableAt(table: number): ItemTable {
    if (this.#table === undefined || table !== 0) throw new RangeError(`table ${table}`);
    return this.#table;
  }

  #readingOf(table: number, partition: number): ItemTable["reading"] {
    const { spec, reading } = this.#tableAt(table);
    const { name, partitions } = spec;
    if (Number.isInteger(partition) && partition >= 0 && partition < partitions) return reading;
    const text = `Table "${name}" has partitions 0 to ${partitions - 1}, not ${partition}`;
    throw new WinnowError("NOT_FOUND", text);
  }
}
