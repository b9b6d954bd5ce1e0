// A model for routers, which have no files: weights in files beside `model.onnx` are put into it, loops that
// compute their number of iterations fail if it exceeds `ITERATIONS_MAX`, and inputs and outputs of half
// precision become float32, with a Cast between. The output that searches a table loses its declared sizes, so that
// ONNX Runtime tells those that the graph computes; where the two contradict each other, it would tell neither.
// Everything else stays the same, byte for byte.
//
//   iterations ──▶ Greater(ITERATIONS_MAX) ─▶ Cast ─▶ Gather from [0] ──▶ Add ──▶ Loop
//     └────────────────────────────────────────────────────────▲
//
// ONNX has no operation that fails on purpose; a Gather beyond the end of a list does, and ONNX Runtime names
// the node in its message. A loop that ends by a condition alone has no number to bound; there the same nodes
// stand in its body, for the number of the iteration, and the condition depends on them.

import { WinnowError, elementCount, excerpt } from "@winnow/core";
import {
  OnnxMessage,
  nodeMessage,
  tensorMessage,
  valueMessage,
} from "../../saved-model/graph/onnx/onnx-message.ts";
import { messageReader } from "../../saved-model/message.ts";
import type { DirectoryFiles } from "../directory-files.ts";
import { ITERATIONS_MAX, computedLoops, givenInputs, isHalf, wideNameOf } from "./graph-check.ts";
import { MODEL_FILE } from "./model-file.ts";
import type {
  ByteRange,
  OnnxFile,
  OnnxGraph,
  OnnxNode,
  OnnxTensor,
  OnnxValue,
} from "./model-file.ts";

/** Protocol Buffers' own limit of a message. */
const MODEL_BYTES_MAX = 2 ** 31 - 1;
const FLOAT32 = 1;
const BOOL = 9;
const INT64 = 7;
const LEVELS = "iterations";

/** Bits of an element by `TensorProto.DataType`; strings have no size. */
const ELEMENT_BITS: ReadonlyMap<number, number> = new Map([
  ...[2, 3, 9, 17, 18, 19, 20, 24].map((type) => [type, 8] as const),
  ...[4, 5, 10, 16].map((type) => [type, 16] as const),
  ...[1, 6, 12].map((type) => [type, 32] as const),
  ...[7, 11, 13, 14].map((type) => [type, 64] as const),
  ...[21, 22, 23].map((type) => [type, 4] as const),
  [15, 128],
]);

/** Bytes of a tensor's values; 0 for one of strings. */
export function tensorBytes({ type, dims }: OnnxTensor): number {
  return Math.ceil((elementCount(dims) * (ELEMENT_BITS.get(type) ?? 0)) / 8);
}

/**
 * The bytes of a model that needs no other file; `searched` is the name of its output that searches a table.
 * @throws WinnowError as reading a file does
 */
export function selfContainedModel(
  file: OnnxFile,
  files: DirectoryFiles,
  searched?: string,
): Uint8Array {
  const outside = file.graph.initialisers.filter(({ external }) => external !== undefined);
  checkInnerTensors(file);
  const loops = computedLoops(file);
  const halves = [...givenInputs(file), ...file.graph.outputs].filter(isHalf);
  const ends = writtenEnds(file, searched);
  if (outside.length + loops.length + ends.size === 0) return file.bytes;
  const total = outside.reduce((sum, tensor) => sum + tensorBytes(tensor), file.bytes.length);
  if (total > MODEL_BYTES_MAX) {
    const text = `with the weights beside it, it takes ${total} bytes; up to ${MODEL_BYTES_MAX} are served`;
    const remedy = "cut large embeddings out of it, or keep them in half precision";
    throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot serve ${MODEL_FILE}: ${text}; ${remedy}`);
  }
  const weights = new ExternalWeights(files);
  const graph = rewrittenGraph(file, { loops: new Set(loops), weights, halves, ends });
  return copied(file.bytes, { from: 0, to: file.bytes.length }, (message, field) => {
    if (field !== 7) return false;
    message.message(7, graph);
    return true;
  }).toBytes();
}

/** The inputs and outputs that are declared in another way than the file does. */
function writtenEnds(file: OnnxFile, searched?: string): Map<OnnxValue, OnnxMessage> {
  const ends = new Map<OnnxValue, OnnxMessage>();
  for (const value of [...givenInputs(file), ...file.graph.outputs]) {
    const isSearched = value.name === searched && file.graph.outputs.includes(value);
    if (!isSearched && !isHalf(value)) continue;
    const name = isHalf(value) ? wideNameOf(value.name) : value.name;
    ends.set(value, valueMessage(name, "float32", isSearched ? undefined : value.shape));
  }
  return ends;
}

/** Refuses weights beside the model in inner graphs, where exporters put none. */
function checkInnerTensors({ graph, functions }: OnnxFile): void {
  const check = (nodes: readonly OnnxNode[]): void => {
    for (const node of nodes) {
      for (const tensor of node.tensors) refuseExternal(tensor);
      for (const inner of node.graphs) {
        for (const tensor of inner.initialisers) refuseExternal(tensor);
        check(inner.nodes);
      }
    }
  };
  check(graph.nodes);
  for (const { nodes } of functions) check(nodes);
}

function refuseExternal({ name, external }: OnnxTensor): void {
  if (external === undefined) return;
  const text = `tensor "${excerpt(name)}" of an inner graph lies in another file`;
  throw new WinnowError(
    "UNIMPLEMENTED",
    `Cannot serve ${MODEL_FILE}: ${text}; export with external_data=False`,
  );
}

interface Changes {
  readonly loops: ReadonlySet<OnnxNode>;
  readonly weights: ExternalWeights;
  /** Inputs and outputs of half precision. */
  readonly halves: readonly OnnxValue[];
  /** How inputs and outputs are declared where not as in the file. */
  readonly ends: ReadonlyMap<OnnxValue, OnnxMessage>;
}

function rewrittenGraph({ bytes, graph }: OnnxFile, changes: Changes): OnnxMessage {
  const { loops, weights, ends } = changes;
  const halves = new Set(changes.halves);
  let node = 0;
  let initialiser = 0;
  let input = 0;
  let output = 0;
  const message = new OnnxMessage();
  for (const value of graph.inputs) {
    if (halves.has(value))
      message.message(1, castNode(wideNameOf(value.name), value.name, value.type!));
  }
  copy(message, { bytes, range: graph.range }, (into, field) => {
    if (field === 11 || field === 12) {
      const value = field === 11 ? graph.inputs[input++]! : graph.outputs[output++]!;
      const end = ends.get(value);
      if (end !== undefined) into.message(field, end);
      return end !== undefined;
    }
    if (field === 1) {
      const loop = graph.nodes[node++]!;
      if (!loops.has(loop)) return false;
      const written = { bytes, loop, number: node };
      if (endsByCondition(loop)) into.message(1, withBoundedBody(written));
      else writeBoundedLoop(into, written);
      return true;
    }
    if (field !== 5) return false;
    const tensor = graph.initialisers[initialiser++]!;
    if (tensor.external === undefined) return false;
    into.message(5, withValues(bytes, tensor, weights.read(tensor, tensor.external)));
    return true;
  });
  for (const value of graph.outputs) {
    if (halves.has(value))
      message.message(1, castNode(value.name, wideNameOf(value.name), FLOAT32));
  }
  if (loops.size === 0) return message;
  const scalar = (part: string, value: number): OnnxMessage =>
    tensorMessage(nameOf(part), {
      dtype: "int64",
      shape: [],
      data: BigInt64Array.of(BigInt(value)),
    });
  const none = { dtype: "int64", shape: [1], data: new BigInt64Array(1) } as const;
  const kinds = new Set([...loops].map(endsByCondition));
  if (kinds.has(false)) message.message(5, scalar("most", ITERATIONS_MAX));
  if (kinds.has(true)) message.message(5, scalar("last", ITERATIONS_MAX - 1));
  return message.message(5, tensorMessage(nameOf("none"), none));
}

function castNode(from: string, into: string, type: number): OnnxMessage {
  const attributes = { to: type };
  return nodeMessage({ op: "Cast", name: into, inputs: [from], outputs: [into], attributes });
}

function endsByCondition({ inputs }: OnnxNode): boolean {
  return (inputs[0] ?? "") === "";
}

const nameOf = (part: string): string => `winnow/${LEVELS}/${part}`;

interface WrittenLoop {
  readonly bytes: Uint8Array;
  readonly loop: OnnxNode;
  readonly number: number;
}

/** Writes the nodes that bound a loop's number of iterations, and the loop with the bounded number. */
function writeBoundedLoop(into: OnnxMessage, { bytes, loop, number }: WrittenLoop): void {
  const [iterations = ""] = loop.inputs;
  const zero = writeBound(into, { loop, number }, { count: iterations, most: nameOf("most") });
  const bounded = nameOf(`${number}/bounded`);
  writeNode(into, "Add", { inputs: [iterations, zero], output: bounded });
  let input = 0;
  const copiedLoop = copied(bytes, loop.range, (message, field) => {
    if (field !== 1 || input++ > 0) return false;
    message.bytes(1, bounded);
    return true;
  });
  into.message(1, copiedLoop);
}

/** A loop that ends by a condition, which fails in the iteration after the last one that is allowed. */
function withBoundedBody({ bytes, loop, number }: WrittenLoop): OnnxMessage {
  const body = loop.graphs[0]!;
  const [count, condition] = [body.inputs[0]?.name ?? "", body.outputs[0]?.name ?? ""];
  const goesOn = nameOf(`${number}/goes_on`);
  let output = 0;
  const bounded = copied(bytes, body.range, (message, field) => {
    if (field !== 12 || output++ > 0) return false;
    message.message(12, valueMessage(goesOn, "bool", undefined));
    return true;
  });
  const zero = writeBound(bounded, { loop, number }, { count, most: nameOf("last") });
  const no = nameOf(`${number}/no`);
  writeNode(bounded, "Cast", { inputs: [zero], output: no, attributes: { to: BOOL } });
  writeNode(bounded, "Or", { inputs: [condition, no], output: goesOn });
  return copied(bytes, loop.range, (message, field, attribute) => {
    if (field !== 5) return false;
    const written = copied(bytes, attribute, (into, part) => {
      if (part === 6) into.message(6, bounded);
      return part === 6;
    });
    message.message(5, written);
    return true;
  });
}

interface CountedValue {
  readonly count: string;
  readonly most: string;
}

/** Writes nodes that fail where a count is above its bound, and names the value that is 0 where it is not. */
function writeBound(
  into: OnnxMessage,
  { loop, number }: Omit<WrittenLoop, "bytes">,
  { count, most }: CountedValue,
): string {
  const name = (part: string): string => nameOf(`${number}/${part}`);
  writeNode(into, "Greater", { inputs: [count, most], output: name("beyond") });
  writeNode(into, "Cast", {
    inputs: [name("beyond")],
    output: name("row"),
    attributes: { to: INT64 },
  });
  const title = `loop ${excerpt(loop.name)} takes more than ${ITERATIONS_MAX} iterations`;
  writeNode(into, "Gather", { inputs: [nameOf("none"), name("row")], output: name("zero"), title });
  return name("zero");
}

function writeNode(
  into: OnnxMessage,
  op: string,
  { inputs, output, title = output, attributes = {} }: NodeWords,
): void {
  into.message(1, nodeMessage({ op, name: title, inputs, outputs: [output], attributes }));
}

interface NodeWords {
  readonly inputs: readonly string[];
  readonly output: string;
  readonly title?: string;
  readonly attributes?: Readonly<Record<string, number>>;
}

/** A tensor that contains its values. */
function withValues(bytes: Uint8Array, { range }: OnnxTensor, values: Uint8Array): OnnxMessage {
  return copied(bytes, range, (_, field) => field === 13 || field === 14).bytes(9, values);
}

type Replace = (into: OnnxMessage, field: number, value: ByteRange) => boolean;

function copied(bytes: Uint8Array, range: ByteRange, replace: Replace): OnnxMessage {
  return copy(new OnnxMessage(), { bytes, range }, replace);
}

interface MessageBytes {
  readonly bytes: Uint8Array;
  readonly range: ByteRange;
}

/**
 * Copies the fields of a message. `replace` is called before each field, with the range of its value if that is
 * a message, and tells whether it has written something in its place.
 */
function copy(message: OnnxMessage, { bytes, range }: MessageBytes, replace: Replace): OnnxMessage {
  const reader = messageReader(bytes.subarray(range.from, range.to), MODEL_FILE);
  const part = reader.bytes;
  let start = 0;
  while (reader.next()) {
    const value = { from: range.from + reader.from, to: range.from + reader.to };
    if (!replace(message, reader.field, value)) {
      message.fields(part.subarray(start, reader.position));
    }
    start = reader.position;
  }
  return message;
}

/** Reads weights from the files beside the model; each file is opened once. */
class ExternalWeights {
  readonly #files: DirectoryFiles;
  readonly #contents = new Map<string, Uint8Array>();

  constructor(files: DirectoryFiles) {
    this.#files = files;
  }

  read(tensor: OnnxTensor, external: ReadonlyMap<string, string>): Uint8Array {
    const { name } = tensor;
    const location = external.get("location") ?? "";
    const content = this.#contentOf(location, name);
    const size = tensorBytes(tensor);
    const offset = numberOf(external.get("offset") ?? "0");
    const length = numberOf(external.get("length") ?? String(size));
    if (offset === undefined || length !== size) {
      const found = `offset "${excerpt(external.get("offset") ?? "")}", length "${excerpt(external.get("length") ?? "")}"`;
      throw damaged(name, `${found} where ${size} bytes belong`);
    }
    if (offset + size > content.length) {
      const text = `${excerpt(location)} ends at byte ${content.length} instead of ${offset + size}`;
      throw damaged(name, `${text}; the file may be truncated`);
    }
    return content.subarray(offset, offset + size);
  }

  #contentOf(location: string, tensor: string): Uint8Array {
    const known = this.#contents.get(location);
    if (known !== undefined) return known;
    const where = `${MODEL_FILE}, tensor "${excerpt(tensor)}", location`;
    try {
      const content = this.#files.read(location, { where, bytesMax: MODEL_BYTES_MAX });
      this.#contents.set(location, content);
      return content;
    } catch (error) {
      if (!(error instanceof WinnowError) || error.code !== "NOT_FOUND") throw error;
      const remedy = `${MODEL_FILE} has weights in it: copy it too, under the name that the export gave it`;
      throw new WinnowError("NOT_FOUND", `${error.message}; ${remedy}`, { cause: error });
    }
  }
}

function numberOf(text: string): number | undefined {
  const value = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
  return Number.isSafeInteger(value) ? value : undefined;
}

function damaged(tensor: string, what: string): WinnowError {
  return new WinnowError(
    "DATA_LOSS",
    `Cannot read tensor "${excerpt(tensor)}" of ${MODEL_FILE}: ${what}`,
  );
}

/** Tensors of the outermost graph that are larger than `bytesMax`, with the first node that reads each. */
export function largeTensors(
  graph: OnnxGraph,
  bytesMax: number,
): readonly { readonly tensor: OnnxTensor; readonly reader: OnnxNode | undefined }[] {
  return graph.initialisers
    .filter((tensor) => tensorBytes(tensor) > bytesMax)
    .map((tensor) => {
      const reader = graph.nodes.find(({ inputs }) => inputs.includes(tensor.name));
      return { tensor, reader };
    });
}
