// Strings of a TensorProto as a column: counted first, then copied once. They are in `string_val`, or in
// `tensor_content` as TensorFlow lists strings: all lengths, then all bytes. Many strings take several turns of the event
// loop.

import { StringColumn, WIRE, copyBytes } from "@winnow/core";
import { BYTES_OF_WORK, turnMeter } from "../../turns/turns.ts";
import type { Steps, TurnMeter } from "../../turns/turns.ts";
import { STRING_WORK, copyingBytes } from "../../turns/values-in-turns.ts";
import { damaged, valuesReaderOf } from "../client-message.ts";
import { WIRE_TYPES } from "./data-type.ts";
import type { TensorBudget } from "./tensor-budget.ts";
import { MisfitError } from "./tensor-outline.ts";
import type { TensorOutline } from "./tensor-outline.ts";

const OFFSET_BYTES = 4;
const { bytes: BYTES } = WIRE;
const { field: STRING_VAL } = WIRE_TYPES.string;

/** The strings of a tensor. @throws MisfitError, WinnowError INVALID_ARGUMENT */
export function* readingStrings(outline: TensorOutline, budget: TensorBudget): Steps<StringColumn> {
  budget.take((outline.count + 1) * OFFSET_BYTES);
  return yield* outline.content === undefined || outline.count === 0
    ? readingField(outline, budget)
    : readingContent(outline.content, outline.count, budget);
}

/** What a field holds of the strings of a shape. */
interface GivenStrings {
  /** Number of strings in the field, at most those of the shape. */
  readonly given: number;
  readonly bytes: number;
  /** Bytes of the last one, which is repeated. */
  readonly lastBytes: number;
}

function* readingField({ proto, count }: TensorOutline, budget: TensorBudget): Steps<StringColumn> {
  const isTurnOver = turnMeter();
  const { given, bytes: bytesGiven, lastBytes } = yield* countingField(proto, count, isTurnOver);
  const repeated = given === 0 ? 0 : count - given;
  const end = bytesGiven + repeated * lastBytes;
  budget.take(end);
  const offsets = new Uint32Array(count + 1);
  const bytes = new Uint8Array(end);
  let filled = 0;
  let at = 0;
  for (const reader = valuesReaderOf(proto); filled < given && reader.next();) {
    if (reader.field !== STRING_VAL) continue;
    at = copyBytes(bytes, at, reader);
    offsets[++filled] = at;
    if (isTurnOver(STRING_WORK + (reader.to - reader.from) / BYTES_OF_WORK)) yield;
  }
  for (const repeatTo = given + repeated; filled < repeatTo; filled++) {
    bytes.copyWithin(at, at - lastBytes, at);
    at += lastBytes;
    offsets[filled + 1] = at;
    if (isTurnOver(STRING_WORK + lastBytes / BYTES_OF_WORK)) yield;
  }
  return new StringColumn(offsets, bytes);
}

function* countingField(
  proto: Uint8Array,
  count: number,
  isTurnOver: TurnMeter,
): Steps<GivenStrings> {
  let [given, bytes, lastBytes] = [0, 0, 0];
  for (const reader = valuesReaderOf(proto); reader.next();) {
    if (reader.field !== STRING_VAL) continue;
    if (reader.wire !== BYTES) throw damaged("a string in an unexpected layout");
    if (given === count) continue;
    given++;
    lastBytes = reader.to - reader.from;
    bytes += lastBytes;
    if (isTurnOver(STRING_WORK)) yield;
  }
  return { given, bytes, lastBytes };
}

function* readingContent(
  content: Uint8Array,
  count: number,
  budget: TensorBudget,
): Steps<StringColumn> {
  const isTurnOver = turnMeter();
  const offsets = new Uint32Array(count + 1);
  const lengths = valuesReaderOf(content);
  let end = 0;
  for (let index = 0; index < count; index++) {
    end += lengths.bareUint32();
    if (end > content.length) break;
    offsets[index + 1] = end;
    if (isTurnOver(1)) yield;
  }
  if (end !== content.length - lengths.position) {
    throw new MisfitError(`its content does not hold ${count} strings`);
  }
  budget.take(end);
  const bytes = new Uint8Array(end);
  yield* copyingBytes(bytes, 0, { source: content.subarray(lengths.position), isTurnOver });
  return new StringColumn(offsets, bytes);
}
