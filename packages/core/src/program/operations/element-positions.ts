// Most operations that move values reduce to one question: from which input position does each
// output value come? Strides enumerate these positions: broadcasting is a stride of 0, reversing a
// negative stride, transposing a permutation of strides.

import type { NumericArray } from "../../tensor/dtype.ts";
import { StringColumn } from "../../tensor/string-column.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { invalid } from "../node-error.ts";
import {
  assertTextFits,
  outputCount,
  stringCount,
  stringsMade,
  tensorOf,
  zeros,
} from "./tensor-memory.ts";

/** Position of no value: `takeValues` writes the fill value (0, or an empty string). */
export const NOWHERE = -1;

/** A walk over a tensor: `strides[axis]` values per step along each axis of `shape`. */
export interface Walk {
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly start?: number;
}

/** Row-major strides of a shape. */
export function stridesOf(shape: readonly number[]): number[] {
  const strides = Array.from<number>({ length: shape.length });
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    strides[axis] = stride;
    stride *= shape[axis]!;
  }
  return strides;
}

/** The positions a walk visits, in row-major order of its shape. */
export function walkPositions({ shape, strides, start = 0 }: Walk): Int32Array {
  const positions = new Int32Array(outputCount(shape));
  const steps = new Int32Array(shape.length);
  let position = start;
  for (let at = 0; at < positions.length; at += 1) {
    positions[at] = position;
    for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
      position += strides[axis]!;
      steps[axis]! += 1;
      if (steps[axis]! < shape[axis]!) break;
      position -= strides[axis]! * shape[axis]!;
      steps[axis] = 0;
    }
  }
  return positions;
}

/** The values of a tensor at these positions, as a tensor of another shape. */
export function takeValues(from: Tensor, positions: Int32Array, shape: readonly number[]): Tensor {
  if (from.dtype === "string") return takeStrings(from.data, positions, shape);
  const data = zeros(from.dtype, shape);
  const source = from.data as Float64Array;
  const target = data as unknown as Float64Array;
  for (let at = 0; at < positions.length; at += 1) {
    if (positions[at]! !== NOWHERE) target[at] = source[positions[at]!]!;
  }
  return tensorOf(from.dtype, shape, data);
}

const NO_BYTES = new Uint8Array();

function takeStrings(
  column: StringColumn,
  positions: Int32Array,
  shape: readonly number[],
): Tensor {
  stringCount(shape);
  if (positions.includes(NOWHERE)) {
    return stringsMade(shape, (place) => {
      const at = positions[place]!;
      return at === NOWHERE ? NO_BYTES : column.at(at);
    });
  }
  assertTextFits(positions.reduce((sum, at) => sum + column.lengthAt(at), 0));
  return tensorOf("string", shape, column.take(positions));
}

/** The tensor with another shape of as many values. */
export function reshaped(tensor: Tensor, shape: readonly number[]): Tensor {
  return { ...tensor, shape };
}

/** All values of several tensors of one dtype, one after another, as one dimension. */
export function joined(tensors: readonly Tensor[]): Tensor {
  const [first] = tensors;
  if (first === undefined) throw invalid("Nothing to concatenate");
  const other = tensors.find(({ dtype }) => dtype !== first.dtype);
  if (other !== undefined) throw invalid(`Cannot join ${first.dtype} and ${other.dtype} values`);
  const count = tensors.reduce((sum, { data }) => sum + data.length, 0);
  if (first.dtype === "string") {
    const columns = tensors.map(({ data }) => data as StringColumn);
    stringCount([count]);
    assertTextFits(columns.reduce((sum, { byteLength }) => sum + byteLength, 0));
    return tensorOf("string", [count], StringColumn.joined(columns));
  }
  const data = zeros(first.dtype, [count]);
  let at = 0;
  for (const tensor of tensors) {
    (data as Float64Array).set(tensor.data as Float64Array, at);
    at += tensor.data.length;
  }
  return tensorOf(first.dtype, [count], data);
}

/** The strings of a column as views. */
export function stringList(column: StringColumn): Uint8Array[] {
  return Array.from({ length: column.length }, (_, at) => column.at(at));
}

/** The common shape of two operands. @throws WinnowError INVALID_ARGUMENT `Incompatible shapes` */
export function broadcastShape(a: readonly number[], b: readonly number[]): number[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, axis) => {
    const sizeA = a[axis - rank + a.length] ?? 1;
    const sizeB = b[axis - rank + b.length] ?? 1;
    if (sizeA === sizeB || sizeB === 1) return sizeA;
    if (sizeA === 1) return sizeB;
    throw invalid(`Incompatible shapes: [${a.join(",")}] vs. [${b.join(",")}]`);
  });
}

/** Where each value of `to` comes from in an operand of shape `from`. */
export function broadcastPositions(from: readonly number[], to: readonly number[]): Int32Array {
  const strides = stridesOf(from);
  const spread = to.map((_, axis) => {
    const own = axis - to.length + from.length;
    return own < 0 || from[own] === 1 ? 0 : strides[own]!;
  });
  return walkPositions({ shape: to, strides: spread });
}

/** An operand broadcast to a shape; the operand itself if it has that shape. */
export function broadcastValues(tensor: Tensor, shape: readonly number[]): Tensor {
  const isSame =
    tensor.shape.length === shape.length &&
    shape.every((size, axis) => size === tensor.shape[axis]);
  return isSame ? tensor : takeValues(tensor, broadcastPositions(tensor.shape, shape), shape);
}

/** The values of a numeric tensor, typed for any numeric dtype. @throws RangeError for strings */
export function numbersOf(tensor: Tensor): NumericArray {
  if (tensor.data instanceof StringColumn) throw new RangeError("strings are not numbers");
  return tensor.data;
}
