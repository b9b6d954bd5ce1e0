// Allocates the outputs of all host operations within one set of limits, so that no small request
// can make a large tensor (OneHot, Tile, Fill, Pad, StringNGrams).

import { dtypeArrays } from "../../tensor/dtype.ts";
import type { Dtype, DtypeArrays, NumericArray, NumericDtype } from "../../tensor/dtype.ts";
import { WinnowError } from "../../errors/errors.ts";
import { StringColumn } from "../../tensor/string-column.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { elementCount } from "../../tensor/tensor.ts";

/** Values one host operation may give in one output. */
export const HOST_OUTPUT_VALUES_MAX: number = 2 ** 24;
/** Strings one host operation may give in one output: during the operation each is an object. */
export const HOST_OUTPUT_STRINGS_MAX: number = 2 ** 20;
/** Bytes of text one host operation may give in one output. */
export const HOST_OUTPUT_BYTES_MAX: number = 2 ** 28;

/**
 * Number of values of a shape that a request may have chosen.
 * @throws WinnowError INVALID_ARGUMENT for a negative or fractional size, RESOURCE_EXHAUSTED over
 * the limit
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
  return new dtypeArrays[dtype](outputCount(shape)) as DtypeArrays[D] & NumericArray;
}

/** A tensor of a dtype, a shape and values, which the caller knows to fit. */
export function tensorOf(dtype: Dtype, shape: readonly number[], data: DtypeArrays[Dtype]): Tensor {
  return { dtype, shape, data } as Tensor;
}

/** As `outputCount`, with the limit for strings. */
export function stringCount(shape: readonly number[]): number {
  const count = outputCount(shape);
  if (count <= HOST_OUTPUT_STRINGS_MAX) return count;
  const text = `A host operation may give ${HOST_OUTPUT_STRINGS_MAX} strings`;
  throw new WinnowError("RESOURCE_EXHAUSTED", `${text}; shape [${shape.join(",")}] has ${count}`);
}

/** Refuses texts that are together longer than one operation may give. @throws WinnowError RESOURCE_EXHAUSTED */
export function assertTextFits(bytes: number): void {
  if (bytes <= HOST_OUTPUT_BYTES_MAX) return;
  const text = `A host operation may give ${HOST_OUTPUT_BYTES_MAX} bytes of text, not ${bytes}`;
  throw new WinnowError("RESOURCE_EXHAUSTED", `${text} and more`);
}

/** A string tensor of these strings. @throws WinnowError RESOURCE_EXHAUSTED */
export function stringsOf(shape: readonly number[], strings: readonly Uint8Array[]): Tensor {
  return stringsMade(shape, (at) => strings[at]!);
}

/**
 * A string tensor of strings that are made one after the other, and no further than the limits go: a request may
 * ask for many that together are longer than itself. @throws WinnowError RESOURCE_EXHAUSTED
 */
export function stringsMade(
  shape: readonly number[],
  make: (position: number) => Uint8Array,
): Tensor {
  let bytes = 0;
  const strings = Array.from({ length: stringCount(shape) }, (_, at) => {
    const string = make(at);
    bytes += string.length;
    assertTextFits(bytes);
    return string;
  });
  return tensorOf("string", shape, StringColumn.fromBytes(strings));
}
