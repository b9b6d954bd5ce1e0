// Keys and excluded ids on the wire: byte strings, or int64 for every integer type of a table; and
// the byte strings of a reply's ids.
//
//   Keys     { oneof: strings 1: Strings; integers 2: bytes }
//   Strings  { lengths 1: bytes; data 2: bytes }

import { WIRE, WinnowError, tensor } from "@winnow/core";
import type { StringColumn, Tensor } from "@winnow/core";
import { NO_BYTES, NO_UINTS } from "./frame-reader.ts";
import { malformed } from "./malformed-frame.ts";
import type { FrameReader } from "./frame-reader.ts";
import type { FrameWriter } from "./frame-writer.ts";

const { bytes: LENGTH_DELIMITED } = WIRE;
const STRINGS = 1;
const INTEGERS = 2;
const LENGTHS = 1;
const DATA = 2;

/** Writes string, int32 or int64 keys as the `Keys` message of a field. */
export function writeKeys(writer: FrameWriter, field: number, keys: Tensor): void {
  writer.begin(field, keyBytes(keys));
  if (keys.dtype === "string") writeStrings(writer, STRINGS, keys.data);
  else if (keys.dtype === "int64") writer.bytes(INTEGERS, keys.data);
  else if (keys.dtype === "int32") writer.bytes(INTEGERS, BigInt64Array.from(keys.data, BigInt));
  else throw new WinnowError("INVALID_ARGUMENT", `A key cannot be of type ${keys.dtype}`);
  writer.end();
}

/** About how many bytes keys or ids take on the wire. */
export function keyBytes({ dtype, data }: Tensor): number {
  return dtype === "string" ? data.byteLength + 4 * data.length : 8 * data.length;
}

/** A `Keys` message: string or int64 `[keys]`. @throws WinnowError INVALID_ARGUMENT */
export function readKeys(reader: FrameReader, field: string): Tensor {
  return reader.nested(() => {
    let keys: Tensor | undefined;
    while (reader.next()) {
      if (reader.tag === STRINGS * 8 + LENGTH_DELIMITED) keys = readStrings(reader, field);
      else if (reader.tag === INTEGERS * 8 + LENGTH_DELIMITED) {
        const values = reader.int64Array(field);
        keys = tensor("int64", [values.length], values);
      }
    }
    if (keys === undefined) throw malformed(field, "has no keys");
    return keys;
  });
}

/** Writes byte strings as the `Strings` message of a field. */
export function writeStrings(writer: FrameWriter, field: number, column: StringColumn): void {
  const { offsets, bytes, length } = column;
  writer.begin(field, column.byteLength + 4 * length);
  writer.differences(LENGTHS, offsets);
  writer.span(DATA, { bytes, from: offsets[0]!, to: offsets[length]! });
  writer.end();
}

/** A `Strings` message. @throws WinnowError INVALID_ARGUMENT if lengths and data do not agree */
export function readStrings(reader: FrameReader, field: string): Tensor {
  return reader.nested(() => {
    let lengths = NO_UINTS;
    let data = NO_BYTES;
    while (reader.next()) {
      if (reader.tag === LENGTHS * 8 + LENGTH_DELIMITED) lengths = reader.uint32Array(field);
      else if (reader.tag === DATA * 8 + LENGTH_DELIMITED) data = reader.byteArray();
    }
    return tensor("string", [lengths.length], reader.strings(lengths, data, field));
  });
}
