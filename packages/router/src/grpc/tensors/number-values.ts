// NumericArray of a TensorProto as a typed array. Fixed-size values are copied as they lie (both sides are
// little-endian); varints are read one by one without making a BigInt of any.

import { dtypeArrays, isBigInts } from "@winnow/core";
import type { NumberArray, NumericArray, NumericDtype } from "@winnow/core";
import { WIRE_TYPES } from "./data-type.ts";
import { MisfitError, eachOccurrence } from "./tensor-outline.ts";
import type { TensorOutline } from "./tensor-outline.ts";
import { WIRE, damaged, varint32, varintBytes } from "./wire-reader.ts";
import type { WireReader } from "./wire-reader.ts";

/** The values of a tensor whose outline fits. @throws MisfitError, WinnowError INVALID_ARGUMENT */
export function readNumbers(outline: TensorOutline, dtype: NumericDtype): NumericArray {
  const { count, content } = outline;
  const { bytes, layout } = WIRE_TYPES[dtype];
  if (content !== undefined && count > 0 && content.length !== count * bytes) {
    throw new MisfitError(
      `its content has ${content.length} bytes where ${count} values need ${count * bytes}`,
    );
  }
  const memory = new ArrayBuffer(count * bytes);
  const values: NumericArray = new dtypeArrays[dtype](memory);
  if (count === 0) return values;
  if (content !== undefined) new Uint8Array(memory).set(content);
  else if (layout === "fixed") repeatLast(values, fillFixed(outline, dtype, memory));
  else repeatLast(values, fillVarints(outline, dtype, values));
  if (dtype === "bool") toZeroOrOne(values as Uint8Array);
  return values;
}

/** Copies values as they come; gives how many. */
function fillFixed(outline: TensorOutline, dtype: NumericDtype, memory: ArrayBuffer): number {
  const { bytes, field } = WIRE_TYPES[dtype];
  const target = new Uint8Array(memory);
  const single = bytes === 4 ? WIRE.fixed32 : WIRE.fixed64;
  let at = 0;
  eachOccurrence(outline.proto, field, (reader) => {
    if (reader.wire !== single && reader.wire !== WIRE.bytes) throw strange(reader);
    if ((reader.to - reader.from) % bytes !== 0) throw damaged("values that are cut off");
    const to = Math.min(reader.to, reader.from + target.length - at);
    target.set(reader.bytes.subarray(reader.from, to), at);
    at += to - reader.from;
  });
  return at / bytes;
}

/** Reads varints as they come; gives how many. */
function fillVarints(outline: TensorOutline, dtype: NumericDtype, values: NumericArray): number {
  const { field } = WIRE_TYPES[dtype];
  const isLong = isBigInts(values);
  const words = isLong ? new Uint32Array(values.buffer) : undefined;
  let count = 0;
  eachOccurrence(outline.proto, field, (reader) => {
    if (reader.wire !== WIRE.varint && reader.wire !== WIRE.bytes) throw strange(reader);
    count =
      words === undefined
        ? readSmall(reader, values as NumberArray, count)
        : readLong(reader, words, count);
  });
  return count;
}

/** Reads integers of at most 32 bits, and bools, from position `count` on; gives the new count. */
function readSmall(reader: WireReader, values: NumberArray, count: number): number {
  const { bytes, from, to } = reader;
  let filled = count;
  for (let at = from; at < to && filled < values.length; filled++) {
    const first = bytes[at]!;
    if (first < 0x80) {
      values[filled] = first;
      at++;
    } else {
      values[filled] = varint32(bytes, at);
      at += varintBytes(bytes, at, to);
    }
  }
  return filled;
}

/** As `readSmall`, with 64 bits as low and high word. */
function readLong(reader: WireReader, words: Uint32Array, count: number): number {
  const { bytes, from, to } = reader;
  let filled = count;
  for (let at = from; at < to && 2 * filled < words.length; filled++) {
    const length = varintBytes(bytes, at, to);
    words[2 * filled] = varint32(bytes, at);
    words[2 * filled + 1] = highWord(bytes, at, length);
    at += length;
  }
  return filled;
}

/** Bits 32 to 63 of a varint: its fifth byte holds the lowest three behind four of the low word. */
function highWord(bytes: Uint8Array, from: number, length: number): number {
  if (length < 5) return 0;
  let word = (bytes[from + 4]! & 0x7f) >> 4;
  for (let at = 5, shift = 3; at < length; at++, shift += 7) {
    word |= (bytes[from + at]! & 0x7f) << shift;
  }
  return word;
}

/** Fills what is left with the last of the first `count` values. */
function repeatLast(values: NumericArray, count: number): void {
  if (count === 0 || count >= values.length) return;
  const last = values[count - 1]!;
  (values as { fill(value: number | bigint, from: number): unknown }).fill(last, count);
}

function toZeroOrOne(values: Uint8Array): void {
  for (let at = 0; at < values.length; at++) values[at] = values[at] === 0 ? 0 : 1;
}

function strange(reader: WireReader): Error {
  return damaged(`values of field ${reader.field} in an unexpected layout`);
}
