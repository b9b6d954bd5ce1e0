// Tensor → TensorProto as TensorFlow Serving answers it (tensorflow/core/framework/tensor.cc,
// Tensor::AsProtoField): every value in the field of its type, and an empty `tensor_content`, because clients
// that read `float_val` by hand depend on that. All sizes are computed first, then bytes are written.

import { isBigInts, sizeOfField, sizeOfVarint, sizeOfWords } from "@winnow/core";
import type { ProtobufWriter, StringColumn, Tensor } from "@winnow/core";
import { WIRE_TYPES } from "./data-type.ts";

/** A tensor and the sizes of its parts. */
export interface TensorPlan {
  readonly tensor: Tensor;
  /** Bytes of the whole TensorProto. */
  readonly bytes: number;
  readonly shapeBytes: number;
  /** Bytes of the packed values; for strings, of all their fields. */
  readonly valueBytes: number;
}

const DTYPE = 1;
const SHAPE = 2;
const DIM = 2;
const SIZE = 1;

/** Computes the sizes. */
export function planTensorProto(tensor: Tensor): TensorPlan {
  const { number, field } = WIRE_TYPES[tensor.dtype];
  const shapeBytes = tensor.shape.reduce((sum, size) => sum + sizeOfField(DIM, dimBytes(size)), 0);
  const valueBytes = sizeOfValues(tensor);
  const isPacked = tensor.dtype !== "string" && valueBytes > 0;
  const bytes =
    1 +
    sizeOfVarint(number) +
    sizeOfField(SHAPE, shapeBytes) +
    (isPacked ? sizeOfField(field, valueBytes) : valueBytes);
  return { tensor, bytes, shapeBytes, valueBytes };
}

/** Writes a planned tensor. */
export function writeTensorProto(writer: ProtobufWriter, plan: TensorPlan): void {
  const { tensor, shapeBytes, valueBytes } = plan;
  const { number, field } = WIRE_TYPES[tensor.dtype];
  writer.int(DTYPE, number);
  writer.open(SHAPE, shapeBytes);
  for (const size of tensor.shape) {
    writer.open(DIM, dimBytes(size));
    if (size > 0) writer.int(SIZE, size);
  }
  if (tensor.dtype === "string") return writeStrings(writer, field, tensor.data);
  if (valueBytes === 0) return;
  writer.open(field, valueBytes);
  if (WIRE_TYPES[tensor.dtype].layout === "fixed") writer.raw(tensor.data);
  else writeVarints(writer, tensor);
}

/** Bytes of one dimension. A size of 0 is not written. */
function dimBytes(size: number): number {
  return size === 0 ? 0 : 1 + sizeOfVarint(size);
}

type Integers = Exclude<Tensor, { readonly dtype: "string" }>["data"];

function sizeOfValues(tensor: Tensor): number {
  if (tensor.dtype === "string") return sizeOfStrings(tensor.data);
  const { data } = tensor;
  if (WIRE_TYPES[tensor.dtype].layout === "fixed") return data.byteLength;
  let bytes = 0;
  eachWord(data, (low, high) => {
    bytes += sizeOfWords(low, high);
  });
  return bytes;
}

function writeVarints(writer: ProtobufWriter, tensor: Exclude<Tensor, { dtype: "string" }>): void {
  eachWord(tensor.data, (low, high) => writer.words(low, high));
}

/** Calls `found` with every value as 64 bits: protobuf sign-extends small negative numbers. */
function eachWord(data: Integers, found: (low: number, high: number) => void): void {
  if (isBigInts(data)) {
    const words = new Uint32Array(data.buffer, data.byteOffset, 2 * data.length);
    for (let at = 0; at < words.length; at += 2) found(words[at]!, words[at + 1]!);
    return;
  }
  for (let index = 0; index < data.length; index++) {
    const value = data[index]!;
    found(value >>> 0, value < 0 ? 0xffffffff : 0);
  }
}

function sizeOfStrings({ offsets, length }: StringColumn): number {
  const { field } = WIRE_TYPES.string;
  let bytes = 0;
  for (let index = 0; index < length; index++) {
    bytes += sizeOfField(field, offsets[index + 1]! - offsets[index]!);
  }
  return bytes;
}

function writeStrings(writer: ProtobufWriter, field: number, column: StringColumn): void {
  const { offsets, bytes, length } = column;
  for (let index = 0; index < length; index++) {
    writer.span(field, { bytes, from: offsets[index]!, to: offsets[index + 1]! });
  }
}
