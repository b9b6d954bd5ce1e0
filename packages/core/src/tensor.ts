// Tensors as they pass between the predict API, programs and the dense engine: row-major values in
// the typed array of their dtype.

import type { Dtype, DtypeArrays } from "./dtype.ts";
import { StringColumn } from "./string-column.ts";

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
