// Tensors as `InferTensorContents` holds them: the values, row by row, in the field of their datatype, small
// integers as varints. Unlike a TensorProto it holds as many values as the shape says: nothing is repeated. Many values
// take several turns of the event loop.

import {
  StringColumn,
  WIRE,
  WinnowError,
  copyBytes,
  dtypeArrays,
  elementCount,
  sizeOfField,
} from "@winnow/core";
import type { Dtype, NumericDtype, ProtobufReader, ProtobufWriter, Tensor } from "@winnow/core";
import { DATATYPES } from "../../http/predict/inference/inference-datatypes.ts";
import { BYTES_OF_WORK, turnMeter } from "../../turns/turns.ts";
import type { Steps, TurnMeter } from "../../turns/turns.ts";
import { STRING_WORK, VALUES_PER_PIECE, copyingBytes } from "../../turns/values-in-turns.ts";
import { damaged, valuesReaderOf } from "../client-message.ts";
import { packedBytes, stringsBytes, writePacked, writeStrings } from "../tensors/packed-values.ts";
import type { TensorBudget } from "../tensors/tensor-budget.ts";

/** Which field holds values of a dtype. */
const FIELDS: Readonly<Record<Dtype, number>> = {
  bool: 1,
  int8: 2,
  int16: 2,
  int32: 2,
  int64: 3,
  uint8: 4,
  uint16: 4,
  uint32: 4,
  uint64: 5,
  float32: 6,
  float64: 7,
  string: 8,
};
const NAMES = "bool int int64 uint uint64 fp32 fp64 bytes"
  .split(" ")
  .map((each) => `${each}_contents`);
const OFFSET_BYTES = 4;

/** Which input contents are of; its shape has been checked. */
export interface InputOutline {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** The tensor that these contents hold; it owns its memory. @throws WinnowError INVALID_ARGUMENT */
export function* readingContents(
  contents: Uint8Array,
  { name, dtype, shape }: InputOutline,
  budget: TensorBudget,
): Steps<Tensor> {
  const count = elementCount(shape);
  const isTurnOver = turnMeter();
  const reader = valuesReaderOf(contents, budget.fields);
  const given = yield* countingValues(reader, { name, dtype, isTurnOver });
  if (given !== count) {
    refuse(`Input "${name}" has ${given} values; shape [${shape.join(",")}] needs ${count}`);
  }
  const of = { contents, field: FIELDS[dtype], count, isTurnOver };
  if (dtype === "string") return { dtype, shape, data: yield* readingStrings(of, budget) };
  const data = yield* readingNumbers(of, { name, dtype }, budget);
  return { dtype, shape, data } as Tensor;
}

/** The values of contents, of which there are `count`. */
interface Values {
  readonly contents: Uint8Array;
  readonly field: number;
  readonly count: number;
  readonly isTurnOver: TurnMeter;
}

interface Counting {
  readonly name: string;
  readonly dtype: Dtype;
  readonly isTurnOver: TurnMeter;
}

/** How many values contents have, all of which must stand in the field of their dtype. */
function* countingValues(
  reader: ProtobufReader,
  { name, dtype, isTurnOver }: Counting,
): Steps<number> {
  let count = 0;
  while (reader.next()) {
    const { field } = reader;
    if (field === FIELDS[dtype]) {
      count += isPackedVarints(reader, dtype)
        ? yield* countingVarints(reader.bytes.subarray(reader.from, reader.to), isTurnOver)
        : valuesOf(reader, dtype);
      if (isTurnOver(1)) yield;
    } else if (field <= NAMES.length && (reader.wire !== WIRE.bytes || reader.to > reader.from)) {
      refuse(
        `Input "${name}" has values in ${NAMES[field - 1]}; values of ${DATATYPES[dtype]} stand in ` +
          `${NAMES[FIELDS[dtype] - 1]}`,
      );
    }
  }
  return count;
}

function isPackedVarints({ wire }: ProtobufReader, dtype: Dtype): boolean {
  return wire === WIRE.bytes && dtype !== "string" && fixedBytes(dtype) === 0;
}

/** Values of one occurrence of a field, packed or not, but for packed varints. */
function valuesOf({ wire, from, to }: ProtobufReader, dtype: Dtype): number {
  if (dtype === "string") {
    if (wire === WIRE.bytes) return 1;
    throw damaged("a string in an unexpected layout");
  }
  const fixed = fixedBytes(dtype);
  const single = fixed === 4 ? WIRE.fixed32 : fixed === 8 ? WIRE.fixed64 : WIRE.varint;
  if (wire === single) return 1;
  if (wire !== WIRE.bytes) throw damaged("values in an unexpected layout");
  if ((to - from) % fixed === 0) return (to - from) / fixed;
  throw damaged("values that are cut off");
}

/** A varint ends with a byte below 0x80. */
function* countingVarints(packed: Uint8Array, isTurnOver: TurnMeter): Steps<number> {
  if (packed.length > 0 && packed.at(-1)! >= 0x80) throw damaged("a number without an end");
  let count = 0;
  for (let from = 0; from < packed.length; from += VALUES_PER_PIECE) {
    const to = Math.min(packed.length, from + VALUES_PER_PIECE);
    for (let at = from; at < to; at++) if (packed[at]! < 0x80) count++;
    if (isTurnOver(to - from)) yield;
  }
  return count;
}

function fixedBytes(dtype: Dtype): number {
  if (dtype === "float32") return 4;
  return dtype === "float64" ? 8 : 0;
}

/** The occurrences of the values' field. */
function* occurrences({ contents, field }: Values): Generator<ProtobufReader, void> {
  const reader = valuesReaderOf(contents);
  while (reader.next()) if (reader.field === field) yield reader;
}

function* readingStrings(values: Values, budget: TensorBudget): Steps<StringColumn> {
  const { count, isTurnOver } = values;
  budget.take((count + 1) * OFFSET_BYTES);
  const offsets = new Uint32Array(count + 1);
  let index = 0;
  for (const { from, to } of occurrences(values)) {
    offsets[index + 1] = offsets[index]! + to - from;
    index++;
    if (isTurnOver(STRING_WORK)) yield;
  }
  const end = offsets[count]!;
  budget.take(end);
  const bytes = new Uint8Array(end);
  let at = 0;
  for (const reader of occurrences(values)) {
    at = copyBytes(bytes, at, reader);
    if (isTurnOver(STRING_WORK + (reader.to - reader.from) / BYTES_OF_WORK)) yield;
  }
  return new StringColumn(offsets, bytes);
}

type NumericData = Exclude<Tensor, { dtype: "string" }>["data"];

function* readingNumbers(
  values: Values,
  { name, dtype }: { readonly name: string; readonly dtype: NumericDtype },
  budget: TensorBudget,
): Steps<NumericData> {
  const { count } = values;
  if (fixedBytes(dtype) > 0) {
    budget.take(count * fixedBytes(dtype));
    return new dtypeArrays[dtype](yield* copying(values, count * fixedBytes(dtype)));
  }
  if (dtype === "int64" || dtype === "uint64") {
    budget.take(count * 8);
    const words = new Uint32Array(2 * count);
    yield* filling(values, (reader, filled, end) => reader.fill64(words, filled, end));
    return new dtypeArrays[dtype](words.buffer);
  }
  budget.take(count * 4);
  const isSigned = FIELDS[dtype] === FIELDS.int32;
  const wide = isSigned ? new Int32Array(count) : new Uint32Array(count);
  yield* filling(values, (reader, filled, end) => reader.fill32(wide, filled, end));
  return yield* narrowing(wide, { name, dtype, isTurnOver: values.isTurnOver });
}

/** Reads all varints by `fill`, which fills from one number of values up to another and gives how many there are then. */
function* filling(
  values: Values,
  fill: (reader: ProtobufReader, filled: number, end: number) => number,
): Steps<void> {
  let filled = 0;
  for (const reader of occurrences(values)) {
    while (reader.from < reader.to) {
      const before = filled;
      filled = fill(reader, filled, Math.min(values.count, filled + VALUES_PER_PIECE));
      if (values.isTurnOver(filled - before)) yield;
    }
  }
}

function* copying(values: Values, size: number): Steps<ArrayBuffer> {
  const { isTurnOver } = values;
  const memory = new ArrayBuffer(size);
  const target = new Uint8Array(memory);
  let at = 0;
  for (const { bytes, from, to } of occurrences(values)) {
    at = yield* copyingBytes(target, at, { source: bytes.subarray(from, to), isTurnOver });
  }
  return memory;
}

/** Integers of 32 bits as those that an input has. @throws WinnowError INVALID_ARGUMENT naming one that is too large */
function* narrowing(
  wide: Int32Array | Uint32Array,
  { name, dtype, isTurnOver }: Counting,
): Steps<NumericData> {
  if (dtype === "int32" || dtype === "uint32") return wide;
  const isFlag = dtype === "bool";
  const narrow = new dtypeArrays[dtype as "bool" | "int8" | "uint8" | "int16" | "uint16"](
    wide.length,
  );
  for (let from = 0; from < wide.length; from += VALUES_PER_PIECE) {
    const to = Math.min(wide.length, from + VALUES_PER_PIECE);
    for (let at = from; at < to; at++) {
      const value = wide[at]!;
      narrow[at] = isFlag ? Number(value !== 0) : value;
      if (!isFlag && narrow[at] !== value) {
        refuse(`Input "${name}" has the value ${value}, which is no ${DATATYPES[dtype]}`);
      }
    }
    if (isTurnOver(to - from)) yield;
  }
  return narrow;
}

/** Bytes that a tensor takes as contents. */
export function contentsBytes(tensor: Tensor): number {
  const field = FIELDS[tensor.dtype];
  if (tensor.dtype === "string") return stringsBytes(field, tensor.data);
  const bytes = packedBytes(tensor);
  return bytes === 0 ? 0 : sizeOfField(field, bytes);
}

/** Writes the fields of contents. */
export function writeContents(writer: ProtobufWriter, tensor: Tensor): void {
  const field = FIELDS[tensor.dtype];
  if (tensor.dtype === "string") return writeStrings(writer, field, tensor.data);
  const bytes = packedBytes(tensor);
  if (bytes === 0) return;
  writer.open(field, bytes);
  writePacked(writer, tensor);
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
