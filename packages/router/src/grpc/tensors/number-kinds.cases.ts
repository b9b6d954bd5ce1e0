// Every numeric dtype: what its values may be, where a TensorProto keeps them, which array holds them.

import { StringColumn, type Dtype, type Tensor } from "@winnow/core";
import fc from "fast-check";
import type { TensorMessage } from "../fixtures/grpc-client.ts";

/** One dtype. */
export interface Kind {
  readonly dtype: Exclude<Dtype, "string">;
  readonly name: string;
  readonly field: keyof TensorMessage;
  readonly value: fc.Arbitrary<number | bigint>;
  readonly array: (values: readonly (number | bigint)[]) => Tensor["data"];
}

const integers = (bits: number, isSigned: boolean): fc.Arbitrary<number> =>
  isSigned
    ? fc.integer({ min: -(2 ** (bits - 1)), max: 2 ** (bits - 1) - 1 })
    : fc.integer({ min: 0, max: 2 ** bits - 1 });
const numbers = (values: readonly (number | bigint)[]): number[] => values.map(Number);
const bigs = (values: readonly (number | bigint)[]): bigint[] => values.map(BigInt);

/** All of them. */
export const KINDS: readonly Kind[] = [
  {
    dtype: "float32",
    name: "DT_FLOAT",
    field: "float_val",
    value: fc.float({ noNaN: true }),
    array: (values) => Float32Array.from(numbers(values)),
  },
  {
    dtype: "float64",
    name: "DT_DOUBLE",
    field: "double_val",
    value: fc.double({ noNaN: true }),
    array: (values) => Float64Array.from(numbers(values)),
  },
  {
    dtype: "int32",
    name: "DT_INT32",
    field: "int_val",
    value: integers(32, true),
    array: (values) => Int32Array.from(numbers(values)),
  },
  {
    dtype: "int16",
    name: "DT_INT16",
    field: "int_val",
    value: integers(16, true),
    array: (values) => Int16Array.from(numbers(values)),
  },
  {
    dtype: "int8",
    name: "DT_INT8",
    field: "int_val",
    value: integers(8, true),
    array: (values) => Int8Array.from(numbers(values)),
  },
  {
    dtype: "uint8",
    name: "DT_UINT8",
    field: "int_val",
    value: integers(8, false),
    array: (values) => Uint8Array.from(numbers(values)),
  },
  {
    dtype: "uint16",
    name: "DT_UINT16",
    field: "int_val",
    value: integers(16, false),
    array: (values) => Uint16Array.from(numbers(values)),
  },
  {
    dtype: "uint32",
    name: "DT_UINT32",
    field: "uint32_val",
    value: integers(32, false),
    array: (values) => Uint32Array.from(numbers(values)),
  },
  {
    dtype: "int64",
    name: "DT_INT64",
    field: "int64_val",
    value: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    array: (values) => BigInt64Array.from(bigs(values)),
  },
  {
    dtype: "uint64",
    name: "DT_UINT64",
    field: "uint64_val",
    value: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    array: (values) => BigUint64Array.from(bigs(values)),
  },
  {
    dtype: "bool",
    name: "DT_BOOL",
    field: "bool_val",
    value: fc.integer({ min: 0, max: 1 }),
    array: (values) => Uint8Array.from(numbers(values)),
  },
];

/** Values as protobufjs wants and gives them. */
export function asMessageValues(kind: Kind, values: readonly (number | bigint)[]): unknown[] {
  if (kind.dtype === "bool") return values.map((value) => value === 1);
  return values.map((value) => (typeof value === "bigint" ? String(value) : value));
}

/** The memory of an array: -0 and 0 differ. */
export const bytesOf = (data: Tensor["data"]): Buffer =>
  data instanceof StringColumn
    ? Buffer.from(data.bytes)
    : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
