// Strings split into tokens and tokens joined to n-grams, as in TextVectorization, and strings
// split into code points. Sources: string_split_op.cc (SplitV2), string_ngrams_op.cc,
// unicode_ops.cc. Ragged strings are split into bytes and joined by StringSplit and UnsortedSegmentJoin.

import { WinnowError } from "../../../errors/errors.ts";
import { stringList } from "../element-positions.ts";
import {
  booleanAttribute,
  bytesAt,
  dtypeAttribute,
  inputAt,
  integersAt,
  numberAttribute,
  numbersAttribute,
  stringsAt,
  textAttribute,
} from "../host-call.ts";
import type { HostCall, HostOperations } from "../host-call.ts";
import { invalid } from "../../node-error.ts";
import { StringColumn } from "../../../tensor/string-column.ts";
import type { Tensor } from "../../../tensor/tensor.ts";
import {
  HOST_OUTPUT_STRINGS_MAX,
  outputCount,
  stringCount,
  stringsOf,
  tensorOf,
} from "../tensor-memory.ts";
import { isBlank, joinBytes } from "./text.ts";

/** Tokens and n-grams, by TensorFlow's name. */
export const tokenOperations: HostOperations = {
  StringSplit: splitAtBytes,
  StringSplitV2: splitStrings,
  UnsortedSegmentJoin: (call) => [joinSegments(call)],
  StringNGrams: ngrams,
  UnicodeDecode: decodeUnicode,
  UnicodeEncode: encodeUnicode,
};

const encoder = new TextEncoder();
const strictDecoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lenientDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

function splitStrings(call: HostCall): Tensor[] {
  const separator = bytesAt(call, 1);
  const cutsMax = numberAttribute(call, "maxsplit", -1);
  if (cutsMax === 0) return tokensOf(call, ({ from, to }, cuts) => cuts.push(from, to));
  const cut = separator.length === 0 ? cutAtBlanks(cutsMax) : cutAt(separator, cutsMax);
  return tokensOf(call, cut);
}

/** StringSplit: at each byte of the delimiter, or, where that is empty, behind each byte. */
function splitAtBytes(call: HostCall): Tensor[] {
  const delimiter = new Set(bytesAt(call, 1));
  const skipsEmpty = booleanAttribute(call, "skip_empty", true);
  return tokensOf(call, (text, cuts) => {
    const add = (from: number, to: number): void => {
      if (!skipsEmpty || to > from) cuts.push(from, to);
    };
    cutAtBytes(text, delimiter, add);
  });
}

/** A string: the bytes `from` (included) to `to` (excluded) of its column. */
interface Text {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
}

/** Where tokens begin and end in the bytes of their column: two numbers each. */
class Cuts {
  readonly places: number[] = [];

  get count(): number {
    return this.places.length / 2;
  }

  /** @throws WinnowError RESOURCE_EXHAUSTED for more tokens than one operation may give */
  push(from: number, to: number): void {
    this.places.push(from, to);
    if (this.count > HOST_OUTPUT_STRINGS_MAX) stringCount([this.count]);
  }
}

/** The tokens of each string of the first input, as a sparse tensor: indices, values, dense shape. */
function tokensOf(call: HostCall, cut: (text: Text, cuts: Cuts) => void): Tensor[] {
  const { data, shape } = stringsAt(call, 0);
  if (shape.length !== 1) throw invalid(`input must be a vector, got shape: [${shape.join(",")}]`);
  const { bytes, offsets } = data;
  const cuts = new Cuts();
  const ends = new Uint32Array(data.length);
  for (let row = 0; row < data.length; row += 1) {
    cut({ bytes, from: offsets[row]!, to: offsets[row + 1]! }, cuts);
    ends[row] = cuts.count;
  }
  const indices = new BigInt64Array(2 * cuts.count);
  let [longest, token] = [0, 0];
  for (const [row, end] of ends.entries()) {
    longest = Math.max(longest, end - token);
    const first = token;
    for (; token < end; token += 1) {
      indices[2 * token] = BigInt(row);
      indices[2 * token + 1] = BigInt(token - first);
    }
  }
  return [
    tensorOf("int64", [cuts.count, 2], indices),
    tensorOf("string", [cuts.count], StringColumn.ofParts(bytes, cuts.places)),
    tensorOf("int64", [2], BigInt64Array.of(BigInt(data.length), BigInt(longest))),
  ];
}

function cutAtBytes(
  { bytes, from, to }: Text,
  delimiter: ReadonlySet<number>,
  add: (from: number, to: number) => void,
): void {
  if (from === to) return;
  if (delimiter.size === 0) {
    for (let at = from; at < to; at += 1) add(at, at + 1);
    return;
  }
  let start = from;
  for (let at = from; at < to; at += 1) {
    if (!delimiter.has(bytes[at]!)) continue;
    add(start, at);
    start = at + 1;
  }
  add(start, to);
}

/** UnsortedSegmentJoin: the strings of each segment one after the other, in their order. */
function joinSegments(call: HostCall): Tensor {
  const { data, shape } = stringsAt(call, 0);
  const ids = integersAt(call, 1);
  const [count = -1] = integersAt(call, 2);
  const idShape = inputAt(call, 1).shape;
  if (idShape.join() !== shape.slice(0, idShape.length).join()) {
    const shapes = `[${idShape.join(",")}] and [${shape.join(",")}]`;
    throw invalid(`segment_ids must be as many as the first axes of the input have: ${shapes}`);
  }
  if (count < 0) throw invalid("Number of segments must be positive");
  const inner = shape.slice(idShape.length);
  const width = inner.reduce((product, size) => product * size, 1);
  outputCount([count, width]);
  const separator = encoder.encode(textAttribute(call, "separator", ""));
  const segments: Uint8Array[][] = Array.from({ length: count * width }, () => []);
  const strings = stringList(data);
  for (const [at, id] of ids.entries()) {
    if (id < 0 || id >= count) {
      throw invalid(`segment_ids[${at}] = ${id} is out of range [0, ${count})`);
    }
    for (let place = 0; place < width; place += 1) {
      segments[id * width + place]!.push(strings[at * width + place]!);
    }
  }
  const texts = segments.map((segment) => joinBytes(segment, separator));
  return stringsOf([count, ...inner], texts);
}

function cutAtBlanks(cutsMax: number): (text: Text, cuts: Cuts) => void {
  return ({ bytes, from, to }, cuts) => {
    const afterBlanks = (start: number): number => {
      let at = start;
      while (at < to && isBlank(bytes[at]!)) at += 1;
      return at;
    };
    let at = afterBlanks(from);
    for (let tokens = 1; at < to; tokens += 1) {
      let end = at;
      while (end < to && !isBlank(bytes[end]!)) end += 1;
      cuts.push(at, end);
      at = afterBlanks(end);
      if (cutsMax > 0 && tokens === cutsMax) return cuts.push(at, to);
    }
  };
}

function cutAt(separator: Uint8Array, cutsMax: number): (text: Text, cuts: Cuts) => void {
  return ({ bytes, from, to }, cuts) => {
    const text = Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from);
    const most = cutsMax > 0 ? cutsMax : Infinity;
    let at = 0;
    for (let tokens = 0; tokens < most; tokens += 1) {
      const found = text.indexOf(separator, at);
      if (found < 0) break;
      cuts.push(from + at, from + found);
      at = found + separator.length;
    }
    cuts.push(from + at, to);
  };
}

interface NgramStyle {
  readonly separator: Uint8Array;
  readonly leftPad: Uint8Array;
  readonly rightPad: Uint8Array;
  /** Pads on each side; -1: the width of the n-gram minus one. */
  readonly padWidth: number;
}

function ngrams(call: HostCall): Tensor[] {
  const tokens = stringList(stringsAt(call, 0).data);
  const splits = splitsOf(call, tokens.length);
  const style: NgramStyle = {
    separator: encoder.encode(textAttribute(call, "separator", "")),
    leftPad: encoder.encode(textAttribute(call, "left_pad", "")),
    rightPad: encoder.encode(textAttribute(call, "right_pad", "")),
    padWidth: numberAttribute(call, "pad_width", -1),
  };
  const widths = numbersAttribute(call, "ngram_widths");
  const isPreserving = booleanAttribute(call, "preserve_short_sequences", false);
  const found: Uint8Array[] = [];
  const ends = [0];
  for (let row = 0; row + 1 < splits.length; row += 1) {
    const words = tokens.slice(splits[row], splits[row + 1]);
    const before = found.length;
    for (const width of widths) appendNgrams(found, words, { style, width });
    if (isPreserving && found.length === before && words.length > 0) {
      const width = words.length + 2 * Math.max(0, style.padWidth);
      appendNgrams(found, words, { style, width });
    }
    outputCount([found.length]);
    ends.push(found.length);
  }
  const isNarrow = dtypeAttribute(call, "Tsplits", "int64") === "int32";
  const outSplits = isNarrow
    ? tensorOf("int32", [ends.length], Int32Array.from(ends))
    : tensorOf("int64", [ends.length], BigInt64Array.from(ends, BigInt));
  return [stringsOf([found.length], found), outSplits];
}

function splitsOf(call: HostCall, values: number): number[] {
  const splits = integersAt(call, 1);
  if (splits.length === 0) return splits;
  if (splits[0] !== 0) throw invalid(`First split value must be 0, got ${splits[0]}`);
  const wrong = splits.findIndex((end, at) => at > 0 && (end < splits[at - 1]! || end > values));
  if (wrong >= 0)
    throw invalid(
      `Invalid split value ${splits[wrong]}, must be in [${splits[wrong - 1]}, ${values}]`,
    );
  if (splits.at(-1) !== values)
    throw invalid(`Last split value must be data size. Expected ${values}, got ${splits.at(-1)}`);
  return splits;
}

function appendNgrams(
  found: Uint8Array[],
  words: readonly Uint8Array[],
  { style, width }: { readonly style: NgramStyle; readonly width: number },
): void {
  const widest = Math.max(0, width - 1);
  const pads = style.padWidth < 0 ? widest : Math.min(style.padWidth, widest);
  const count = Math.max(0, words.length + 2 * pads - width + 1);
  outputCount([found.length + count]);
  for (let at = 0; at < count; at += 1) {
    const left = Math.max(0, pads - at);
    const right = Math.max(0, pads - (count - (at + 1)));
    const first = left > 0 ? 0 : at - pads;
    const parts = [
      ...Array<Uint8Array>(left).fill(style.leftPad),
      ...words.slice(first, first + Math.max(0, width - left - right)),
      ...Array<Uint8Array>(right).fill(style.rightPad),
    ];
    found.push(joinBytes(parts, style.separator));
  }
}

function requireUtf8(call: HostCall, attribute: string): void {
  const encoding = textAttribute(call, attribute, "UTF-8");
  if (encoding.toUpperCase() !== "UTF-8") {
    throw new WinnowError("UNIMPLEMENTED", `${call.op} with encoding ${encoding}`);
  }
}

/**
 * Row splits and code points. What `errors` says of malformed bytes holds for control characters
 * too where `replace_control_characters` is set, except that "strict" replaces those.
 */
function decodeUnicode(call: HostCall): Tensor[] {
  requireUtf8(call, "input_encoding");
  const errors = textAttribute(call, "errors", "replace");
  const replacement = numberAttribute(call, "replacement_char", 0xfffd);
  const isReplacing = booleanAttribute(call, "replace_control_characters", false);
  const points: number[] = [];
  const ends = [0];
  for (const string of stringList(stringsAt(call, 0).data)) {
    for (const point of codePoints(string, errors === "strict")) {
      const isRefused = point === MALFORMED || (isReplacing && point <= LAST_CONTROL);
      if (!isRefused) points.push(point);
      else if (errors !== "ignore") points.push(replacement);
    }
    outputCount([points.length]);
    ends.push(points.length);
  }
  const isNarrow = dtypeAttribute(call, "Tsplits", "int64") === "int32";
  const splits = isNarrow
    ? tensorOf("int32", [ends.length], Int32Array.from(ends))
    : tensorOf("int64", [ends.length], BigInt64Array.from(ends, BigInt));
  return [splits, tensorOf("int32", [points.length], Int32Array.from(points))];
}

const MALFORMED = -1;
const LAST_CONTROL = 0x1f;
const REPLACEMENT = 0xfffd;
const REPLACEMENT_BYTES = Buffer.from("\ufffd");

/**
 * The code points of UTF-8 bytes, with `MALFORMED` for each sequence that is none. The decoder writes
 * U+FFFD for those; one that the bytes themselves spell stays what it is. Its first byte continues no
 * other character, so the bytes can be cut there.
 */
function* codePoints(bytes: Uint8Array, isStrict: boolean): Generator<number> {
  if (isStrict) return yield* pointsOf(textOf(strictDecoder, bytes));
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; ;) {
    const spelled = all.indexOf(REPLACEMENT_BYTES, at);
    const text = textOf(lenientDecoder, all.subarray(at, spelled < 0 ? undefined : spelled));
    for (const point of pointsOf(text)) yield point === REPLACEMENT ? MALFORMED : point;
    if (spelled < 0) return;
    yield REPLACEMENT;
    at = spelled + REPLACEMENT_BYTES.length;
  }
}

function* pointsOf(text: string): Generator<number> {
  for (const character of text) yield character.codePointAt(0)!;
}

function textOf(decoder: typeof strictDecoder, bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw invalid("Invalid formatting on input string");
  }
}

/** UTF-8 strings of code points; `errors` says what becomes of those that are none. */
function encodeUnicode(call: HostCall): Tensor[] {
  requireUtf8(call, "output_encoding");
  const points = integersAt(call, 0);
  const splits = splitsOf(call, points.length);
  const errors = textAttribute(call, "errors", "replace");
  const replacement = numberAttribute(call, "replacement_char", REPLACEMENT);
  const characterOf = (point: number): string => {
    const isSurrogate = point >= FIRST_SURROGATE && point <= LAST_SURROGATE;
    if (point >= 0 && point <= LAST_POINT && !isSurrogate) return String.fromCodePoint(point);
    if (errors === "strict") {
      throw invalid("Code point is out of range for Unicode, or is a surrogate.");
    }
    return errors === "ignore" ? "" : String.fromCodePoint(replacement);
  };
  const rows = splits
    .slice(1)
    .map((end, row) => encoder.encode(points.slice(splits[row], end).map(characterOf).join("")));
  return [stringsOf([rows.length], rows)];
}

const LAST_POINT = 0x10ffff;
const FIRST_SURROGATE = 0xd800;
const LAST_SURROGATE = 0xdfff;
