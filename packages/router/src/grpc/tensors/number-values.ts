// Numbers of a TensorProto as a typed array. Values of fixed size are copied as they are (both sides are
// little-endian); varints are read one by one, without a BigInt for each. Many values take several turns of the event
// loop: tens of millions would hold it for half a second.

import { WIRE, dtypeArrays, isBigInts } from "@winnow/core";
import type { NumberArray, NumericArray, NumericDtype, ProtobufReader } from "@winnow/core";
import { turnMeter } from "../../turns/turns.ts";
import type { Steps, TurnMeter } from "../../turns/turns.ts";
import { VALUES_PER_PIECE, copyingBytes, makingFlags } from "../../turns/values-in-turns.ts";
import { damaged, valuesReaderOf } from "../client-message.ts";
import { WIRE_TYPES } from "./data-type.ts";
import { MisfitError } from "./tensor-outline.ts";
import type { TensorOutline } from "./tensor-outline.ts";

/** The values of a tensor whose outline fits its input. @throws MisfitError, WinnowError INVALID_ARGUMENT */
export function* readingNumbers(outline: TensorOutline, dtype: NumericDtype): Steps<NumericArray> {
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
  const isTurnOver = turnMeter();
  const target = new Uint8Array(memory);
  if (content !== undefined) yield* copyingBytes(target, 0, { source: content, isTurnOver });
  else {
    const of = { outline, dtype, isTurnOver };
    const filled = yield* layout === "fixed"
      ? fillingFixed(of, target)
      : fillingVarints(of, values);
    yield* repeatingLast(values, filled, isTurnOver);
  }
  if (dtype === "bool") yield* makingFlags(target, isTurnOver);
  return values;
}

interface Filling {
  readonly outline: TensorOutline;
  readonly dtype: NumericDtype;
  readonly isTurnOver: TurnMeter;
}

/** Copies values of fixed size in order; gives their number. */
function* fillingFixed({ outline, dtype, isTurnOver }: Filling, target: Uint8Array): Steps<number> {
  const { bytes, field } = WIRE_TYPES[dtype];
  const single = bytes === 4 ? WIRE.fixed32 : WIRE.fixed64;
  let at = 0;
  for (const reader = valuesReaderOf(outline.proto); reader.next();) {
    if (reader.field !== field) continue;
    if (reader.wire !== single && reader.wire !== WIRE.bytes) throw strange(reader);
    if ((reader.to - reader.from) % bytes !== 0) throw damaged("values that are cut off");
    const to = Math.min(reader.to, reader.from + target.length - at);
    const source = reader.bytes.subarray(reader.from, to);
    at = yield* copyingBytes(target, at, { source, isTurnOver });
  }
  return at / bytes;
}

/** Reads varints in order; gives their number. */
function* fillingVarints(
  { outline, dtype, isTurnOver }: Filling,
  values: NumericArray,
): Steps<number> {
  const { field } = WIRE_TYPES[dtype];
  const words = isBigInts(values) ? new Uint32Array(values.buffer) : undefined;
  let count = 0;
  for (const reader = valuesReaderOf(outline.proto); reader.next();) {
    if (reader.field !== field) continue;
    if (reader.wire !== WIRE.varint && reader.wire !== WIRE.bytes) throw strange(reader);
    while (reader.from < reader.to && count < values.length) {
      const end = Math.min(values.length, count + VALUES_PER_PIECE);
      const before = count;
      count =
        words === undefined
          ? reader.fill32(values as NumberArray, count, end)
          : reader.fill64(words, count, end);
      if (isTurnOver(count - before)) yield;
    }
  }
  return count;
}

/** Fills the rest with the last of the first `count` values. */
function* repeatingLast(values: NumericArray, count: number, isTurnOver: TurnMeter): Steps<void> {
  if (count === 0) return;
  const last = values[count - 1]!;
  for (let from = count; from < values.length; from += VALUES_PER_PIECE) {
    const to = from + VALUES_PER_PIECE;
    (values as { fill(value: number | bigint, from: number, to: number): unknown }).fill(
      last,
      from,
      to,
    );
    if (isTurnOver(VALUES_PER_PIECE)) yield;
  }
}

function strange(reader: ProtobufReader): Error {
  return damaged(`values of field ${reader.field} in an unexpected layout`);
}
