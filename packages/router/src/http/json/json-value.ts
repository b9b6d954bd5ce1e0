// A part of a document as plain data, for small values with any structure: filters.

import { WinnowError } from "@winnow/core";
import type { JsonValue } from "@winnow/core";
import { KIND } from "./json-reader.ts";
import type { JsonReader, ValueIndex } from "./json-reader.ts";

const DEPTH_MAX = 64;

/**
 * A value; objects become maps, integers beyond 2⁵³ stay exact, and other numbers are the nearest float64. `where` names the value in messages.
 * @throws WinnowError INVALID_ARGUMENT for too many values or bytes, or a name that an object has twice
 */
export function jsonValue(
  document: JsonReader,
  value: ValueIndex,
  limits: { readonly where: string; readonly valuesMax: number; readonly bytesMax: number },
): JsonValue {
  const { where, valuesMax, bytesMax } = limits;
  const end = document.next(value);
  if (end - value > valuesMax) throw refused(where, `holds more than ${valuesMax} values`);
  if (textBytes(document, value, end) > bytesMax) {
    throw refused(where, `holds more than ${bytesMax} bytes of names and values`);
  }
  return read({ document, where }, value, 0);
}

/** Bytes of the strings and numbers of these entries. */
function textBytes(document: JsonReader, from: ValueIndex, end: ValueIndex): number {
  let bytes = 0;
  for (let entry = from; entry < end; entry += 1) {
    if (document.kinds[entry]! >= KIND.string) bytes += document.to[entry]! - document.from[entry]!;
  }
  return bytes;
}

interface Source {
  readonly document: JsonReader;
  readonly where: string;
}

function read(source: Source, value: ValueIndex, depth: number): JsonValue {
  const { document, where } = source;
  if (depth > DEPTH_MAX) throw refused(where, "lies too deep");
  switch (document.kinds[value]!) {
    case KIND.null:
      return null;
    case KIND.false:
      return false;
    case KIND.true:
      return true;
    case KIND.string:
      return Buffer.from(document.bytesOf(value)).toString("utf8");
    case KIND.integer: {
      const number = document.numbers[value]!;
      if (Number.isSafeInteger(number)) return number;
      return BigInt(Buffer.from(document.bytesOf(value)).toString("latin1"));
    }
    case KIND.double:
      return roundedOnce(document.bytesOf(value), document.numbers[value]!);
    case KIND.array: {
      const list: JsonValue[] = [];
      const end = document.to[value]!;
      for (let child = value + 1; child < end; child = document.next(child)) {
        list.push(read(source, child, depth + 1));
      }
      return list;
    }
    default:
      return readObject(source, value, depth);
  }
}

/** Digits of an integer that is kept exact, at most; far more than those of any 64-bit integer. */
const INTEGER_BYTES_MAX = 40;

/**
 * What the reader took for a float64, without the reader's error in the last place: the nearest float64, so that a value
 * that an answer had finds its item again, and the integer itself beyond 64 bits, which RapidJSON reads as a double.
 */
function roundedOnce(bytes: Uint8Array, read: number): number | bigint {
  const text = Buffer.from(bytes).toString("latin1");
  if (bytes.length <= INTEGER_BYTES_MAX && /^-?\d+$/.test(text)) return BigInt(text);
  const nearest = Number(text);
  // RapidJSON's words for infinity and NaN are none of JavaScript's.
  return Number.isNaN(nearest) ? read : nearest;
}

function readObject(source: Source, value: ValueIndex, depth: number): JsonValue {
  const { document, where } = source;
  const members = new Map<string, JsonValue>();
  const end = document.to[value]!;
  for (let key = value + 1; key < end; key = document.next(key + 1)) {
    const name = Buffer.from(document.bytesOf(key)).toString("utf8");
    if (members.has(name))
      throw refused(where, `names ${JSON.stringify(name)} twice in one object`);
    members.set(name, read(source, key + 1, depth + 1));
  }
  return members;
}

function refused(where: string, what: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", `${where} ${what}`);
}
