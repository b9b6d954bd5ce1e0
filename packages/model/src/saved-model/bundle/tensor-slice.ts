// Slices of tensors. TensorFlow stores a large variable in pieces (a sharding policy, a sharded
// variable, a partitioner of TensorFlow 1): the index then has one entry of the whole, which lists
// the slices (tensor_slice.proto), and an entry for each slice under a binary key, in an encoding
// that keeps keys in order (tensorflow/core/util/saved_tensor_slice_util.cc, ordered_code.cc):
//
//   0 │ name, 0 escaped as 0 ff and ff as ff 0 │ 0 1 │ rank │ start, length of each dimension

import { WinnowError, excerpt } from "@winnow/core";
import type { ProtobufReader } from "@winnow/core";

const encoder = new TextEncoder();
/** The length of a dimension that a slice has whole. */
const WHOLE = -1;

/** A box within a tensor. */
export interface TensorSlice {
  readonly start: readonly number[];
  /** As the index writes them: -1 for a whole dimension. */
  readonly length: readonly number[];
}

/** Reads a TensorSliceProto. */
export function readTensorSlice(reader: ProtobufReader): TensorSlice {
  const start: number[] = [];
  const length: number[] = [];
  while (reader.next()) {
    if (reader.field !== 1) continue;
    const extent = reader.message();
    start.push(0);
    length.push(WHOLE);
    while (extent.next()) {
      if (extent.field === 1) start[start.length - 1] = extent.int();
      else if (extent.field === 2) length[length.length - 1] = extent.int();
    }
  }
  return { start, length };
}

/**
 * A slice as operations that save and restore name it: `40 8 0,10:-` is rows 0 to 9, all columns, of
 * `[40,8]`. `undefined` for the whole tensor. @throws WinnowError DATA_LOSS for any other text
 */
export function parseSliceName(text: string): TensorSlice | undefined {
  if (text === "") return undefined;
  const sizes = text.split(" ");
  const extents = sizes.pop()!.split(":");
  const start = extents.map((extent) => (extent === "-" ? 0 : Number(extent.split(",")[0])));
  const length = extents.map((extent) => (extent === "-" ? WHOLE : Number(extent.split(",")[1])));
  const shape = sizes.map(Number);
  const inside = sizesOfSlice({ start, length }, shape);
  const isNumeric = [...shape, ...start, ...length].every(Number.isSafeInteger);
  if (inside === undefined || !isNumeric) {
    throw new WinnowError("DATA_LOSS", `"${excerpt(text)}" names no slice of a tensor`);
  }
  return inside.join() === shape.join() ? undefined : { start, length: inside };
}

/** The sizes of a slice of a tensor of this shape; `undefined` where it lies outside of it. */
export function sizesOfSlice(
  { start, length }: TensorSlice,
  shape: readonly number[],
): readonly number[] | undefined {
  if (start.length !== shape.length) return undefined;
  const sizes = length.map((size, axis) => (size === WHOLE ? shape[axis]! : size));
  const fits = sizes.every(
    (size, axis) => size >= 0 && start[axis]! >= 0 && start[axis]! + size <= shape[axis]!,
  );
  return fits ? sizes : undefined;
}

/** Whether a key of the index is that of a slice. */
export function isSliceKey(key: Uint8Array): boolean {
  return key[0] === 0;
}

/** A binary key as text that differs for different keys. */
export function sliceKeyText(key: Uint8Array): string {
  return Buffer.from(key.buffer, key.byteOffset, key.byteLength).toString("latin1");
}

/** The key of a slice of a tensor (`EncodeTensorNameSlice`). */
export function sliceKeyOf(name: string, { start, length }: TensorSlice): Uint8Array {
  const bytes: number[] = [0];
  for (const byte of encoder.encode(name)) {
    if (byte === 0) bytes.push(0, 0xff);
    else if (byte === 0xff) bytes.push(0xff, 0);
    else bytes.push(byte);
  }
  bytes.push(0, 1, ...unsignedCode(start.length));
  for (const [axis, first] of start.entries()) {
    bytes.push(...signedCode(first), ...signedCode(length[axis]!));
  }
  return Uint8Array.from(bytes);
}

/** Number of bytes, then the bytes, highest first (`WriteNumIncreasing`). */
function unsignedCode(value: number): number[] {
  const bytes: number[] = [];
  for (let left = value; left > 0; left = Math.floor(left / 256)) bytes.unshift(left % 256);
  return [bytes.length, ...bytes];
}

/**
 * As many leading ones as there are bytes, of which the first stands for the sign, then the number,
 * highest byte first (`WriteSignedNumIncreasing`): 6 bits in one byte, 13 in two, 20 in three.
 */
function signedCode(value: number): number[] {
  const number = BigInt(value);
  let count = 1;
  while (number !== BigInt.asIntN(7 * count, number)) count += 1;
  const bits = BigInt.asUintN(8 * count, number);
  const ones = ((1n << BigInt(count)) - 1n) << BigInt(8 * count - count);
  const code = bits ^ ones;
  return Array.from({ length: count }, (_, index) =>
    Number((code >> BigInt(8 * (count - 1 - index))) & 0xffn),
  );
}
