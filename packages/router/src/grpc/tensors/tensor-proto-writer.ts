// Tensor → TensorProto as TensorFlow Serving answers it (tensorflow/core/framework/tensor.cc,
// Tensor::AsProtoField): every value in the field of its type, and an empty `tensor_content`, because clients
// that read `float_val` by hand depend on that. All sizes are computed first, then bytes are written.

import { sizeOfField, sizeOfVarint } from "@winnow/core";
import type { ProtobufWriter, Tensor } from "@winnow/core";
import { WIRE_TYPES } from "./data-type.ts";
import { packedBytes, stringsBytes, writePacked, writeStrings } from "./packed-values.ts";

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
  const valueBytes =
    tensor.dtype === "string" ? stringsBytes(field, tensor.data) : packedBytes(tensor);
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
  writePacked(writer, tensor);
}

/** Bytes of one dimension. A size of 0 is not written. */
function dimBytes(size: number): number {
  return size === 0 ? 0 : 1 + sizeOfVarint(size);
}
