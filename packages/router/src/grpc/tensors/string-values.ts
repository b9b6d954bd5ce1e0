// Strings of a TensorProto as a column: counted first, then copied once. They are in `string_val`, or in
// `tensor_content` as TensorFlow lists strings: all lengths, then all bytes.

import { StringColumn, WIRE, copyBytes } from "@winnow/core";
import { damaged, valuesReaderOf } from "../client-message.ts";
import { WIRE_TYPES } from "./data-type.ts";
import type { TensorBudget } from "./tensor-budget.ts";
import { MisfitError, eachOccurrence } from "./tensor-outline.ts";
import type { TensorOutline } from "./tensor-outline.ts";

const OFFSET_BYTES = 4;
const { bytes: BYTES } = WIRE;
const { field: STRING_VAL } = WIRE_TYPES.string;

/** The strings of a tensor. @throws MisfitError, WinnowError INVALID_ARGUMENT */
export function readStrings(outline: TensorOutline, budget: TensorBudget): StringColumn {
  budget.take((outline.count + 1) * OFFSET_BYTES);
  if (outline.content === undefined || outline.count === 0) return readField(outline, budget);
  return readContent(outline.content, outline.count, budget);
}

function readField({ proto, count }: TensorOutline, budget: TensorBudget): StringColumn {
  let given = 0;
  let bytesGiven = 0;
  let lastBytes = 0;
  eachOccurrence(proto, STRING_VAL, ({ wire, from, to }) => {
    if (wire !== BYTES) throw damaged("a string in an unexpected layout");
    if (given === count) return;
    given++;
    lastBytes = to - from;
    bytesGiven += lastBytes;
  });
  const repeated = given === 0 ? 0 : count - given;
  const end = bytesGiven + repeated * lastBytes;
  budget.take(end);
  const offsets = new Uint32Array(count + 1);
  const bytes = new Uint8Array(end);
  let filled = 0;
  let at = 0;
  eachOccurrence(proto, STRING_VAL, (reader) => {
    if (filled === given) return;
    at = copyBytes(bytes, at, reader);
    offsets[++filled] = at;
  });
  for (const repeatTo = given + repeated; filled < repeatTo; filled++) {
    bytes.copyWithin(at, at - lastBytes, at);
    at += lastBytes;
    offsets[filled + 1] = at;
  }
  return new StringColumn(offsets, bytes);
}

function readContent(content: Uint8Array, count: number, budget: TensorBudget): StringColumn {
  const offsets = new Uint32Array(count + 1);
  const lengths = valuesReaderOf(content);
  let end = 0;
  for (let index = 0; index < count; index++) {
    end += lengths.bareUint32();
    if (end > content.length) break;
    offsets[index + 1] = end;
  }
  if (end !== content.length - lengths.position) {
    throw new MisfitError(`its content does not hold ${count} strings`);
  }
  budget.take(end);
  return new StringColumn(offsets, content.slice(lengths.position));
}
