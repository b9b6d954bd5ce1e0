// What `winnow.json` may say, held against its published schema, and where an error says that it does not.

import { readFileSync } from "node:fs";
import path from "node:path";
import { Ajv } from "ajv";
import { describe, expect, test } from "vitest";
import { parseDescription } from "./description.ts";

const schemaFile = path.resolve(import.meta.dirname, "../../../../../docs/winnow.schema.json");
const isValid = new Ajv({ allowUnionTypes: true }).compile(
  JSON.parse(readFileSync(schemaFile, "utf8")) as object,
);
const parsed = (text: string) => parseDescription(Buffer.from(text));

test("a description gives what it says, and defaults where it says nothing", () => {
  const { inputs, retrieval } = parsed(`{
    "$schema": "https://example.com/winnow.schema.json",
    "inputs": { "reader": { "vocabulary": "users.txt", "unknown": 0 } },
    "retrieval": { "items": { "file": "items.npy", "crc32c": "00ff00ff" } }
  }`);

  expect([...inputs]).toEqual([
    [
      "reader",
      { file: "users.txt", where: "winnow.json, line 3, inputs.reader.vocabulary", unknown: 0 },
    ],
  ]);
  expect(retrieval).toEqual({
    items: {
      file: "items.npy",
      where: "winnow.json, line 4, retrieval.items.file",
      tensor: undefined,
      checksum: 0x00ff00ff,
    },
    ids: undefined,
    query: undefined,
    similarity: "dot",
    k: 10,
    outputs: { scores: "scores", ids: "ids" },
    where: "winnow.json, line 4, retrieval",
  });
});

const ITEMS = '"items": { "file": "items.npy" }';
const within = (text: string): string => `{\n  "retrieval": {\n    ${ITEMS},\n    ${text}\n  }\n}`;

describe("the schema and the reader agree on", () => {
  test.each([
    "{}",
    '{ "inputs": {} }',
    within('"k": 3'),
    within('"similarity": "cosine"'),
    within('"ids": { "file": "t.safetensors", "tensor": "ids", "crc32c": "0123abcd" }'),
    within('"outputs": { "scores": "output_1", "ids": "output_2" }, "query": "vector"'),
    '{ "inputs": { "__proto__": { "vocabulary": "a.txt" } } }',
  ])("%s", (text) => {
    expect(isValid(JSON.parse(text))).toBe(true);
    expect(() => parsed(text)).not.toThrow();
  });

  test.each([
    ["[]", "winnow.json, line 1: must be an object"],
    [
      '{\n"retrievel": {} }',
      "winnow.json, line 2, retrievel: is no field; there are $schema, inputs, retrieval",
    ],
    ['{ "retrieval": {} }', 'winnow.json, line 1, retrieval: lacks the field "items"'],
    [
      '{ "retrieval": { "items": "items.npy" } }',
      "winnow.json, line 1, retrieval.items: must be an object",
    ],
    [
      '{ "retrieval": { "items": {} } }',
      'winnow.json, line 1, retrieval.items: lacks the field "file"',
    ],
    [
      '{ "retrieval": { "items": { "file": "" } } }',
      "winnow.json, line 1, retrieval.items.file: must be a text that is not empty",
    ],
    [within('"k": 0'), "winnow.json, line 4, retrieval.k: must be an integer from 1 to 2147483647"],
    [within('"k": 2.5'), "winnow.json, line 4, retrieval.k: must be an integer"],
    [within('"k": "3"'), "winnow.json, line 4, retrieval.k: must be an integer"],
    [within('"k": null'), "winnow.json, line 4, retrieval.k: must be an integer"],
    [
      within('"similarity": "l2"'),
      'winnow.json, line 4, retrieval.similarity: must be "dot" or "cosine"',
    ],
    [
      within('"ids": { "file": "a.txt", "crc32c": "0XFF" }'),
      "winnow.json, line 4, retrieval.ids.crc32c: must be a CRC-32C as 8 hexadecimal digits",
    ],
    [
      within('"ids": { "file": "a.txt", "column": "id" }'),
      "winnow.json, line 4, retrieval.ids.column: is no field; there are crc32c, file, tensor",
    ],
    ['{ "inputs": { "a": {} } }', 'winnow.json, line 1, inputs.a: lacks the field "vocabulary"'],
    [
      '{ "inputs": { "a": { "vocabulary": "a.txt", "unknown": -1 } } }',
      "winnow.json, line 1, inputs.a.unknown: must be an integer from 0",
    ],
    ['{ "inputs": [] }', "winnow.json, line 1, inputs: must be an object"],
  ])("refusing %s", (text, message) => {
    expect(isValid(JSON.parse(text))).toBe(false);
    expect(() => parsed(text)).toThrow(message);
  });
});

describe("what is no JSON, or says a thing twice, is refused with its line:", () => {
  test.each([
    ["", "winnow.json, line 1: the file ends where a value belongs"],
    ["{\n,}", 'winnow.json, line 2: ",}" stands where a name in "quotes" belongs'],
    ['{"inputs": {}\n', 'winnow.json, line 2: the file ends where "," or "}" belongs'],
    ['{"inputs" {}}', 'winnow.json, line 1: "{}}" stands where ":" belongs'],
    ["{}\n\n{}", 'winnow.json, line 3: "{}" stands where the end of the file belongs'],
    ['{"inputs": {},\n "inputs": {}}', 'line 2: ": {}}" stands where one "inputs" only belongs'],
    ['{"a": 01}', 'line 1: "1}" stands where "," or "}" belongs'],
    ['{"a": "b', 'line 1: ""b" stands where the end of a text belongs'],
    ['{"a": "b\\q"}', "a text without line breaks and unknown escapes"],
    ['{"a": "b\nc"}', "a text without line breaks and unknown escapes"],
    ["{\n// comment\n}", 'line 2: "// comment'],
    ["[".repeat(100), "at most 32 brackets in each other"],
    [
      within('"outputs": { "scores": "ids" }'),
      'retrieval.outputs: must be two names: both are "ids"',
    ],
  ])("%s", (text, message) => {
    expect(() => parsed(text)).toThrow(message);
  });

  test("bytes that are not UTF-8", () => {
    expect(() => parseDescription(Uint8Array.of(0x7b, 0xff, 0x7d))).toThrow("it is not UTF-8");
  });
});
