// What the JSON texts of answers over gRPC look like to a parser that knows JSON alone.

import { StringColumn, stringTensor } from "@winnow/core";
import fc from "fast-check";
import { expect, test } from "vitest";
import { strictJsonTexts } from "./json-texts.ts";

/** The texts that are written, and the turns of the event loop that it took. */
function writtenInTurns(texts: readonly string[]): { texts: readonly string[]; turns: number } {
  const steps = strictJsonTexts(stringTensor(texts));
  for (let turns = 1; ; turns += 1) {
    const { done, value } = steps.next();
    if (done !== true) continue;
    return { texts: value.data instanceof StringColumn ? value.data.toText() : [], turns };
  }
}

const written = (...texts: readonly string[]): readonly string[] => writtenInTurns(texts).texts;

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

test("a text of many MiB is written in turns with other requests", () => {
  const long = '\\"N'.repeat(3 * 2 ** 20) + "x".repeat(2 ** 24);

  const { texts, turns } = writtenInTurns([`{"f":NaN,"t":"${long}","g":-Infinity}`]);

  expect(texts[0] === `{"f":null,"t":"${long}","g":-1e999}`).toBe(true);
  expect(turns).toBeGreaterThan(50);
});

/** A value as JSON, with these words for infinite numbers and NaN. */
function spelled(
  value: unknown,
  words: { readonly infinity: string; readonly nan: string },
): string {
  if (typeof value === "number") {
    if (Number.isNaN(value)) return words.nan;
    if (!Number.isFinite(value)) return `${value < 0 ? "-" : ""}${words.infinity}`;
  }
  if (Array.isArray(value)) return `[${value.map((each) => spelled(each, words)).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(([name, each]) => {
    return `${JSON.stringify(name)}:${spelled(each, words)}`;
  });
  return `{${members.join(",")}}`;
}

test("any values are those with the other words", () => {
  const number = fc.constantFrom(1e300, -0.5, Infinity, -Infinity, NaN);
  const text = fc.oneof(fc.string(), fc.constantFrom('"NaN', "\\", "Infinity", "é NaN"));
  const value = fc.oneof(number, text, fc.array(number));
  const objects = fc.array(fc.dictionary(text, value));

  fc.assert(
    fc.property(objects, (values) => {
      const texts = values.map((each) => spelled(each, { infinity: "Infinity", nan: "NaN" }));
      const strict = values.map((each) => spelled(each, { infinity: "1e999", nan: "null" }));
      expect(written(...texts)).toEqual(strict);
    }),
  );
});
