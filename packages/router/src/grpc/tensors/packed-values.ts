// Values of a tensor in a field of their own, as protobuf has them: numbers packed, strings one by one. Sizes first,
// then bytes.

import { isBigInts, sizeOfField, sizeOfWords } from "@winnow/core";
import type { ProtobufWriter, StringColumn, Tensor } from "@winnow/core";
import { WIRE_TYPES } from "./data-type.ts";

type Numeric = Exclude<Tensor, { readonly dtype: "string" }>;

/** Bytes of the packed values, without tag and length. */
export function packedBytes({ dtype, data }: Numeric): number {
  if (WIRE_TYPES[dtype].layout === "fixed") return data.byteLength;
  let bytes = 0;
  eachWord(data, (low, high) => {
    bytes += sizeOfWords(low, high);
  });
  return bytes;
}

/** Writes the packed values, without tag and length. */
export function writePacked(writer: ProtobufWriter, { dtype, data }: Numeric): void {
  if (WIRE_TYPES[dtype].layout === "fixed") writer.raw(data);
  else eachWord(data, (low, high) => writer.words(low, high));
}

/** Bytes of strings in this field, tags and lengths included. */
export function stringsBytes(field: number, { offsets, length }: StringColumn): number {
  let bytes = 0;
  for (let index = 0; index < length; index++) {
    bytes += sizeOfField(field, offsets[index + 1]! - offsets[index]!);
  }
  return bytes;
}

/** Writes strings, each as an occurrence of this field. */
export function writeStrings(writer: ProtobufWriter, field: number, column: StringColumn): void {
  const { offsets, bytes, length } = column;
  for (let index = 0; index < length; index++) {
    writer.span(field, { bytes, from: offsets[index]!, to: offsets[index + 1]! });
  }
}

/** Calls `found` with every value as 64 bits: protobuf sign-extends small negative numbers. */
function eachWord(data: Numeric["data"], found: (low: number, high: number) => void): void {
  if (isBigInts(data)) {
    const words = new Uint32Array(data.buffer, data.byteOffset, 2 * data.length);
    for (let at = 0; at < words.length; at += 2) found(words[at]!, words[at + 1]!);
    return;
  }
  for (let index = 0; index < data.length; index++) {
    const value = data[index]!;
    found(value >>> 0, value < 0 ? 0xffffffff : 0);
  }
}
