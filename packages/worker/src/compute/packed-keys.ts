// Keys and ids on their way between threads. They are plain arrays, each alone in its buffer so that the
// buffer can be transferred, and never objects of a class, which would lose their methods. Keys in shared
// memory are not transferred.

import { StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";

import type { PackedKeys } from "./compute.ts";

/** Packs a one-dimensional tensor of keys into newly made arrays. */
export function packKeys(keys: Tensor): PackedKeys {
  if (keys.dtype === "string") return { dtype: "string", strings: packStrings(keys.data) };
  if (keys.dtype === "int32") return { dtype: "int32", values: keys.data.slice() };
  if (keys.dtype === "int64") return { dtype: "int64", values: keys.data.slice() };
  throw new RangeError(`keys of dtype ${keys.dtype}`);
}

/** The same keys, copied into memory that all threads can read. */
export function sharedKeys(keys: Tensor): Tensor {
  const packed = packKeys(keys);
  if (packed.dtype === "string") {
    const { offsets, bytes } = packed.strings;
    const strings = { offsets: inSharedMemory(offsets), bytes: inSharedMemory(bytes) };
    return unpackKeys({ dtype: "string", strings });
  }
  return unpackKeys(
    packed.dtype === "int32"
      ? { dtype: "int32", values: inSharedMemory(packed.values) }
      : { dtype: "int64", values: inSharedMemory(packed.values) },
  );
}

/** A copy of row numbers in memory that all threads can read. */
export function sharedRows(rows: Uint32Array): Uint32Array {
  return inSharedMemory(rows);
}

/** Bytes of packed keys. */
export function bytesOfKeys(packed: PackedKeys): number {
  if (packed.dtype !== "string") return packed.values.byteLength;
  return packed.strings.offsets.byteLength + packed.strings.bytes.byteLength;
}

/** The tensor as plain arrays over the same memory. */
export function viewOfKeys(keys: Tensor): PackedKeys {
  if (keys.dtype === "string") {
    const { offsets, bytes } = keys.data;
    return { dtype: "string", strings: { offsets, bytes } };
  }
  if (keys.dtype === "int32") return { dtype: "int32", values: keys.data };
  if (keys.dtype === "int64") return { dtype: "int64", values: keys.data };
  throw new RangeError(`keys of dtype ${keys.dtype}`);
}

/** The tensor of packed keys, over the same arrays. */
export function unpackKeys(packed: PackedKeys): Tensor {
  if (packed.dtype === "string") {
    const data = new StringColumn(packed.strings.offsets, packed.strings.bytes);
    return { dtype: "string", shape: [data.length], data };
  }
  if (packed.dtype === "int32") {
    return { dtype: "int32", shape: [packed.values.length], data: packed.values };
  }
  return { dtype: "int64", shape: [packed.values.length], data: packed.values };
}

/** Whether two tensors of keys are the same, value by value. */
export function areSameKeys(a: Tensor | undefined, b: Tensor | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  const [one, other] = [viewOfKeys(a), viewOfKeys(b)];
  if (one.dtype === "string" && other.dtype === "string") {
    const [texts, others] = [a.data as StringColumn, b.data as StringColumn];
    return areSameBytes(texts.offsets, others.offsets) && areSameBytes(texts.bytes, others.bytes);
  }
  if (one.dtype === "string" || other.dtype === "string") return false;
  return one.dtype === other.dtype && areSameBytes(one.values, other.values);
}

function areSameBytes(a: ArrayBufferView, b: ArrayBufferView): boolean {
  return Buffer.compare(bytesOf(a), bytesOf(b)) === 0;
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** The buffers to transfer with packed keys. */
export function buffersOf(packed: PackedKeys): ArrayBuffer[] {
  if (packed.dtype !== "string") return [packed.values.buffer as ArrayBuffer];
  return [packed.strings.offsets.buffer as ArrayBuffer, packed.strings.bytes.buffer as ArrayBuffer];
}

function packStrings(column: StringColumn): { offsets: Uint32Array; bytes: Uint8Array } {
  const start = column.offsets[0]!;
  return {
    // Without a shift `slice` copies the offsets in a tenth of the time of a callback per offset.
    offsets: start === 0 ? column.offsets.slice() : column.offsets.map((each) => each - start),
    bytes: column.bytes.slice(start, start + column.byteLength),
  };
}

function inSharedMemory<Values extends Uint32Array | Uint8Array | Int32Array | BigInt64Array>(
  values: Values,
): Values {
  const memory = new SharedArrayBuffer(values.byteLength);
  new Uint8Array(memory).set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  const type = values.constructor as new (memory: SharedArrayBuffer) => Values;
  return new type(memory);
}
