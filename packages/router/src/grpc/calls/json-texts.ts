// Texts of JSON as other programs can read them. Over REST, Winnow writes NaN and infinite numbers as bare words, as
// TensorFlow Serving does in all of its answers; a text that a client takes from a tensor is for any JSON parser, and
// these refuse the words. JSON has numbers that no float64 can hold, which parsers read as infinite; it has no NaN.
//
// The texts are read byte by byte, in turns with other requests: one text can have many MiB.

import { StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { turnMeter } from "../../turns/turns.ts";
import type { Steps } from "../../turns/turns.ts";

/** A bare word, and what stands for it in JSON. */
interface Word {
  readonly bytes: Buffer;
  readonly strict: Buffer;
}

const WORDS: readonly Word[] = [
  { bytes: Buffer.from("Infinity"), strict: Buffer.from("1e999") },
  { bytes: Buffer.from("NaN"), strict: Buffer.from("null") },
];
/** Bytes of the shortest word; what stands for a word is longer by one byte at most. */
const WORD_BYTES_MIN = 3;

/** Bytes between two questions whether the turn is over: some µs. */
const BLOCK_BYTES = 2 ** 12;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const FIRST_CAPITAL = 0x41;
const LAST_CAPITAL = 0x5a;

/** The same texts with `1e999` for Infinity and `null` for NaN. Yields at the end of each turn of the event loop. */
export function* strictJsonTexts(texts: Tensor): Steps<Tensor> {
  const { data } = texts;
  if (!(data instanceof StringColumn)) return texts;
  const { bytes, offsets, length } = data;
  const used = bytes.subarray(offsets[0], offsets[length]);
  const all = Buffer.from(used.buffer, used.byteOffset, used.byteLength);
  if (!WORDS.some((word) => all.includes(word.bytes))) return texts;
  return { ...texts, dtype: "string", data: yield* strict(data) };
}

function* strict({ bytes, offsets, length, byteLength }: StringColumn): Steps<StringColumn> {
  const isTurnOver = turnMeter();
  const ends = new Uint32Array(length + 1);
  const written = new Uint8Array(byteLength + Math.floor(byteLength / WORD_BYTES_MIN));
  let to = 0;
  for (let index = 0; index < length; index += 1) {
    const text = bytes.subarray(offsets[index], offsets[index + 1]);
    let isString = false;
    for (let at = 0; at < text.length;) {
      const from = at;
      const blockEnd = Math.min(text.length, from + BLOCK_BYTES);
      while (at < blockEnd) {
        const byte = text[at]!;
        // Outside of strings, JSON has no capital letter but the E of a number.
        const word = !isString && isCapital(byte) ? wordAt(text, at) : undefined;
        if (word !== undefined) {
          written.set(word.strict, to);
          to += word.strict.length;
          at += word.bytes.length;
          continue;
        }
        if (byte === QUOTE) isString = !isString;
        if (byte === BACKSLASH) written[to++] = text[at++]!;
        written[to++] = text[at++]!;
      }
      if (isTurnOver(at - from)) yield;
    }
    ends[index + 1] = to;
  }
  return new StringColumn(ends, written.subarray(0, to));
}

const isCapital = (byte: number): boolean => byte >= FIRST_CAPITAL && byte <= LAST_CAPITAL;

function wordAt(text: Uint8Array, at: number): Word | undefined {
  return WORDS.find(({ bytes }) => bytes.equals(text.subarray(at, at + bytes.length)));
}
