// Tensors as `InferTensorContents` holds them: the values, row by row, in the field of their datatype, small
// integers as varints. Unlike a TensorProto it holds as many values as the shape says: nothing is repeated.

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
export function readContents(
  contents: Uint8Array,
  { name, dtype, shape }: InputOutline,
  budget: TensorBudget,
): Tensor {
  const count = elementCount(shape);
  const given = countValues(valuesReaderOf(contents, budget.fields), name, dtype);
  if (given !== count) {
    refuse(`Input "${name}" has ${given} values; shape [${shape.join(",")}] needs ${count}`);
  }
  const of = { contents, field: FIELDS[dtype], count };
  if (dtype === "string") return { dtype, shape, data: readStrings(of, budget) };
  return { dtype, shape, data: readNumbers(of, { name, dtype }, budget) } as Tensor;
}

/** The values of contents, of which there are `count`. */
interface Values {
  readonly contents: Uint8Array;
  readonly field: number;
  readonly count: number;
}

/** How many values contents have, all of which must stand in the field of their dtype. */
function countValues(reader: ProtobufReader, name: string, dtype: Dtype): number {
  let count = 0;
  while (reader.next()) {
    const { field } = reader;
    if (field === FIELDS[dtype]) count += valuesOf(reader, dtype);
    else if (field <= NAMES.length && (reader.wire !== WIRE.bytes || reader.to > reader.from)) {
      refuse(
        `Input "${name}" has values in ${NAMES[field - 1]}; values of ${DATATYPES[dtype]} stand in ` +
          `${NAMES[FIELDS[dtype] - 1]}`,
      );
    }
  }
  return count;
}

/** Values of one occurrence of a field, packed or not. */
function valuesOf({ wire, bytes, from, to }: ProtobufReader, dtype: Dtype): number {
  if (dtype === "string") {
    if (wire === WIRE.bytes) return 1;
    throw damaged("a string in an unexpected layout");
  }
  const fixed = fixedBytes(dtype);
  const single = fixed === 4 ? WIRE.fixed32 : fixed === 8 ? WIRE.fixed64 : WIRE.varint;
  if (wire === single) return 1;
  if (wire !== WIRE.bytes) throw damaged("values in an unexpected layout");
  if (fixed === 0) return varintsOf(bytes.subarray(from, to));
  if ((to - from) % fixed === 0) return (to - from) / fixed;
  throw damaged("values that are cut off");
}

/** A varint ends with a byte below 0x80. */
function varintsOf(packed: Uint8Array): number {
  if (packed.length > 0 && packed.at(-1)! >= 0x80) throw damaged("a number without an end");
  let count = 0;
  for (const byte of packed) if (byte < 0x80) count++;
  return count;
}

function fixedBytes(dtype: Dtype): number {
  if (dtype === "float32") return 4;
  return dtype === "float64" ? 8 : 0;
}

function eachOccurrence(
  { contents, field }: Values,
  found: (reader: ProtobufReader) => void,
): void {
  const reader = valuesReaderOf(contents);
  while (reader.next()) if (reader.field === field) found(reader);
}

function readStrings(values: Values, budget: TensorBudget): StringColumn {
  budget.take((values.count + 1) * OFFSET_BYTES);
  const offsets = new Uint32Array(values.count + 1);
  let index = 0;
  eachOccurrence(values, ({ from, to }) => {
    offsets[index + 1] = offsets[index]! + to - from;
    index++;
  });
  const end = offsets[values.count]!;
  budget.take(end);
  const bytes = new Uint8Array(end);
  let at = 0;
  eachOccurrence(values, (reader) => {
    at = copyBytes(bytes, at, reader);
  });
  return new StringColumn(offsets, bytes);
}

function readNumbers(
  values: Values,
  { name, dtype }: { readonly name: string; readonly dtype: NumericDtype },
  budget: TensorBudget,
): Exclude<Tensor, { dtype: "string" }>["data"] {
  const { count } = values;
  if (fixedBytes(dtype) > 0) {
    budget.take(count * fixedBytes(dtype));
    return new dtypeArrays[dtype](copied(values, count * fixedBytes(dtype)));
  }
  let filled = 0;
  if (dtype === "int64" || dtype === "uint64") {
    budget.take(count * 8);
    const words = new Uint32Array(2 * count);
    eachOccurrence(values, (reader) => void (filled = reader.fill64(words, filled)));
    return new dtypeArrays[dtype](words.buffer);
  }
  budget.take(count * 4);
  const isSigned = FIELDS[dtype] === FIELDS.int32;
  const wide = isSigned ? new Int32Array(count) : new Uint32Array(count);
  eachOccurrence(values, (reader) => void (filled = reader.fill32(wide, filled)));
  return narrowed(wide, name, dtype);
}

function copied(values: Values, size: number): ArrayBuffer {
  const memory = new ArrayBuffer(size);
  const target = new Uint8Array(memory);
  let at = 0;
  eachOccurrence(values, (reader) => {
    at = copyBytes(target, at, reader);
  });
  return memory;
}

/** Integers of 32 bits as those that an input has. @throws WinnowError INVALID_ARGUMENT naming one that is too large */
function narrowed(
  wide: Int32Array | Uint32Array,
  name: string,
  dtype: NumericDtype,
): Exclude<Tensor, { dtype: "string" }>["data"] {
  if (dtype === "int32" || dtype === "uint32") return wide;
  if (dtype === "bool") return Uint8Array.from(wide, (value) => (value === 0 ? 0 : 1));
  const narrow = new dtypeArrays[dtype as "int8" | "uint8" | "int16" | "uint16"](wide.length);
  narrow.set(wide);
  const misfit = wide.findIndex((value, at) => narrow[at] !== value);
  if (misfit < 0) return narrow;
  refuse(`Input "${name}" has the value ${wide[misfit]}, which is no ${DATATYPES[dtype]}`);
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
