// A model for routers, which have no files: weights in files beside `model.onnx` are put into it, and loops
// that compute their number of iterations fail if it exceeds `ITERATIONS_MAX`. Everything else stays the
// same, byte for byte.
//
//   iterations ──▶ Greater(ITERATIONS_MAX) ─▶ Cast ─▶ Gather from [0] ──▶ Add ──▶ Loop
//     └────────────────────────────────────────────────────────▲
//
// ONNX has no operation that fails on purpose; a Gather beyond the end of a list does, and ONNX Runtime names
// the node in its message.

import { WinnowError, elementCount, excerpt } from "@winnow/core";
import {
  OnnxMessage,
  nodeMessage,
  tensorMessage,
} from "../../saved-model/graph/onnx/onnx-message.ts";
import { messageReader } from "../../saved-model/message.ts";
import type { DirectoryFiles } from "../directory-files.ts";
import { ITERATIONS_MAX, computedLoops } from "./graph-check.ts";
import { MODEL_FILE } from "./model-file.ts";
import type { ByteRange, OnnxFile, OnnxGraph, OnnxNode, OnnxTensor } from "./model-file.ts";

/** Protocol Buffers' own limit of a message. */
const MODEL_BYTES_MAX = 2 ** 31 - 1;
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

/** The bytes of a model that needs no other file. @throws WinnowError as reading a file does */
export function selfContainedModel(file: OnnxFile, files: DirectoryFiles): Uint8Array {
  const outside = file.graph.initialisers.filter(({ external }) => external !== undefined);
  checkInnerTensors(file);
  const loops = computedLoops(file);
  if (outside.length === 0 && loops.length === 0) return file.bytes;
  const total = outside.reduce((sum, tensor) => sum + tensorBytes(tensor), file.bytes.length);
  if (total > MODEL_BYTES_MAX) {
    const text = `with the weights beside it, it takes ${total} bytes; up to ${MODEL_BYTES_MAX} are served`;
    const remedy = "cut large embeddings out of it, or keep them in half precision";
    throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot serve ${MODEL_FILE}: ${text}; ${remedy}`);
  }
  const weights = new ExternalWeights(files);
  const graph = rewrittenGraph(file, { loops: new Set(loops), weights });
  return copied(file.bytes, { from: 0, to: file.bytes.length }, (message, field) => {
    if (field !== 7) return false;
    message.message(7, graph);
    return true;
  }).toBytes();
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
}

function rewrittenGraph({ bytes, graph }: OnnxFile, { loops, weights }: Changes): OnnxMessage {
  let node = 0;
  let initialiser = 0;
  const message = copied(bytes, graph.range, (into, field) => {
    if (field === 1) {
      const loop = graph.nodes[node++]!;
      if (!loops.has(loop)) return false;
      writeBoundedLoop(into, { bytes, loop, number: node });
      return true;
    }
    if (field !== 5) return false;
    const tensor = graph.initialisers[initialiser++]!;
    if (tensor.external === undefined) return false;
    into.message(5, withValues(bytes, tensor, weights.read(tensor, tensor.external)));
    return true;
  });
  if (loops.size === 0) return message;
  const most = BigInt64Array.of(BigInt(ITERATIONS_MAX));
  return message
    .message(5, tensorMessage(nameOf("most"), { dtype: "int64", shape: [], data: most }))
    .message(
      5,
      tensorMessage(nameOf("none"), { dtype: "int64", shape: [1], data: new BigInt64Array(1) }),
    );
}

const nameOf = (part: string): string => `winnow/${LEVELS}/${part}`;

interface WrittenLoop {
  readonly bytes: Uint8Array;
  readonly loop: OnnxNode;
  readonly number: number;
}

/** Writes the nodes that bound a loop's iterations, and the loop with the bounded number. */
function writeBoundedLoop(into: OnnxMessage, { bytes, loop, number }: WrittenLoop): void {
  const name = (part: string): string => nameOf(`${number}/${part}`);
  const node = (
    op: string,
    inputs: readonly string[],
    { output, title = output, attributes = {} }: NodeWords,
  ): void => {
    into.message(1, nodeMessage({ op, name: title, inputs, outputs: [output], attributes }));
  };
  const [iterations = ""] = loop.inputs;
  node("Greater", [iterations, nameOf("most")], { output: name("beyond") });
  node("Cast", [name("beyond")], { output: name("row"), attributes: { to: INT64 } });
  const title = `loop ${excerpt(loop.name)} takes more than ${ITERATIONS_MAX} iterations`;
  node("Gather", [nameOf("none"), name("row")], { output: name("zero"), title });
  node("Add", [iterations, name("zero")], { output: name("bounded") });
  let input = 0;
  const bounded = copied(bytes, loop.range, (message, field) => {
    if (field !== 1 || input++ > 0) return false;
    message.bytes(1, name("bounded"));
    return true;
  });
  into.message(1, bounded);
}

interface NodeWords {
  readonly output: string;
  readonly title?: string;
  readonly attributes?: Readonly<Record<string, number>>;
}

/** A tensor that contains its values. */
function withValues(bytes: Uint8Array, { range }: OnnxTensor, values: Uint8Array): OnnxMessage {
  return copied(bytes, range, (_, field) => field === 13 || field === 14).bytes(9, values);
}

/**
 * Copies the fields of a message. `replace` is called before each field, and tells whether it has written
 * something in its place.
 */
function copied(
  bytes: Uint8Array,
  range: ByteRange,
  replace: (into: OnnxMessage, field: number) => boolean,
): OnnxMessage {
  const message = new OnnxMessage();
  const reader = messageReader(bytes.subarray(range.from, range.to), MODEL_FILE);
  const part = reader.bytes;
  let start = 0;
  while (reader.next()) {
    if (!replace(message, reader.field)) message.fields(part.subarray(start, reader.position));
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
    const content = this.#files.read(location, { where, bytesMax: MODEL_BYTES_MAX });
    this.#contents.set(location, content);
    return content;
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
