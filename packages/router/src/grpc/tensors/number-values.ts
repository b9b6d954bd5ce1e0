// Numbers of a TensorProto as a typed array. Values of fixed size are copied as they are (both sides are
// little-endian); varints are read one by one, without a BigInt for each.

import { WIRE, dtypeArrays, isBigInts } from "@winnow/core";
import type { NumberArray, NumericArray, NumericDtype, ProtobufReader } from "@winnow/core";
import { damaged } from "../client-message.ts";
import { WIRE_TYPES } from "./data-type.ts";
import { MisfitError, eachOccurrence } from "./tensor-outline.ts";
import type { TensorOutline } from "./tensor-outline.ts";

/** The values of a tensor whose outline fits its input. @throws MisfitError, WinnowError INVALID_ARGUMENT */
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

/** Copies values of fixed size in order; gives their number. */
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

/** Reads varints in order; gives their number. */
function fillVarints(outline: TensorOutline, dtype: NumericDtype, values: NumericArray): number {
  const { field } = WIRE_TYPES[dtype];
  const isLong = isBigInts(values);
  const words = isLong ? new Uint32Array(values.buffer) : undefined;
  let count = 0;
  eachOccurrence(outline.proto, field, (reader) => {
    if (reader.wire !== WIRE.varint && reader.wire !== WIRE.bytes) throw strange(reader);
    count =
      words === undefined
        ? reader.fill32(values as NumberArray, count)
        : reader.fill64(words, count);
  });
  return count;
}

/** Fills the rest with the last of the first `count` values. */
function repeatLast(values: NumericArray, count: number): void {
  if (count === 0 || count >= values.length) return;
  const last = values[count - 1]!;
  (values as { fill(value: number | bigint, from: number): unknown }).fill(last, count);
}

function toZeroOrOne(values: Uint8Array): void {
  for (let at = 0; at < values.length; at++) values[at] = values[at] === 0 ? 0 : 1;
}

function strange(reader: ProtobufReader): Error {
  return damaged(`values of field ${reader.field} in an unexpected layout`);
}
