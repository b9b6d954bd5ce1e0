// Strings as a checkpoint stores them; the layout is drawn in string-region.ts. Shared by the writer
// and by constants of the graph, which are read like stored tensors.

import {
  ProtobufWriter,
  type StringColumn,
  extendRegister,
  maskChecksum,
  sizeOfVarint,
} from "@winnow/core";

const CHECKSUM_BYTES = 4;

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
  let size = CHECKSUM_BYTES;
  for (let index = 0; index < length; index += 1) {
    lengths[index] = offsets[index + 1]! - offsets[index]!;
    size += sizeOfVarint(lengths[index]!);
  }
  const writer = new ProtobufWriter(size);
  for (const value of lengths) writer.varint(value);
  const register = extendRegister(-1, new Uint8Array(lengths.buffer));
  const header = writer.raw(Uint32Array.of(maskChecksum(~register >>> 0))).finish();
  return { header, register: extendRegister(register, header.subarray(size - CHECKSUM_BYTES)) };
}

/** The bytes of a column alone, a view. */
export function columnBytes(strings: StringColumn): Uint8Array {
  return strings.bytes.subarray(strings.offsets[0], strings.offsets[strings.length]);
}
