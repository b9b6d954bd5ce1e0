// Tensors as they pass between the predict API, programs and the dense engine: row-major values in
// the typed array of their dtype.

import type { Dtype, DtypeArrays } from "./dtype.ts";
import { WinnowError } from "../errors/errors.ts";
import { StringColumn } from "./string-column.ts";

/** A tensor of one given dtype; `data` holds exactly the product of `shape` values. */
export interface TensorOf<D extends Dtype> {
  readonly dtype: D;
  readonly shape: readonly number[];
  readonly data: DtypeArrays[D];
  /**
   * For a ragged `[rows, values]`: the number of valid values in each row; values behind them are
   * padding. Absent where every row is full, which is always the case except for lists of
   * candidates that exclusions have shortened. (TensorFlow's `RaggedTensor.row_lengths`.)
   */
  readonly rowLengths?: Uint32Array | undefined;
}

/** A tensor of any dtype; `dtype` is the tag of the union. */
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

/**
 * Refuses a ragged tensor where equal rows are needed. `needs` ends the message: who needs them,
 * and what to do. @throws WinnowError INVALID_ARGUMENT naming a shortest and a longest row
 */
export function requireEqualRows({ rowLengths }: Tensor, needs: string): void {
  if (rowLengths === undefined) return;
  const [least, most] = [Math.min(...rowLengths), Math.max(...rowLengths)];
  const [short, long] = [rowLengths.indexOf(least), rowLengths.indexOf(most)];
  throw new WinnowError(
    "INVALID_ARGUMENT",
    `The request admits ${least} items for instance ${short} and ${most} for instance ${long}; ${needs}`,
  );
}

/** Dtype and shape that a signature declares. Size -1: any; `undefined` shape: any rank. */
export interface TensorSpec {
  readonly dtype: Dtype;
  readonly shape: readonly number[] | undefined;
}
