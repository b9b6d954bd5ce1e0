// Strings as a checkpoint stores them; the layout is drawn in string-region.ts. Shared by the writer
// and by constants of the graph, which are read like stored tensors.

import { type StringColumn, extendRegister, maskChecksum } from "@winnow/core";

/** The part before the strings' own bytes. */
export interface StringHeader {
  /** Varint lengths and their masked checksum. */
  readonly header: Uint8Array;
  /** Running CRC register after the lengths and their checksum; continue it with the bytes. */
  readonly register: number;
}

/** Encodes the lengths of strings. */
export function encodeStringHeader(strings: StringColumn): StringHeader {
  const { offsets, length } = strings;
  const lengths = new Uint32Array(length);
  let size = 4;
  for (let index = 0; index < length; index += 1) {
    lengths[index] = offsets[index + 1]! - offsets[index]!;
    size += varintBytes(lengths[index]!);
  }
  const header = new Uint8Array(size);
  let at = 0;
  for (const value of lengths) at = putVarint(header, at, value);
  const register = extendRegister(-1, new Uint8Array(lengths.buffer));
  new DataView(header.buffer).setUint32(at, maskChecksum(~register >>> 0), true);
  return { header, register: extendRegister(register, header.subarray(at)) };
}

/** The bytes of a column alone, a view. */
export function columnBytes(strings: StringColumn): Uint8Array {
  return strings.bytes.subarray(strings.offsets[0], strings.offsets[strings.length]);
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let left = value; left >= 0x80; left = Math.floor(left / 128)) bytes += 1;
  return bytes;
}

function putVarint(target: Uint8Array, at: number, value: number): number {
  let position = at;
  let left = value;
  for (; left >= 0x80; left = Math.floor(left / 128)) {
    target[position] = (left % 128) | 0x80;
    position += 1;
  }
  target[position] = left;
  return position + 1;
}
