// Where host operations get the memory of their outputs: one door with one limit, so that no request
// can make a small message into a large tensor (OneHot, Tile, Fill, Pad, StringNGrams).

import { WinnowError } from "../errors.ts";
import { StringColumn } from "../string-column.ts";
import type { Dtype, DtypeArrays, Tensor } from "../tensor.ts";
import { elementCount } from "../tensor.ts";

/** Values one host operation may give in one output. */
export const HOST_OUTPUT_VALUES_MAX: number = 2 ** 24;
/** Strings one host operation may give in one output: each is an object for a while. */
export const HOST_OUTPUT_STRINGS_MAX: number = 2 ** 20;
/** Bytes of text one host operation may give in one output. */
export const HOST_OUTPUT_BYTES_MAX: number = 2 ** 28;

/** Every dtype that is not a string. */
export type NumericDtype = Exclude<Dtype, "string">;
/** Values that JavaScript reads as numbers. */
export type NumberArray = DtypeArrays[Exclude<NumericDtype, "int64" | "uint64">];
/** Values that JavaScript reads as bigints. */
export type BigIntArray = BigInt64Array | BigUint64Array;
/** Values of a numeric tensor. */
export type NumericArray = NumberArray | BigIntArray;

const CONSTRUCTORS: { readonly [D in NumericDtype]: new (length: number) => DtypeArrays[D] } = {
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

/**
 * Number of values of a shape that a request may have chosen.
 * @throws WinnowError INVALID_ARGUMENT for a size that is none, RESOURCE_EXHAUSTED over the limit
 */
export function outputCount(shape: readonly number[]): number {
  const wrong = shape.findIndex((size) => !Number.isInteger(size) || size < 0);
  if (wrong >= 0) {
    throw new WinnowError("INVALID_ARGUMENT", `Dimension ${shape[wrong]} must be >= 0`);
  }
  const count = elementCount(shape);
  if (count > HOST_OUTPUT_VALUES_MAX) {
    const text = `A host operation may give ${HOST_OUTPUT_VALUES_MAX} values`;
    throw new WinnowError("RESOURCE_EXHAUSTED", `${text}; shape [${shape.join(",")}] has ${count}`);
  }
  return count;
}

/** Zeros of one dtype. @throws WinnowError RESOURCE_EXHAUSTED */
export function zeros<D extends NumericDtype>(
  dtype: D,
  shape: readonly number[],
): DtypeArrays[D] & NumericArray {
  return new CONSTRUCTORS[dtype](outputCount(shape)) as DtypeArrays[D] & NumericArray;
}

/** Puts a dtype, a shape and values together; the caller knows that they fit. */
export function tensorOf(dtype: Dtype, shape: readonly number[], data: DtypeArrays[Dtype]): Tensor {
  return { dtype, shape, data } as Tensor;
}

/** As `outputCount`, for strings. */
export function stringCount(shape: readonly number[]): number {
  const count = outputCount(shape);
  if (count <= HOST_OUTPUT_STRINGS_MAX) return count;
  const text = `A host operation may give ${HOST_OUTPUT_STRINGS_MAX} strings`;
  throw new WinnowError("RESOURCE_EXHAUSTED", `${text}; shape [${shape.join(",")}] has ${count}`);
}

/** A string tensor of these strings. @throws WinnowError RESOURCE_EXHAUSTED */
export function stringsOf(shape: readonly number[], strings: readonly Uint8Array[]): Tensor {
  stringCount(shape);
  const bytes = strings.reduce((sum, string) => sum + string.length, 0);
  if (bytes > HOST_OUTPUT_BYTES_MAX) {
    const text = `A host operation may give ${HOST_OUTPUT_BYTES_MAX} bytes of text, not ${bytes}`;
    throw new WinnowError("RESOURCE_EXHAUSTED", text);
  }
  return tensorOf("string", shape, StringColumn.fromBytes(strings));
}

/** Whether values are bigints. */
export function isBigInts(data: DtypeArrays[Dtype]): data is BigIntArray {
  return data instanceof BigInt64Array || data instanceof BigUint64Array;
}
