// Text vocabularies against what TensorFlow 2.21 answered for the same files.

import { describe, expect, test } from "vitest";
import type { TextVocabulary } from "./partitions/stored-table.ts";
import { parseTextVocabulary } from "./text-vocabulary.ts";

const LINES: TextVocabulary = {
  file: "v.txt",
  keyDtype: "string",
  valueDtype: "int64",
  keyIndex: -2,
  valueIndex: -1,
  vocabularySize: -1,
  delimiter: "\t",
  offset: 0,
};

function parse(content: string, changes: Partial<TextVocabulary> = {}): [unknown, unknown][] {
  const { keys, values } = parseTextVocabulary(Buffer.from(content, "latin1"), {
    ...LINES,
    ...changes,
  });
  const listOf = (tensor: typeof keys): unknown[] =>
    tensor.dtype === "string"
      ? Array.from({ length: tensor.data.length }, (_, index) =>
          Buffer.from(tensor.data.at(index)).toString("latin1"),
        )
      : [...tensor.data].map(Number);
  const valueList = listOf(values);
  return listOf(keys).map((key, index) => [key, valueList[index]]);
}

const COLUMNS = { keyIndex: 0, valueIndex: 1 };

describe("a text vocabulary", () => {
  test.each([
    [
      "one carriage return before the newline is dropped",
      "a\r\nb\r\n",
      {},
      [
        ["a", 0],
        ["b", 1],
      ],
    ],
    [
      "others stay",
      "a\rc\nb\r\r\n",
      {},
      [
        ["a\rc", 0],
        ["b\r", 1],
      ],
    ],
    [
      "the last line need not end",
      "a\nb",
      { offset: 1 },
      [
        ["a", 1],
        ["b", 2],
      ],
    ],
    [
      "any bytes are a key",
      "a\0b\n\xff\n",
      {},
      [
        ["a\0b", 0],
        ["\xff", 1],
      ],
    ],
    [
      "a size reads that many lines",
      "a\nb\nc\n",
      { vocabularySize: 2 },
      [
        ["a", 0],
        ["b", 1],
      ],
    ],
    [
      "columns are split by the delimiter",
      "a\t1 \nb\t+2\tx\n",
      COLUMNS,
      [
        ["a", 1],
        ["b", 2],
      ],
    ],
    ["whatever it is", "a,-3\n", { ...COLUMNS, delimiter: "," }, [["a", -3]]],
    [
      "ids are keys too",
      "10\n20\n",
      { keyDtype: "int64", keyIndex: 0 },
      [
        [10, 0],
        [20, 1],
      ],
    ],
    ["values may be strings", "a\tx\n", { ...COLUMNS, valueDtype: "string" }, [["a", "x"]]],
    [
      "line numbers may be keys",
      "x\ny\n",
      { keyDtype: "int64", keyIndex: -1, valueDtype: "string", valueIndex: -2 },
      [
        [0, "x"],
        [1, "y"],
      ],
    ],
  ] as const)("%s", (...[, content, changes, expected]) => {
    expect(parse(content, changes)).toEqual(expected);
  });

  test.each([
    ["a\n\nb\n", {}, "Invalid content in assets/v.txt: empty line found at position 3"],
    ["a\nb\n\n", {}, "empty line found at position 5"],
    ["\r\n", {}, "empty line found"],
    ["", {}, "it holds no line"],
    ["a\nb\n", { vocabularySize: 3 }, "Invalid vocab_size in assets/v.txt: expected 3 but got 2"],
    ["a\tx\n", COLUMNS, "Field x in line 0 is not a valid int64."],
    ["a\t0x10\n", COLUMNS, "Field 0x10 in line 0 is not a valid int64."],
    ["a\t9223372036854775808\n", COLUMNS, "is not a valid int64."],
    ["a\n", COLUMNS, "Invalid number of columns in assets/v.txt line 0: expected at least 2 got 1"],
  ] as const)("%j is refused", (content, changes, message) => {
    expect(() => parse(content, changes)).toThrow(message);
  });
});
