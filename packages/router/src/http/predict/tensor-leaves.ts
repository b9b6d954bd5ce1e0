// The checked leaves of a JSON list → the typed array of a tensor, with one loop per dtype.

import { StringColumn, dtypeArrays, tensor } from "@winnow/core";
import type { Dtype, Tensor } from "@winnow/core";
import { KIND } from "../json/json-reader.ts";
import type { JsonReader, ValueIndex } from "../json/json-reader.ts";

/** Values in order; each fits the dtype of the tensor. */
export interface Leaves {
  readonly document: JsonReader;
  readonly values: readonly ValueIndex[];
  /** The bytes of values that were base64 objects. */
  readonly decoded: ReadonlyMap<ValueIndex, Uint8Array>;
}

/** Makes a tensor of these leaves. */
export function packLeaves(leaves: Leaves, dtype: Dtype, shape: readonly number[]): Tensor {
  if (dtype === "string") return tensor(dtype, shape, packStrings(leaves));
  if (dtype === "bool") return tensor(dtype, shape, packBooleans(leaves));
  if (dtype === "int64") {
    return tensor(dtype, shape, BigInt64Array.from(packBigIntegers(leaves)));
  }
  if (dtype === "uint64") {
    return tensor(dtype, shape, BigUint64Array.from(packBigIntegers(leaves)));
  }
  const numbers = new dtypeArrays[dtype](leaves.values.length);
  return { dtype, shape, data: packNumbers(leaves, numbers) } as Tensor;
}

/** The exact value of an integer. */
export function bigIntegerOf(document: JsonReader, value: ValueIndex): bigint {
  const number = document.numbers[value]!;
  if (Number.isSafeInteger(number)) return BigInt(number);
  return BigInt(Buffer.from(document.bytesOf(value)).toString("latin1"));
}

function packNumbers<Numbers extends { [index: number]: number }>(
  leaves: Leaves,
  numbers: Numbers,
): Numbers {
  const { values, document } = leaves;
  for (let index = 0; index < values.length; index++) {
    numbers[index] = document.numbers[values[index]!]!;
  }
  return numbers;
}

function packBooleans(leaves: Leaves): Uint8Array {
  const { kinds } = leaves.document;
  return Uint8Array.from(leaves.values, (value) => (kinds[value] === KIND.true ? 1 : 0));
}

function packBigIntegers(leaves: Leaves): bigint[] {
  return leaves.values.map((value) => bigIntegerOf(leaves.document, value));
}

function packStrings(leaves: Leaves): StringColumn {
  const { values, document, decoded } = leaves;
  if (decoded.size > 0) {
    const strings = values.map((value) => decoded.get(value) ?? document.bytesOf(value));
    return StringColumn.fromBytes(strings);
  }
  const { from, to, bytes: source } = document;
  const offsets = new Uint32Array(values.length + 1);
  let size = 0;
  for (let index = 0; index < values.length; index++) {
    const value = values[index]!;
    size += to[value]! - from[value]!;
    offsets[index + 1] = size;
  }
  const bytes = new Uint8Array(size);
  let at = 0;
  for (const value of values) {
    const end = to[value]!;
    for (let position = from[value]!; position < end; position++) bytes[at++] = source[position]!;
  }
  return new StringColumn(offsets, bytes);
}
