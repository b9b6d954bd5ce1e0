// TensorFlow's numbers for element types (tensorflow/core/framework/types.proto). Types that Winnow
// computes with have a Dtype; the others have only a name, for error messages.

import { dtypeArrays, isDtype } from "@winnow/core";
import type { Dtype, NumericDtype, Tensor } from "@winnow/core";

const NAMES: ReadonlyMap<number, string> = new Map([
  [1, "float32"],
  [2, "float64"],
  [3, "int32"],
  [4, "uint8"],
  [5, "int16"],
  [6, "int8"],
  [7, "string"],
  [8, "complex64"],
  [9, "int64"],
  [10, "bool"],
  [14, "bfloat16"],
  [17, "uint16"],
  [18, "complex128"],
  [19, "half"],
  [20, "resource"],
  [21, "variant"],
  [22, "uint32"],
  [23, "uint64"],
]);

const NUMBERS: ReadonlyMap<string, number> = new Map(
  Array.from(NAMES, ([number, name]) => [name, number]),
);

/** The dtype of a `DataType` number; `undefined` for types Winnow does not compute with. */
export function dtypeOfNumber(number: number): Dtype | undefined {
  const name = typeName(number);
  return isDtype(name) ? name : undefined;
}

/** Floats of two bytes, which Winnow reads as the float32 values that they are. */
export type NarrowFloat = "half" | "bfloat16";

/** Element types of stored tensors that can be read. */
export type StoredDtype = Dtype | NarrowFloat;

/** Whether a name is that of a float of two bytes. */
export function isNarrowFloat(name: string): name is NarrowFloat {
  return name === "half" || name === "bfloat16";
}

/** The element type of a stored tensor; `undefined` for one that cannot be read. */
export function storedDtypeOf(number: number): StoredDtype | undefined {
  const name = typeName(number);
  return isDtype(name) || isNarrowFloat(name) ? name : undefined;
}

/** The `DataType` number of a dtype. */
export function numberOfDtype(dtype: StoredDtype): number {
  const number = NUMBERS.get(dtype);
  if (number === undefined) throw new RangeError(dtype);
  return number;
}

/** The name of a `DataType` number: `float32`, `resource`, or `DT_130` for one without a name. */
export function typeName(number: number): string {
  return NAMES.get(number) ?? `DT_${number}`;
}

/** Bytes of one element. */
export function elementBytes(dtype: NumericDtype | NarrowFloat): number {
  return isNarrowFloat(dtype) ? 2 : dtypeArrays[dtype].BYTES_PER_ELEMENT;
}

/**
 * A numeric tensor over a buffer that holds exactly its elements; the tensor takes the buffer over.
 */
export function tensorOver(
  dtype: NumericDtype,
  shape: readonly number[],
  buffer: ArrayBuffer,
): Tensor {
  return { dtype, shape, data: new dtypeArrays[dtype](buffer) } as Tensor;
}
