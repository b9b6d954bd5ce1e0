// `model.onnx` as parsed (onnx/onnx.proto, ModelProto): what is needed to check a graph, to make a signature
// of it and to write it again. Weights stay in the file's bytes.

import { WinnowError, excerpt } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";
import { messageReader } from "../../saved-model/message.ts";

/** Name of the file that holds the graph. */
export const MODEL_FILE = "model.onnx";
/** Depth of graphs inside graphs, at most. */
const DEPTH_MAX = 16;
/** Elements of tensors whose values are kept: shapes have no more. */
const SHORT_MAX = 8;
/** Bytes of one of these values, as `raw_data` and, at most, as a varint. */
const RAW_BYTES = 8;
const VARINT_BYTES_MAX = 10;
const EXTERNAL = 1;

/** A range of the file's bytes: the value of a field. */
export interface ByteRange {
  readonly from: number;
  readonly to: number;
}

/** A TensorProto, without its values. */
export interface OnnxTensor {
  readonly name: string;
  /** `TensorProto.DataType`. */
  readonly type: number;
  readonly dims: readonly number[];
  /** Where the values are, if not in the model file, under ONNX's keys: `location`, `offset`, `length`. */
  readonly external: ReadonlyMap<string, string> | undefined;
  /** The values of an int64 tensor with at most `SHORT_MAX` elements, if they are in the model file. */
  readonly integers: readonly number[] | undefined;
  readonly range: ByteRange;
}

/** A ValueInfoProto. */
export interface OnnxValue {
  readonly name: string;
  /** `TensorProto.DataType`; `undefined` if the value is no tensor. */
  readonly type: number | undefined;
  /** A size, or -1 if it is a name or missing; `undefined` where the rank is not declared. */
  readonly shape: readonly number[] | undefined;
}

/** A NodeProto. */
export interface OnnxNode {
  readonly op: string;
  readonly domain: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  /** The inner graphs of Loop, Scan and If. */
  readonly graphs: readonly OnnxGraph[];
  /** Tensors in attributes, as in Constant. */
  readonly tensors: readonly OnnxTensor[];
  readonly range: ByteRange;
}

/** A GraphProto, or the body of a function. */
export interface OnnxGraph {
  readonly nodes: readonly OnnxNode[];
  readonly initialisers: readonly OnnxTensor[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
  readonly range: ByteRange;
}

/** A FunctionProto: an operation that the model defines by other operations. */
interface OnnxFunction {
  readonly name: string;
  readonly domain: string;
  readonly nodes: readonly OnnxNode[];
}

/** A ModelProto. */
export interface OnnxFile {
  readonly bytes: Uint8Array;
  readonly irVersion: number;
  /** Version of each operator set, by domain; "" is ONNX's own. */
  readonly opsets: ReadonlyMap<string, number>;
  readonly graph: OnnxGraph;
  readonly functions: readonly OnnxFunction[];
}

/** Parses a model. @throws WinnowError DATA_LOSS naming the byte, INVALID_ARGUMENT without a graph */
export function parseModelFile(bytes: Uint8Array): OnnxFile {
  const reader = messageReader(bytes, MODEL_FILE);
  let irVersion = 0;
  let graph: OnnxGraph | undefined;
  const opsets = new Map<string, number>();
  const functions: OnnxFunction[] = [];
  while (reader.next()) {
    if (reader.field === 1) irVersion = reader.int();
    else if (reader.field === 7) graph = readGraph(reader.message(), 1);
    else if (reader.field === 8) readOpset(reader.message(), opsets);
    else if (reader.field === 25) functions.push(readFunction(reader.message()));
  }
  if (graph === undefined) {
    const text = `Cannot read ${MODEL_FILE}: it holds no graph; it may be truncated`;
    throw new WinnowError("DATA_LOSS", text);
  }
  const { outputs } = graph;
  const reshaped = outputs.map((output) => withReshapedSizes(output, graph));
  return { bytes, irVersion, opsets, graph: { ...graph, outputs: reshaped }, functions };
}

/**
 * An output whose sizes are partly names, with the sizes of the Reshape that makes it. PyTorch's exporter with
 * `dynamo=False` declares `view(-1, 4, 24)` as three names. The first dimension is the batch and stays as declared.
 */
function withReshapedSizes(output: OnnxValue, graph: OnnxGraph): OnnxValue {
  const { name, shape } = output;
  const maker = makerOf(name, graph);
  if (shape === undefined || maker?.op !== "Reshape" || maker.domain !== "") return output;
  const sizes = sizesOf(maker.inputs[1] ?? "", graph);
  if (sizes?.length !== shape.length) return output;
  const known = shape.map((size, axis) => (axis > 0 && size < 0 ? (sizes[axis] ?? size) : size));
  return { ...output, shape: known.map((size) => (size > 0 ? size : -1)) };
}

function makerOf(value: string, { nodes }: OnnxGraph): OnnxNode | undefined {
  return nodes.find(({ outputs }) => outputs.includes(value));
}

/** The sizes that a Reshape is given, -1 for those that are computed; `undefined` if nothing is known. */
function sizesOf(name: string, graph: OnnxGraph): readonly number[] | undefined {
  const maker = makerOf(name, graph);
  if (maker?.op !== "Concat") return integersOf(name, graph);
  return maker.inputs.flatMap((part) => integersOf(part, graph) ?? [-1]);
}

function integersOf(name: string, graph: OnnxGraph): readonly number[] | undefined {
  const maker = makerOf(name, graph);
  if (maker !== undefined) return maker.op === "Constant" ? maker.tensors[0]?.integers : undefined;
  return graph.initialisers.find((tensor) => tensor.name === name)?.integers;
}

/** ONNX's own domain has two names. */
function domainOf(text: string): string {
  return text === "ai.onnx" ? "" : text;
}

function readOpset(reader: ProtobufReader, opsets: Map<string, number>): void {
  let domain = "";
  let version = 0;
  while (reader.next()) {
    if (reader.field === 1) domain = domainOf(reader.text());
    else if (reader.field === 2) version = reader.int();
  }
  opsets.set(domain, version);
}

function readFunction(reader: ProtobufReader): OnnxFunction {
  let name = "";
  let domain = "";
  const nodes: OnnxNode[] = [];
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 7) nodes.push(readNode(reader.message(), rangeOf(reader), 1));
    else if (reader.field === 10) domain = domainOf(reader.text());
  }
  return { name, domain, nodes };
}

function readGraph(reader: ProtobufReader, depth: number, range?: ByteRange): OnnxGraph {
  if (depth > DEPTH_MAX) {
    const text = `its graphs lie ${depth} deep in each other; at most ${DEPTH_MAX} may`;
    throw new WinnowError("RESOURCE_EXHAUSTED", `Cannot read ${MODEL_FILE}: ${text}`);
  }
  const nodes: OnnxNode[] = [];
  const initialisers: OnnxTensor[] = [];
  const inputs: OnnxValue[] = [];
  const outputs: OnnxValue[] = [];
  const from = reader.position;
  while (reader.next()) {
    if (reader.field === 1) nodes.push(readNode(reader.message(), rangeOf(reader), depth));
    else if (reader.field === 5) initialisers.push(readTensor(reader.message(), rangeOf(reader)));
    else if (reader.field === 11) inputs.push(readValue(reader.message()));
    else if (reader.field === 12) outputs.push(readValue(reader.message()));
  }
  return { nodes, initialisers, inputs, outputs, range: range ?? { from, to: reader.position } };
}

function readNode(reader: ProtobufReader, range: ByteRange, depth: number): OnnxNode {
  const node = { op: "", domain: "", name: "" };
  const inputs: string[] = [];
  const outputs: string[] = [];
  const graphs: OnnxGraph[] = [];
  const tensors: OnnxTensor[] = [];
  const readAttribute = (attribute: ProtobufReader): void => {
    while (attribute.next()) {
      const isTensor = attribute.field === 5 || attribute.field === 10;
      const isGraph = attribute.field === 6 || attribute.field === 11;
      if (isTensor) tensors.push(readTensor(attribute.message(), rangeOf(attribute)));
      else if (isGraph) graphs.push(readGraph(attribute.message(), depth + 1));
    }
  };
  while (reader.next()) {
    if (reader.field === 1) inputs.push(reader.text());
    else if (reader.field === 2) outputs.push(reader.text());
    else if (reader.field === 3) node.name = reader.text();
    else if (reader.field === 4) node.op = reader.text();
    else if (reader.field === 5) readAttribute(reader.message());
    else if (reader.field === 7) node.domain = domainOf(reader.text());
  }
  return { ...node, inputs, outputs, graphs, tensors, range };
}

function readTensor(reader: ProtobufReader, range: ByteRange): OnnxTensor {
  let name = "";
  let type = 0;
  let isExternal = false;
  let raw: Uint8Array | undefined;
  const dims: number[] = [];
  const integers: bigint[] = [];
  const external = new Map<string, string>();
  while (reader.next()) {
    if (reader.field === 1) reader.ints(dims);
    else if (reader.field === 2) type = reader.int();
    else if (reader.field === 8) name = reader.text();
    else if (reader.field === 9) raw = reader.view();
    else if (reader.field === 14) isExternal = reader.int() === EXTERNAL;
    else if (reader.field === 13) readEntry(reader.message(), external);
    else if (reader.field === 7 && reader.to - reader.from <= SHORT_MAX * VARINT_BYTES_MAX)
      reader.int64s(integers);
  }
  checkSizes(name, dims);
  const where = isExternal ? external : undefined;
  const short = type === INT64 ? shortIntegers(raw, integers) : undefined;
  return { name, type, dims, external: where, integers: short, range };
}

function checkSizes(name: string, dims: readonly number[]): void {
  if (dims.every((size) => size >= 0)) return;
  const text = `tensor "${excerpt(name)}" has the shape [${dims.join()}]`;
  throw new WinnowError("DATA_LOSS", `Cannot read ${MODEL_FILE}: ${text}`);
}

const INT64 = 7;

/** An int64 tensor's values, from `raw_data` or `int64_data`; `undefined` if there are none, or more than `SHORT_MAX`. */
function shortIntegers(
  raw: Uint8Array | undefined,
  integers: readonly bigint[],
): readonly number[] | undefined {
  if (raw === undefined) {
    return integers.length > 0 && integers.length <= SHORT_MAX ? integers.map(Number) : undefined;
  }
  if (raw.length % RAW_BYTES !== 0 || raw.length > SHORT_MAX * RAW_BYTES) return undefined;
  const view = new DataView(raw.buffer, raw.byteOffset, raw.length);
  return Array.from({ length: raw.length / RAW_BYTES }, (_, index) =>
    Number(view.getBigInt64(index * RAW_BYTES, true)),
  );
}

function readEntry(reader: ProtobufReader, into: Map<string, string>): void {
  let key = "";
  let value = "";
  while (reader.next()) {
    if (reader.field === 1) key = reader.text();
    else if (reader.field === 2) value = reader.text();
  }
  into.set(key, value);
}

function readValue(reader: ProtobufReader): OnnxValue {
  let name = "";
  let type: number | undefined;
  let shape: readonly number[] | undefined;
  while (reader.next()) {
    if (reader.field === 1) name = reader.text();
    else if (reader.field === 2) {
      const ofType = reader.message();
      while (ofType.next()) {
        if (ofType.field === 1) ({ type, shape } = readTensorType(ofType.message()));
      }
    }
  }
  return { name, type, shape };
}

function readTensorType(reader: ProtobufReader): Pick<OnnxValue, "type" | "shape"> {
  let type: number | undefined;
  let shape: number[] | undefined;
  while (reader.next()) {
    if (reader.field === 1) type = reader.int();
    else if (reader.field === 2) shape = readShape(reader.message());
  }
  return { type, shape };
}

function readShape(reader: ProtobufReader): number[] {
  const shape: number[] = [];
  while (reader.next()) {
    if (reader.field !== 1) continue;
    const dimension = reader.message();
    let size = -1;
    while (dimension.next()) if (dimension.field === 1) size = dimension.int();
    shape.push(size);
  }
  return shape;
}

function rangeOf({ from, to }: ProtobufReader): ByteRange {
  return { from, to };
}
