// Numbers and strings as the `bytes` fields of messages, little-endian (as every machine Winnow runs
// on). A received field is a view into its message at any offset: it is copied, for alignment and so
// that a kept array does not keep its whole message.

import { StringColumn, WinnowError } from "@winnow/core";

interface NumberArray {
  readonly buffer: ArrayBufferLike;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** The memory of a typed array, not copied. */
export function bytesOf(values: NumberArray): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** A received field as numbers of 2, 4 or 8 bytes. @throws WinnowError INVALID_ARGUMENT */
export function unpackFloats(bytes: Uint8Array, field: string): Float32Array {
  return new Float32Array(copyOf(bytes, 4, field));
}

/** @see unpackFloats */
export function unpackUint16(bytes: Uint8Array, field: string): Uint16Array {
  return new Uint16Array(copyOf(bytes, 2, field));
}

/** @see unpackFloats */
export function unpackUint32(bytes: Uint8Array, field: string): Uint32Array {
  return new Uint32Array(copyOf(bytes, 4, field));
}

/** @see unpackFloats */
export function unpackInt32(bytes: Uint8Array, field: string): Int32Array {
  return new Int32Array(copyOf(bytes, 4, field));
}

/** @see unpackFloats */
export function unpackInt64(bytes: Uint8Array, field: string): BigInt64Array {
  return new BigInt64Array(copyOf(bytes, 8, field));
}

/** Byte strings as lengths and joined bytes. */
export function packStrings(column: StringColumn): { lengths: Uint8Array; data: Uint8Array } {
  const { offsets, bytes, length } = column;
  const lengths = new Uint32Array(length);
  for (let index = 0; index < length; index += 1) {
    lengths[index] = offsets[index + 1]! - offsets[index]!;
  }
  return { lengths: bytesOf(lengths), data: bytes.subarray(offsets[0], offsets[length]) };
}

/** @throws WinnowError INVALID_ARGUMENT when the lengths do not give the data */
export function unpackStrings(
  packed: { readonly lengths: Uint8Array; readonly data: Uint8Array },
  field: string,
): StringColumn {
  const lengths = unpackUint32(packed.lengths, field);
  const offsets = new Uint32Array(lengths.length + 1);
  let end = 0;
  for (const [index, length] of lengths.entries()) {
    end += length;
    if (end > packed.data.length) break;
    offsets[index + 1] = end;
  }
  if (end !== packed.data.length) throw malformed(field, "its lengths do not give its data");
  return new StringColumn(offsets, new Uint8Array(copyOf(packed.data, 1, field)));
}

/** The error for a message that cannot be what its sender meant. */
export function malformed(field: string, reason: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `Malformed frame: ${field}: ${reason}`);
}

/** Text cut so that its UTF-8 form stays below 1 KB: long status details wedge gRPC connections. */
export function cutDetails(text: string): string {
  return text.length <= DETAIL_CHARACTERS_MAX ? text : `${text.slice(0, DETAIL_CHARACTERS_MAX)}…`;
}

/** A UTF-16 code unit takes at most three bytes of UTF-8. */
const DETAIL_CHARACTERS_MAX = 340;

function copyOf(bytes: Uint8Array, unitBytes: number, field: string): ArrayBuffer {
  if (bytes.length % unitBytes !== 0) {
    throw malformed(field, `${bytes.length} bytes are not whole numbers of ${unitBytes} bytes`);
  }
  const copy = new Uint8Array(bytes.length);
  copy.set(bytes);
  return copy.buffer;
}
