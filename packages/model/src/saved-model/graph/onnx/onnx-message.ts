// Writes the few Protocol Buffers messages an ONNX model is made of (onnx/onnx.proto, IR version 8).
// A message is a list of byte pieces, so weights are copied once, when the model is put together.

import type { Dtype, Tensor } from "@winnow/core";
import { ProtobufWriter, WinnowError } from "@winnow/core";

const encoder = new TextEncoder();
/** Bytes of a field's key and length, or of a whole field that is a number, at most. */
const PIECE_BYTES = 24;
const MODEL_BYTES_MAX = 2 ** 31 - 1;

/** ONNX's numbers of element types. */
export const ONNX_TYPES: Readonly<Record<Dtype, number>> = {
  float32: 1,
  uint8: 2,
  int8: 3,
  uint16: 4,
  int16: 5,
  int32: 6,
  int64: 7,
  string: 8,
  bool: 9,
  float64: 11,
  uint32: 12,
  uint64: 13,
};

/** Attributes of ONNX nodes: whole numbers are ints, `{ float }` is a float, a message is a graph. */
export type OnnxAttribute =
  | number
  | string
  | readonly number[]
  | { readonly float: number }
  | OnnxMessage;

/** A message under construction. */
export class OnnxMessage {
  readonly #pieces: Uint8Array[] = [];
  size = 0;

  /** Appends an integer field. */
  int(field: number, value: number): this {
    return this.#written((writer) => writer.int(field, BigInt(value)));
  }

  /** Appends text or bytes. */
  bytes(field: number, value: Uint8Array | string): this {
    const bytes = typeof value === "string" ? encoder.encode(value) : value;
    return this.#written((writer) => writer.open(field, bytes.length)).#piece(bytes);
  }

  /** Appends a float field. */
  float(field: number, value: number): this {
    return this.#written((writer) => writer.float(field, value));
  }

  /** Appends a nested message. */
  message(field: number, value: OnnxMessage): this {
    this.#written((writer) => writer.open(field, value.size));
    for (const piece of value.#pieces) this.#piece(piece);
    return this;
  }

  /** Appends fields that are encoded already. */
  fields(bytes: Uint8Array): this {
    return this.#piece(bytes);
  }

  /** All bytes, joined. @throws WinnowError RESOURCE_EXHAUSTED over 2 GiB */
  toBytes(): Uint8Array {
    if (this.size > MODEL_BYTES_MAX) {
      const message = `the dense part needs ${this.size} bytes of weights; at most 2 GiB fit`;
      throw new WinnowError("RESOURCE_EXHAUSTED", message);
    }
    const joined = new Uint8Array(this.size);
    let end = 0;
    for (const piece of this.#pieces) {
      joined.set(piece, end);
      end += piece.length;
    }
    return joined;
  }

  #piece(bytes: Uint8Array): this {
    this.#pieces.push(bytes);
    this.size += bytes.length;
    return this;
  }

  #written(write: (writer: ProtobufWriter) => ProtobufWriter): this {
    return this.#piece(write(new ProtobufWriter(PIECE_BYTES)).finish());
  }
}

/** A NodeProto. */
export function nodeMessage(node: {
  readonly op: string;
  readonly name: string;
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, OnnxAttribute>>;
}): OnnxMessage {
  const message = new OnnxMessage();
  for (const input of node.inputs) message.bytes(1, input);
  for (const output of node.outputs) message.bytes(2, output);
  message.bytes(3, node.name).bytes(4, node.op);
  for (const [name, value] of Object.entries(node.attributes)) {
    message.message(5, attributeMessage(name, value));
  }
  return message;
}

function attributeMessage(name: string, value: OnnxAttribute): OnnxMessage {
  const message = new OnnxMessage().bytes(1, name);
  if (typeof value === "number") return message.int(3, value).int(20, 2);
  if (typeof value === "string") return message.bytes(4, value).int(20, 3);
  if (value instanceof OnnxMessage) return message.message(6, value).int(20, 5);
  if ("float" in value) return message.float(2, value.float).int(20, 1);
  for (const item of value) message.int(8, item);
  return message.int(20, 7);
}

/** A TensorProto with raw data; strings do not occur in dense parts. */
export function tensorMessage(
  name: string,
  tensor: Exclude<Tensor, { dtype: "string" }>,
): OnnxMessage {
  const message = new OnnxMessage();
  for (const size of tensor.shape) message.int(1, size);
  const { buffer, byteOffset, byteLength } = tensor.data;
  return message
    .int(2, ONNX_TYPES[tensor.dtype])
    .bytes(8, name)
    .bytes(9, new Uint8Array(buffer, byteOffset, byteLength));
}

/** A ValueInfoProto; unknown sizes and ranks are left open. */
export function valueMessage(
  name: string,
  dtype: Dtype,
  shape: readonly number[] | undefined,
): OnnxMessage {
  const tensor = new OnnxMessage().int(1, ONNX_TYPES[dtype]);
  if (shape !== undefined) {
    const sizes = new OnnxMessage();
    for (const size of shape) {
      sizes.message(1, size < 0 ? new OnnxMessage() : new OnnxMessage().int(1, size));
    }
    tensor.message(2, sizes);
  }
  return new OnnxMessage().bytes(1, name).message(2, new OnnxMessage().message(1, tensor));
}
