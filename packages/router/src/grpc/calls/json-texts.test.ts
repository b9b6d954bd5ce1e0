// What the JSON texts of answers over gRPC look like to a parser that knows JSON alone.

import { StringColumn, stringTensor } from "@winnow/core";
import { expect, test } from "vitest";
import { strictJsonTexts } from "./json-texts.ts";

const written = (...texts: readonly string[]): readonly string[] => {
  const { data } = strictJsonTexts(stringTensor(texts));
  return data instanceof StringColumn ? data.toText() : [];
};

test("infinite numbers are numbers that every parser reads, and NaN is null", () => {
  const [text = ""] = written('{"f":[Infinity,-Infinity,NaN,1.5]}');
  expect(text).toBe('{"f":[1e999,-1e999,null,1.5]}');
  expect(JSON.parse(text)).toEqual({ f: [Infinity, -Infinity, null, 1.5] });
});

test("strings and the other texts stay as they are", () => {
  const texts = [
    '{"To \\"Infinity\\"":"NaN\\\\","b":"-Infinity 🎬"}',
    "",
    '{"a":9007199254740993}',
  ];
  expect(written(...texts)).toEqual(texts);
  expect(written(...texts, '{"x":NaN}')).toEqual([...texts, '{"x":null}']);
});
