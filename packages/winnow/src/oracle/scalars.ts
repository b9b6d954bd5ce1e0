// Single values of tensors, of which questions, candidates and keys are made.

import { type Dtype, StringColumn, type Tensor, dtypeArrays, tensor } from "@winnow/core";

/** A string's bytes in latin1, an integer, or a number. */
export type ScalarValue = string | bigint | number;

/** One value of a tensor: integers of 64 bits as bigints. */
export function scalarAt({ dtype, data }: Tensor, at: number): ScalarValue {
  return dtype === "string" ? Buffer.from(data.at(at)).toString("latin1") : data[at]!;
}

/** A tensor of these values, row-major. */
export function tensorOfScalars(
  dtype: Dtype,
  shape: readonly number[],
  values: readonly ScalarValue[],
): Tensor {
  if (dtype === "string") {
    const bytes = values.map((value) => Buffer.from(String(value), "latin1"));
    return tensor("string", shape, StringColumn.fromBytes(bytes));
  }
  const data = new dtypeArrays[dtype](values.length);
  const isBig = data instanceof BigInt64Array || data instanceof BigUint64Array;
  for (const [at, value] of values.entries()) {
    (data as { [at: number]: bigint | number })[at] = isBig ? BigInt(value) : Number(value);
  }
  return { dtype, shape, data } as Tensor;
}
