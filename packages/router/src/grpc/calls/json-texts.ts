// Texts of JSON as other programs can read them. Over REST, Winnow writes NaN and infinite numbers as bare words, as
// TensorFlow Serving does in all of its answers; a text that a client takes from a tensor is for any JSON parser, and
// these refuse the words. JSON has numbers that no float64 can hold, which parsers read as infinite; it has no NaN.

import { StringColumn } from "@winnow/core";
import type { Tensor } from "@winnow/core";

const WORDS = ["Infinity", "NaN"] as const;
/** A string, which stays as it is, or a word. */
const STRING_OR_WORD = /"(?:[^"\\]|\\.)*"|Infinity|NaN/g;

/** The same texts with `1e999` for Infinity and `null` for NaN. */
export function strictJsonTexts(texts: Tensor): Tensor {
  const { data } = texts;
  if (!(data instanceof StringColumn) || !hasWord(data.bytes)) return texts;
  return { ...texts, dtype: "string", data: StringColumn.fromText(data.toText().map(strict)) };
}

function hasWord(bytes: Uint8Array): boolean {
  const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return WORDS.some((word) => all.includes(word));
}

function strict(text: string): string {
  return text.replaceAll(STRING_OR_WORD, (found) => {
    if (found.startsWith('"')) return found;
    return found === "NaN" ? "null" : "1e999";
  });
}
