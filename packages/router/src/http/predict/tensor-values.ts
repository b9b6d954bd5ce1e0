// Writes many values of a tensor as JSON at a time: the loop over scores or ids that most of an answer
// consists of. The text between two values is the same for all of them, so it is made once and copied.

import type { Tensor } from "@winnow/core";
import { FLOAT64_BYTES_MAX, writeFloat32, writeFloat64 } from "../json/decimal-text.ts";
import type { JsonWriter } from "../json/json-writer.ts";

/** Where the values begin. */
export interface ValuesFrom {
  readonly tensor: Tensor;
  readonly asBase64: boolean;
  /** Whether strings are JSON already, and written unchanged. */
  readonly asJson: boolean;
  readonly offset: number;
}

const CHUNK_VALUES = 512;
const B64_KEY: Uint8Array = Buffer.from("b64");

/** Writes one value as the writer's next value. */
export function writeValue(writer: JsonWriter, from: ValuesFrom): void {
  if (from.asBase64) return writeBase64(writer, from);
  if (from.asJson) return writeJson(writer, from);
  writer.beginValue();
  writer.reserve(FLOAT64_BYTES_MAX);
  putValue(writer, from.tensor, from.offset);
}

/** Writes `count` values as the elements of the array just opened. */
export function writeRun(writer: JsonWriter, from: ValuesFrom, count: number): void {
  const { tensor, offset } = from;
  if (from.asBase64 || from.asJson) {
    for (let index = 0; index < count; index++) {
      writeValue(writer, { ...from, offset: offset + index });
    }
    return;
  }
  writeValue(writer, from);
  const separator = separatorOf(writer);
  for (let done = 1; done < count; done += CHUNK_VALUES) {
    const end = Math.min(done + CHUNK_VALUES, count);
    writer.reserve((end - done) * (FLOAT64_BYTES_MAX + separator.length));
    if (tensor.dtype === "float32")
      putFloats(writer, tensor.data, {
        from: offset + done,
        to: offset + end,
        separator,
      });
    else {
      for (let index = done; index < end; index++) {
        writer.reserve(FLOAT64_BYTES_MAX + separator.length);
        putSeparator(writer, separator);
        putValue(writer, tensor, offset + index);
      }
    }
  }
  writer.countDirect(count - 1);
}

interface Span {
  readonly from: number;
  readonly to: number;
  readonly separator: Uint8Array;
}

function putFloats(writer: JsonWriter, values: Float32Array, span: Span): void {
  const { buffer } = writer;
  const { separator } = span;
  let { at } = writer;
  for (let index = span.from; index < span.to; index++) {
    for (let byte = 0; byte < separator.length; byte++) buffer[at++] = separator[byte]!;
    at = writeFloat32(buffer, at, values[index]!);
  }
  writer.at = at;
}

function separatorOf(writer: JsonWriter): Uint8Array {
  return Buffer.from(writer.singleLine ? ", " : `,\n${"    ".repeat(writer.depth)}`);
}

function putSeparator(writer: JsonWriter, separator: Uint8Array): void {
  const { buffer } = writer;
  for (let index = 0; index < separator.length; index++) {
    buffer[writer.at + index] = separator[index]!;
  }
  writer.at += separator.length;
}

/** Writes one value; room for the longest number is reserved. */
function putValue(writer: JsonWriter, tensor: Tensor, offset: number): void {
  if (tensor.dtype === "float32") {
    writer.at = writeFloat32(writer.buffer, writer.at, tensor.data[offset]!);
  } else if (tensor.dtype === "float64") {
    writer.at = writeFloat64(writer.buffer, writer.at, tensor.data[offset]!);
  } else if (tensor.dtype === "string") {
    const { bytes, offsets } = tensor.data;
    writer.stringBytes(bytes, offsets[offset]!, offsets[offset + 1]!);
  } else if (tensor.dtype === "bool") {
    putAscii(writer, tensor.data[offset] === 0 ? "false" : "true");
  } else {
    putAscii(writer, String(tensor.data[offset]));
  }
}

function putAscii(writer: JsonWriter, text: string): void {
  writer.at += writer.buffer.write(text, writer.at, "latin1");
}

function writeJson(writer: JsonWriter, { tensor, offset }: ValuesFrom): void {
  if (tensor.dtype !== "string") throw new RangeError(`JSON of ${tensor.dtype}`);
  writer.json(tensor.data.at(offset));
}

function writeBase64(writer: JsonWriter, from: ValuesFrom): void {
  const { tensor, offset } = from;
  if (tensor.dtype !== "string") throw new RangeError(`base64 of ${tensor.dtype}`);
  const bytes = tensor.data.at(offset);
  const encoded = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
  writer.open("{");
  writer.string(B64_KEY);
  writer.text(encoded);
  writer.close();
}
