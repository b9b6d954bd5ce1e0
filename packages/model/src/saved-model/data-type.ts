// TensorFlow's numbers for element types (tensorflow/core/framework/types.proto) and how the types
// Winnow computes with lie in memory.

import type { Dtype, DtypeArrays, Tensor } from "@winnow/core";

const DTYPE_OF_NUMBER: ReadonlyMap<number, Dtype> = new Map([
  [1, "float32"],
  [2, "float64"],
  [3, "int32"],
  [4, "uint8"],
  [5, "int16"],
  [6, "int8"],
  [7, "string"],
  [9, "int64"],
  [10, "bool"],
  [17, "uint16"],
  [22, "uint32"],
  [23, "uint64"],
]);

const OTHER_NAMES: ReadonlyMap<number, string> = new Map([
  [0, "DT_INVALID"],
  [8, "complex64"],
  [14, "bfloat16"],
  [18, "complex128"],
  [19, "half"],
  [20, "resource"],
  [21, "variant"],
]);

/** Dtypes with a fixed number of bytes per element. */
export type NumericDtype = Exclude<Dtype, "string">;

const ARRAYS: {
  readonly [D in NumericDtype]: {
    readonly BYTES_PER_ELEMENT: number;
    new (buffer: ArrayBuffer): DtypeArrays[D];
  };
} = {
  float32: Float32Array,
  float64: Float64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
};

/** The dtype of a `DataType` number; `undefined` for types Winnow does not compute with. */
export function dtypeOfNumber(number: number): Dtype | undefined {
  return DTYPE_OF_NUMBER.get(number);
}

/** The `DataType` number of a dtype. */
export function numberOfDtype(dtype: Dtype): number {
  for (const [number, name] of DTYPE_OF_NUMBER) if (name === dtype) return number;
  throw new RangeError(dtype);
}

/** A name for any `DataType` number, for messages. */
export function typeName(number: number): string {
  return DTYPE_OF_NUMBER.get(number) ?? OTHER_NAMES.get(number) ?? `DataType ${number}`;
}

/** Bytes of one element. */
export function elementBytes(dtype: NumericDtype): number {
  return ARRAYS[dtype].BYTES_PER_ELEMENT;
}

/** A numeric tensor over memory it takes over; the buffer holds exactly its elements. */
export function tensorOver(
  dtype: NumericDtype,
  shape: readonly number[],
  buffer: ArrayBuffer,
): Tensor {
  return { dtype, shape, data: new ARRAYS[dtype](buffer) } as Tensor;
}
