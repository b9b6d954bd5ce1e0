// Operations on single strings. TensorFlow strings are bytes: case and blanks are those of ASCII,
// unless the graph asks for UTF-8.

import { WinnowError } from "../../../errors/errors.ts";
import {
  broadcastPositions,
  broadcastShape,
  stridesOf,
  stringList,
  walkPositions,
} from "../element-positions.ts";
import {
  axisOf,
  booleanAttribute,
  inputAt,
  integersAt,
  numberAttribute,
  numericAt,
  stringsAt,
  textAttribute,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import { stringCount, stringsMade, stringsOf, tensorOf, zeros } from "../tensor-memory.ts";
import { floatText, integerText } from "./number-text.ts";
import type { NumberFormat } from "./number-text.ts";

/** Operations on single strings, by TensorFlow's name. */
export const textOperations: HostOperations = {
  AsString: (call) => [asString(call)],
  StringLower: (call) => [changeCase(call, lowerAscii, (text) => text.toLowerCase())],
  StringUpper: (call) => [changeCase(call, upperAscii, (text) => text.toUpperCase())],
  StringStrip: (call) => [mapStrings(call, strip)],
  StringLength: (call) => [lengths(call)],
  StringJoin: (call) => [join(call)],
  ReduceJoin: (call) => [reduceJoin(call)],
  Substr: (call) => [substring(call)],
};

const encoder = new TextEncoder();
const NOTHING = new Uint8Array();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

function mapStrings(call: HostCall, change: (bytes: Uint8Array) => Uint8Array): Tensor {
  const { data, shape } = stringsAt(call, 0);
  return stringsOf(shape, stringList(data).map(change));
}

function asString(call: HostCall): Tensor {
  const input = inputAt(call, 0);
  if (input.dtype === "string") return input;
  const format: NumberFormat = {
    precision: numberAttribute(call, "precision", -1),
    isScientific: booleanAttribute(call, "scientific", false),
    isShortest: booleanAttribute(call, "shortest", false),
    width: numberAttribute(call, "width", -1),
    fill: textAttribute(call, "fill", ""),
  };
  const { dtype, data, shape } = input;
  const textOf = (value: number | bigint): string => {
    if (dtype === "bool") return value === 0 ? "false" : "true";
    return dtype === "float32" || dtype === "float64"
      ? floatText(Number(value), format)
      : integerText(value, format);
  };
  const texts = Array.from(data as ArrayLike<number | bigint>, textOf);
  return stringsOf(
    shape,
    texts.map((text) => encoder.encode(text)),
  );
}

function changeCase(
  call: HostCall,
  ofAscii: (byte: number) => number,
  ofText: (text: string) => string,
): Tensor {
  const encoding = textAttribute(call, "encoding", "");
  if (encoding === "") return mapStrings(call, (bytes) => bytes.map(ofAscii));
  if (encoding.toLowerCase() !== "utf-8") {
    throw new WinnowError("UNIMPLEMENTED", `${call.op} with encoding ${encoding}`);
  }
  return mapStrings(call, (bytes) => encoder.encode(ofText(decoder.decode(bytes))));
}

const lowerAscii = (byte: number): number => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte);
const upperAscii = (byte: number): number => (byte >= 0x61 && byte <= 0x7a ? byte - 0x20 : byte);

/** Blank, tab, line feed, vertical tab, form feed, carriage return. */
export function isBlank(byte: number): boolean {
  return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d);
}

function strip(bytes: Uint8Array): Uint8Array {
  let from = 0;
  let to = bytes.length;
  while (from < to && isBlank(bytes[from]!)) from += 1;
  while (to > from && isBlank(bytes[to - 1]!)) to -= 1;
  return bytes.subarray(from, to);
}

/** Positions at which UTF-8 characters start: all bytes but continuation bytes. */
function characterStarts(bytes: Uint8Array): number[] {
  const starts: number[] = [];
  for (const [at, byte] of bytes.entries()) if ((byte & 0xc0) !== 0x80) starts.push(at);
  return starts;
}

function isCharacters(call: HostCall): boolean {
  return textAttribute(call, "unit", "BYTE") === "UTF8_CHAR";
}

function lengths(call: HostCall): Tensor {
  const { data, shape } = stringsAt(call, 0);
  const isCounting = isCharacters(call);
  const out = zeros("int32", shape);
  for (let at = 0; at < out.length; at += 1) {
    const bytes = data.at(at);
    out[at] = isCounting ? characterStarts(bytes).length : bytes.length;
  }
  return tensorOf("int32", shape, out);
}

function join(call: HostCall): Tensor {
  const separator = encoder.encode(textAttribute(call, "separator", ""));
  const parts = call.inputs.map((_, at) => stringsAt(call, at));
  const shape = parts.find(({ shape }) => shape.length > 0)?.shape ?? [];
  for (const part of parts) {
    if (part.shape.length > 0 && part.shape.join() !== shape.join()) {
      const shapes = `[${shape.join(",")}] vs. [${part.shape.join(",")}]`;
      throw invalid(`Input shapes do not match: ${shapes}`);
    }
  }
  return stringsMade(shape, (at) =>
    joinBytes(
      parts.map(({ data, shape }) => data.at(shape.length === 0 ? 0 : at)),
      separator,
    ),
  );
}

/** `Add` of two string tensors, broadcast. */
export function concatenateStrings(call: HostCall): Tensor {
  const a = stringsAt(call, 0);
  const b = stringsAt(call, 1);
  const shape = broadcastShape(a.shape, b.shape);
  stringCount(shape);
  const placesA = broadcastPositions(a.shape, shape);
  const placesB = broadcastPositions(b.shape, shape);
  return stringsMade(shape, (at) =>
    joinBytes([a.data.at(placesA[at]!), b.data.at(placesB[at]!)], NOTHING),
  );
}

/** Joins strings along axes; of several axes the one named first changes fastest. */
function reduceJoin(call: HostCall): Tensor {
  const { shape, data } = stringsAt(call, 0);
  const axes = integersAt(call, 1).map((axis) => axisOf(axis, shape.length, call.op));
  if (new Set(axes).size < axes.length)
    throw invalid(`Duplicate reduction dimension in [${axes.join(",")}]`);
  const kept = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  const strides = stridesOf(shape);
  const order = [...kept, ...axes.toReversed()];
  const positions = walkPositions({
    shape: order.map((axis) => shape[axis]!),
    strides: order.map((axis) => strides[axis]!),
  });
  const run = axes.reduce((product, axis) => product * shape[axis]!, 1);
  const rows = kept.reduce((product, axis) => product * shape[axis]!, 1);
  const separator = encoder.encode(textAttribute(call, "separator", ""));
  const texts = Array.from({ length: rows }, (_, row) => {
    const places = positions.subarray(row * run, (row + 1) * run);
    return joinBytes(
      Array.from(places, (at) => data.at(at)),
      separator,
    );
  });
  const isKeeping = booleanAttribute(call, "keep_dims", false);
  const sizes = shape.map((size, axis) => (axes.includes(axis) ? 1 : size));
  return stringsOf(isKeeping ? sizes : kept.map((axis) => shape[axis]!), texts);
}

/** Concatenates byte strings with a separator between them. */
export function joinBytes(parts: readonly Uint8Array[], separator: Uint8Array): Uint8Array {
  const gaps = Math.max(0, parts.length - 1) * separator.length;
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, gaps));
  let at = 0;
  for (const [index, part] of parts.entries()) {
    if (index > 0) {
      out.set(separator, at);
      at += separator.length;
    }
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function substring(call: HostCall): Tensor {
  const { data, shape: own } = stringsAt(call, 0);
  const shape = broadcastShape(own, numericAt(call, 1).shape);
  const from = integersAt(call, 1);
  const count = integersAt(call, 2);
  if (from.length !== count.length) throw invalid("pos and len should have the same shape");
  const strings = broadcastPositions(own, shape);
  const places = broadcastPositions(numericAt(call, 1).shape, shape);
  const isCounting = isCharacters(call);
  const texts = Array.from(strings, (string, at) => {
    const bytes = data.at(string);
    const [start, length] = [from[places[at]!]!, count[places[at]!]!];
    const cut = isCounting ? cutCharacters(bytes, start, length) : cutBytes(bytes, start, length);
    if (cut === undefined) {
      throw invalid(
        `pos ${start} out of range for string b'${decoder.decode(bytes.subarray(0, 64))}' at index ${at}`,
      );
    }
    return cut;
  });
  return stringsOf(shape, texts);
}

function cutBytes(bytes: Uint8Array, from: number, count: number): Uint8Array | undefined {
  const start = from < 0 ? from + bytes.length : from;
  if (start < 0 || start > bytes.length) return undefined;
  return bytes.subarray(start, Math.min(bytes.length, start + Math.max(0, count)));
}

function cutCharacters(bytes: Uint8Array, from: number, count: number): Uint8Array | undefined {
  const starts = characterStarts(bytes);
  const first = from < 0 ? from + starts.length : from;
  if (first < 0 || first > starts.length) return undefined;
  const end = starts[first + Math.max(0, count)] ?? bytes.length;
  return bytes.subarray(starts[first] ?? bytes.length, end);
}
