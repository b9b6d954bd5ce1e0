// Vocabularies in text files, as `InitializeTableFromTextFileV2` reads them
// (tensorflow/core/kernels/lookup_util.cc, TextFileLineIterator; measured with TensorFlow 2.21).
// Lines end at "\n", one "\r" before it is dropped, all other bytes count; the last line need not end.
// An empty line is refused, as TensorFlow refuses it.

import { StringColumn, type Tensor, WinnowError, excerpt } from "@winnow/core";
import type { TextVocabulary } from "./partitions/stored-table.ts";

const WHOLE_LINE = -2;
const LINE_NUMBER = -1;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const INTEGER = /^\s*[+-]?\d+\s*$/;
const INT64_MAX = 2n ** 63n - 1n;

const decoder = new TextDecoder("latin1");

/** Keys and values as `[entries]` tensors. @throws WinnowError INVALID_ARGUMENT, in TensorFlow's words */
export function parseTextVocabulary(
  content: Uint8Array,
  vocabulary: TextVocabulary,
): { readonly keys: Tensor; readonly values: Tensor } {
  const lines = splitLines(content, vocabulary);
  const { keyIndex, valueIndex, keyDtype, valueDtype } = vocabulary;
  return {
    keys: column(lines, vocabulary, { index: keyIndex, dtype: keyDtype }),
    values: column(lines, vocabulary, { index: valueIndex, dtype: valueDtype }),
  };
}

/** The lines' starts and ends in the content. */
interface Lines {
  readonly content: Uint8Array;
  readonly starts: Uint32Array;
  readonly ends: Uint32Array;
}

function splitLines(content: Uint8Array, vocabulary: TextVocabulary): Lines {
  const wanted = vocabulary.vocabularySize;
  const available = countLines(content);
  if (wanted >= 0 && available < wanted) {
    throw invalid(
      `Invalid vocab_size in ${name(vocabulary)}: expected ${wanted} but got ${available}`,
    );
  }
  const count = wanted >= 0 ? wanted : available;
  if (count === 0) throw invalid(`Invalid content in ${name(vocabulary)}: it holds no line`);
  const starts = new Uint32Array(count);
  const ends = new Uint32Array(count);
  let start = 0;
  for (let line = 0; line < count; line += 1) {
    const newline = content.indexOf(NEWLINE, start);
    const stop = newline < 0 ? content.length : newline;
    const end = stop > start && content[stop - 1] === RETURN ? stop - 1 : stop;
    if (end === start) {
      const text = `empty line found at position ${stop + 1}`;
      throw invalid(`Invalid content in ${name(vocabulary)}: ${text}`);
    }
    starts[line] = start;
    ends[line] = end;
    start = stop + 1;
  }
  return { content, starts, ends };
}

function countLines(content: Uint8Array): number {
  let lines = 0;
  let start = 0;
  for (; start < content.length; lines += 1) {
    const newline = content.indexOf(NEWLINE, start);
    start = newline < 0 ? content.length : newline + 1;
  }
  return lines;
}

interface Wanted {
  readonly index: number;
  readonly dtype: "string" | "int64";
}

function column(lines: Lines, vocabulary: TextVocabulary, wanted: Wanted): Tensor {
  const count = lines.starts.length;
  if (wanted.index === LINE_NUMBER) {
    if (wanted.dtype !== "int64") throw invalid("Line numbers of a vocabulary are int64");
    const offset = BigInt(vocabulary.offset);
    const data = BigInt64Array.from({ length: count }, (_, line) => BigInt(line) + offset);
    return { dtype: "int64", shape: [count], data };
  }
  const { starts, ends } =
    wanted.index === WHOLE_LINE ? lines : splitColumns(lines, vocabulary, wanted.index);
  const strings = gather(lines.content, starts, ends);
  if (wanted.dtype === "string") return { dtype: "string", shape: [count], data: strings };
  const data = BigInt64Array.from({ length: count }, (_, line) => integer(strings, line));
  return { dtype: "int64", shape: [count], data };
}

function splitColumns(lines: Lines, vocabulary: TextVocabulary, index: number): Lines {
  const delimiter = vocabulary.delimiter.charCodeAt(0);
  if (index < 0 || vocabulary.delimiter.length !== 1 || delimiter > 0xff) {
    throw invalid(`Cannot read column ${index} of ${name(vocabulary)}`);
  }
  const starts = lines.starts.slice();
  const ends = lines.ends.slice();
  for (let line = 0; line < starts.length; line += 1) {
    for (let at = 0; ; at += 1) {
      const found = lines.content.indexOf(delimiter, starts[line]);
      const isLast = found < 0 || found >= lines.ends[line]!;
      ends[line] = isLast ? lines.ends[line]! : found;
      if (at === index) break;
      if (isLast) {
        const text = `expected at least ${index + 1} got ${at + 1}`;
        throw invalid(`Invalid number of columns in ${name(vocabulary)} line ${line}: ${text}`);
      }
      starts[line] = found + 1;
    }
  }
  return { content: lines.content, starts, ends };
}

/** Copies the pieces into one buffer, so that the rest of the file's bytes can be freed. */
function gather(content: Uint8Array, starts: Uint32Array, ends: Uint32Array): StringColumn {
  const offsets = new Uint32Array(starts.length + 1);
  for (let line = 0; line < starts.length; line += 1) {
    offsets[line + 1] = offsets[line]! + ends[line]! - starts[line]!;
  }
  const bytes = new Uint8Array(offsets[starts.length]!);
  for (let line = 0; line < starts.length; line += 1) {
    bytes.set(content.subarray(starts[line], ends[line]), offsets[line]);
  }
  return new StringColumn(offsets, bytes);
}

function integer(strings: StringColumn, line: number): bigint {
  const text = decoder.decode(strings.at(line));
  const value = INTEGER.test(text) ? BigInt(text.trim().replace("+", "")) : undefined;
  if (value === undefined || value > INT64_MAX || value < -INT64_MAX - 1n) {
    throw invalid(`Field ${excerpt(text)} in line ${line} is not a valid int64.`);
  }
  return value;
}

function name(vocabulary: TextVocabulary): string {
  return `${vocabulary.folder ?? "assets/"}${excerpt(vocabulary.file)}`;
}

function invalid(message: string): WinnowError {
  return new WinnowError("INVALID_ARGUMENT", message);
}
