// Tensors as they pass between the predict API, programs and the dense engine: row-major values in
// the typed array of their dtype. Names are TensorFlow's without the `DT_` prefix, in lower case.

import { StringColumn } from "./string-column.ts";

/** Array type of each numeric dtype; bool is one byte per value, 0 or 1. */
export interface DtypeArrays {
  readonly float32: Float32Array;
  readonly float64: Float64Array;
  readonly int8: Int8Array;
  readonly uint8: Uint8Array;
  readonly int16: Int16Array;
  readonly uint16: Uint16Array;
  readonly int32: Int32Array;
  readonly uint32: Uint32Array;
  readonly int64: BigInt64Array;
  readonly uint64: BigUint64Array;
  readonly bool: Uint8Array;
  readonly string: StringColumn;
}

/** Element types Winnow computes with. */
export type Dtype = keyof DtypeArrays;

/** A tensor of one given dtype; `data` holds exactly the product of `shape` values. */
export interface TensorOf<D extends Dtype> {
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly data: DtypeArrays[D];
}

/** A tensor of any dtype, told apart by its `dtype`. */
export type Tensor = { [D in Dtype]: TensorOf<D> }[Dtype];

/** How many values a tensor of this shape holds; 1 for a scalar. */
export function elementCount(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** Makes a tensor. @throws RangeError when `data` does not hold the product of `shape` values. */
export function tensor<D extends Dtype>(
  dtype: D,
  shape: readonly number[],
  data: DtypeArrays[D],
): TensorOf<D> {
  if (data.length !== elementCount(shape)) {
    throw new RangeError(`${data.length} values cannot fill shape [${shape.join(",")}]`);
  }
  return { dtype, shape, data };
}

/** A string tensor from text. Shape defaults to one dimension. */
export function stringTensor(
  texts: readonly string[],
  shape: readonly number[] = [texts.length],
): TensorOf<"string"> {
  return tensor("string", shape, StringColumn.fromText(texts));
}

/** What a signature promises of one input or output. -1 is any size; `undefined` any rank. */
export interface TensorSpec {
  readonly dtype: Dtype;
  readonly shape: readonly number[] | undefined;
}
