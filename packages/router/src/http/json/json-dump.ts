// A JSON value as an error message shows it: pretty-printed, arrays on one line, cut off at the first token
// that begins after 256 bytes (TensorFlow Serving, JsonValueToDebugString). A NaN or infinity ends the dump,
// because RapidJSON's writer refuses it.

import { KIND } from "./json-reader.ts";
import type { JsonReader, ValueIndex } from "./json-reader.ts";
import { JsonWriter } from "./json-writer.ts";

const DUMP_BYTES = 256;
/** A single string may be as long as the body; a dump must not be. */
const DUMP_BYTES_MAX = 4096;

/** The text of a value in a message of TensorFlow Serving. Bytes that are not UTF-8 become U+FFFD. */
export function dumpValue(document: JsonReader, value: ValueIndex): string {
  const writer = new JsonWriter();
  writer.singleLine = true;
  dump({ document, writer }, value);
  const bytes = writer.finish();
  return bytes.length <= DUMP_BYTES_MAX
    ? bytes.toString("utf8")
    : `${bytes.toString("utf8", 0, DUMP_BYTES_MAX)}…`;
}

/** The text of a value in a message that TensorFlow Serving does not have: a number that is not finite is named. */
export function shownValue(document: JsonReader, value: ValueIndex): string {
  const text = dumpValue(document, value);
  return text === "" ? String(document.numbers[value]) : text;
}

interface Dump {
  readonly document: JsonReader;
  readonly writer: JsonWriter;
}

/** Writes a value; `false` once the dump has ended. Each level costs a byte, so the depth is bounded. */
function dump(to: Dump, value: ValueIndex): boolean {
  const { document, writer } = to;
  const kind = document.kinds[value]!;
  if (writer.at >= DUMP_BYTES) return false;
  if (kind === KIND.object || kind === KIND.array) return dumpChildren(to, value);
  if (kind === KIND.string) {
    const length = Math.min(document.to[value]! - document.from[value]!, DUMP_BYTES_MAX);
    writer.string(document.bytesOf(value).subarray(0, length));
    return true;
  }
  const text = scalarText(document, value);
  writer.raw(text);
  return text !== "";
}

function dumpChildren(to: Dump, parent: ValueIndex): boolean {
  const { document, writer } = to;
  writer.open(document.kinds[parent] === KIND.array ? "[" : "{");
  const end = document.to[parent]!;
  for (let child = parent + 1; child < end; child = document.next(child)) {
    if (!dump(to, child)) return false;
  }
  if (writer.at >= DUMP_BYTES) return false;
  writer.close();
  return true;
}

function scalarText(document: JsonReader, value: ValueIndex): string {
  switch (document.kinds[value]!) {
    case KIND.null:
      return "null";
    case KIND.false:
      return "false";
    case KIND.true:
      return "true";
    case KIND.integer:
      return integerText(document, value);
    default:
      return doubleText(document.numbers[value]!);
  }
}

function integerText(document: JsonReader, value: ValueIndex): string {
  const number = document.numbers[value]!;
  if (Number.isSafeInteger(number)) return String(number);
  return Buffer.from(document.bytesOf(value)).toString("latin1");
}

/** RapidJSON's layout (internal/dtoa.h, Prettify) of the shortest digits that read back. */
function doubleText(value: number): string {
  if (!Number.isFinite(value)) return "";
  if (value === 0) return Object.is(value, -0) ? "-0.0" : "0.0";
  const [mantissa = "", exponent = ""] = Math.abs(value).toExponential().split("e");
  const text = decimalText(mantissa.replace(".", ""), Number(exponent) + 1);
  return value < 0 ? `-${text}` : text;
}

/** 0.digits × 10^point. */
function decimalText(digits: string, point: number): string {
  if (digits.length <= point && point <= 21) return `${digits.padEnd(point, "0")}.0`;
  if (point > 0 && point <= 21) return `${digits.slice(0, point)}.${digits.slice(point)}`;
  if (point > -6 && point <= 0) return `0.${"0".repeat(-point)}${digits}`;
  const fraction = digits.length === 1 ? "" : `.${digits.slice(1)}`;
  return `${digits[0]}${fraction}e${point - 1}`;
}
