// TensorProto → Tensor (tensorflow/core/framework/tensor.proto). Values lie either as raw
// little-endian bytes (tensor_content) or in repeated fields. In repeated fields TensorFlow leaves
// out a run of equal values at the end, so the last stored value fills the rest. Strings are
// gathered in two passes into one column, without an object per string.

import {
  StringColumn,
  WinnowError,
  dtypeArrays,
  elementCount,
  isBigInts,
  tensor,
} from "@winnow/core";
import type { Dtype, NumericArray, NumericDtype, ProtobufReader, Tensor } from "@winnow/core";
import { isNarrowFloat, storedDtypeOf } from "../../bundle/data-type.ts";
import type { NarrowFloat } from "../../bundle/data-type.ts";
import { widened } from "../../bundle/narrow-floats.ts";
import { messageReader } from "../../message.ts";
import { dataDtypeOf } from "./graph-dtype.ts";

const ELEMENTS_MAX = 2 ** 31;
const BYTES_MAX = 2 ** 32 - 1;
/** TensorFlow's own limit is 254. */
const RANK_MAX = 254;
/**
 * Bytes of memory for values that a file leaves out, over all its tensors: a few stored bytes can
 * claim gigabytes.
 */
const FILLED_BYTES_MAX = 2 ** 28;
/** Bytes taken of `FILLED_BYTES_MAX` so far, by the buffer that holds the file. */
const filledBytes = new WeakMap<ArrayBufferLike, number>();

interface TensorHeader {
  readonly type: number;
  readonly shape: readonly number[];
  readonly content: Uint8Array;
}

/**
 * Reads a TensorShapeProto; -1 is an unknown size, `undefined` an unknown rank.
 * @throws WinnowError DATA_LOSS for more dimensions than TensorFlow has
 */
export function readShape(reader: ProtobufReader): readonly number[] | undefined {
  const sizes: number[] = [];
  let isUnknownRank = false;
  while (reader.next()) {
    if (reader.field === 2) sizes.push(readDimension(reader.message()));
    else if (reader.field === 3) isUnknownRank = reader.bool();
    if (sizes.length > RANK_MAX) {
      const text = `Cannot read a shape: it has more than ${RANK_MAX} dimensions`;
      throw new WinnowError("DATA_LOSS", text);
    }
  }
  return isUnknownRank ? undefined : sizes;
}

function readDimension(reader: ProtobufReader): number {
  let size = 0;
  while (reader.next()) if (reader.field === 1) size = reader.int();
  return size < 0 ? -1 : size;
}

/**
 * Reads a TensorProto.
 * @throws WinnowError DATA_LOSS when values and shape disagree, UNIMPLEMENTED for element types
 * that Winnow does not compute with
 */
export function readTensorProto(bytes: Uint8Array, what: string): Tensor {
  const header = readHeader(bytes, what);
  return contentOf(bytes, header, { dtype: dataDtypeOf(header.type, what), what });
}

/** A constant of the graph. */
export interface ConstantContent {
  /** Values; those of a half or bfloat16 constant as float32. */
  readonly tensor: Tensor;
  readonly narrow: NarrowFloat | undefined;
}

/** Reads a constant, which may be half or bfloat16 too. @throws WinnowError as `readTensorProto` */
export function readConstant(bytes: Uint8Array, what: string): ConstantContent {
  const header = readHeader(bytes, what);
  const narrow = storedDtypeOf(header.type) ?? "";
  if (!isNarrowFloat(narrow)) return { tensor: readTensorProto(bytes, what), narrow: undefined };
  const { shape, data } = contentOf(bytes, header, { dtype: "uint16", what });
  const values = widened(data as Uint16Array, narrow);
  return { tensor: { dtype: "float32", shape, data: values }, narrow };
}

/** The values of a constant; those of half and bfloat16 lie in the file as uint16. */
function contentOf(
  bytes: Uint8Array,
  { shape, content }: TensorHeader,
  { dtype, what }: Pick<Wanted, "what"> & { readonly dtype: Dtype },
): Tensor {
  const count = elementCount(shape);
  const isPossible = shape.every((size) => size >= 0) && count <= ELEMENTS_MAX;
  if (!isPossible) throw damage(what, `has the shape [${shape.join(",")}]`);
  if (dtype === "string") {
    const strings =
      content.length > 0
        ? stringsOfContent(content, { count, what })
        : readStrings(bytes, { count, what });
    return tensor("string", shape, strings);
  }
  const data =
    content.length > 0
      ? fromContent(content, { dtype, count, what })
      : fromFields(bytes, { dtype, count, what });
  return { dtype, shape, data } as Tensor;
}

function readHeader(bytes: Uint8Array, what: string): TensorHeader {
  const reader = messageReader(bytes, what);
  let type = 0;
  let shape: readonly number[] | undefined = [];
  let content = new Uint8Array();
  while (reader.next()) {
    if (reader.field === 1) type = reader.int();
    else if (reader.field === 2) shape = readShape(reader.message());
    else if (reader.field === 4) content = reader.view() as Uint8Array<ArrayBuffer>;
  }
  if (shape === undefined) throw damage(what, "has no shape");
  return { type, shape, content };
}

interface Wanted {
  readonly dtype: NumericDtype;
  readonly count: number;
  readonly what: string;
}

function fromContent(content: Uint8Array, { dtype, count, what }: Wanted): NumericArray {
  const size = dtypeArrays[dtype].BYTES_PER_ELEMENT;
  if (content.length !== count * size) {
    throw damage(what, `holds ${content.length} bytes for ${count} values of ${dtype}`);
  }
  const data = new dtypeArrays[dtype](count);
  new Uint8Array(data.buffer, data.byteOffset, data.byteLength).set(content);
  return data;
}

const FLOAT_FIELD = 5;
const DOUBLE_FIELD = 6;
const STRING_FIELD = 8;
/** int_val (also int8, int16, uint8, uint16), int64_val, bool_val, half_val, uint32_val, uint64_val. */
const VARINT_FIELDS: ReadonlySet<number> = new Set([7, 10, 11, 13, 16, 17]);

function fieldValues(
  bytes: Uint8Array,
  what: string,
): { readonly numbers: number[]; readonly integers: bigint[] } {
  const reader = messageReader(bytes, what);
  const numbers: number[] = [];
  const integers: bigint[] = [];
  while (reader.next()) {
    if (reader.field === FLOAT_FIELD) reader.floats(numbers);
    else if (reader.field === DOUBLE_FIELD) reader.doubles(numbers);
    else if (VARINT_FIELDS.has(reader.field)) reader.int64s(integers);
  }
  return { numbers, integers };
}

function fromFields(bytes: Uint8Array, { dtype, count, what }: Wanted): NumericArray {
  const { numbers, integers } = fieldValues(bytes, what);
  const given = numbers.length + integers.length;
  if (given > count) throw damage(what, `holds ${given} values where its shape has ${count}`);
  takeFilled(bytes, (count - given) * dtypeArrays[dtype].BYTES_PER_ELEMENT, what);
  const data = new dtypeArrays[dtype](count);
  if (isBigInts(data)) {
    for (let index = 0; index < integers.length; index += 1) data[index] = integers[index]!;
    if (integers.length > 0) data.fill(integers[integers.length - 1]!, integers.length);
    return data;
  }
  const values = integers.length > 0 ? integers.map(Number) : numbers;
  for (let index = 0; index < values.length; index += 1) data[index] = values[index]!;
  if (values.length > 0) data.fill(values[values.length - 1]!, values.length);
  return data;
}

interface WantedStrings {
  readonly count: number;
  readonly what: string;
}

/** Strings in tensor_content, as graph optimisers write them: all lengths (varint), then all bytes. */
function stringsOfContent(content: Uint8Array, { count, what }: WantedStrings): StringColumn {
  if (count > content.length) throw damage(what, `holds ${content.length} bytes of strings`);
  const offsets = new Uint32Array(count + 1);
  let position = 0;
  let end = 0;
  for (let index = 0; index < count; index += 1) {
    let size = 0;
    let factor = 1;
    let byte = 0x80;
    while (byte >= 0x80) {
      byte = content[position] ?? -1;
      if (byte < 0 || factor > 2 ** 28) throw damage(what, "holds a damaged list of strings");
      size += (byte & 0x7f) * factor;
      factor *= 128;
      position += 1;
    }
    end += size;
    if (end > content.length) throw damage(what, "holds strings longer than itself");
    offsets[index + 1] = end;
  }
  if (position + end !== content.length) throw damage(what, `holds ${content.length} bytes`);
  return new StringColumn(offsets, content.slice(position));
}

/** Strings of a string tensor: counted and measured first, then copied into one column. */
function readStrings(bytes: Uint8Array, { count, what }: WantedStrings): StringColumn {
  let given = 0;
  let size = 0;
  let lastSize = 0;
  for (const string of stringsOf(bytes, what)) {
    given += 1;
    lastSize = string.length;
    size += lastSize;
  }
  if (given > count) throw damage(what, `holds ${given} strings where its shape has ${count}`);
  const total = size + (count - given) * (given === 0 ? 0 : lastSize);
  if (total > BYTES_MAX) throw damage(what, `holds ${total} bytes of strings`);
  takeFilled(bytes, (count - given) * 4 + total - size, what);
  const offsets = new Uint32Array(count + 1);
  const column = new Uint8Array(total);
  let end = 0;
  let last: Uint8Array = new Uint8Array();
  const append = (string: Uint8Array, index: number): void => {
    column.set(string, end);
    end += string.length;
    offsets[index + 1] = end;
  };
  let index = 0;
  for (const string of stringsOf(bytes, what)) {
    append(string, index);
    index += 1;
    last = string;
  }
  for (let rest = given; rest < count; rest += 1) append(last, rest);
  return new StringColumn(offsets, column);
}

function* stringsOf(bytes: Uint8Array, what: string): Generator<Uint8Array, void, undefined> {
  const reader = messageReader(bytes, what);
  while (reader.next()) if (reader.field === STRING_FIELD) yield reader.view();
}

/** Takes memory for left-out values from the budget of the file, of which `bytes` is a view. */
function takeFilled(bytes: Uint8Array, added: number, what: string): void {
  const filled = (filledBytes.get(bytes.buffer) ?? 0) + added;
  if (filled > FILLED_BYTES_MAX) {
    const text = `Cannot read the constant ${what}: values that the file leaves out take ${filled} bytes`;
    throw new WinnowError("RESOURCE_EXHAUSTED", `${text}; up to ${FILLED_BYTES_MAX} are filled in`);
  }
  filledBytes.set(bytes.buffer, filled);
}

function damage(what: string, fault: string): WinnowError {
  return new WinnowError("DATA_LOSS", `Cannot read the constant ${what}: it ${fault}`);
}
