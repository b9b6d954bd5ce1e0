// Element types of tensors, and the one table of the typed array that holds values of each.
// Names are TensorFlow's without the `DT_` prefix, in lower case.

import type { StringColumn } from "./string-column.ts";

/** Array type of each dtype; bool is one byte per value, 0 or 1. */
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
/** Every dtype that is not a string: a fixed number of bytes per value. */
export type NumericDtype = Exclude<Dtype, "string">;
/** Values that JavaScript reads as numbers. */
export type NumberArray = DtypeArrays[Exclude<NumericDtype, "int64" | "uint64">];
/** Values that JavaScript reads as bigints. */
export type BigIntArray = BigInt64Array | BigUint64Array;
/** Values of a numeric tensor. */
export type NumericArray = NumberArray | BigIntArray;

/** Makes the array of one dtype: zeros, or a view of a buffer or of a part of it. */
interface ArrayConstructor<D extends NumericDtype> {
  readonly BYTES_PER_ELEMENT: number;
  new (lengthOrBuffer: number | ArrayBuffer, byteOffset?: number, length?: number): DtypeArrays[D];
}

/** The typed array of each numeric dtype. */
export const dtypeArrays: { readonly [D in NumericDtype]: ArrayConstructor<D> } = {
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

/** Narrows a name to a dtype. */
export function isDtype(name: string): name is Dtype {
  return name === "string" || Object.hasOwn(dtypeArrays, name);
}

/** Whether values are bigints. */
export function isBigInts(data: DtypeArrays[Dtype]): data is BigIntArray {
  return data instanceof BigInt64Array || data instanceof BigUint64Array;
}
