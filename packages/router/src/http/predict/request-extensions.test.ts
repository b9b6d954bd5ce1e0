// What `k` and `exclude` may be, and base64, in which ids may come.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeBase64 } from "../json/base64-bytes.ts";
import { JsonReader } from "../json/json-reader.ts";
import { parseRequestBody } from "./predict-request.ts";
import { readIds, readK } from "./request-extensions.ts";

const LIMITS = { kMax: 100, excludedIdsMax: 4 };

function readExclusions(
  document: JsonReader,
  instances: number,
  limits: { readonly excludedIdsMax: number },
): ReturnType<typeof readIds> {
  return readIds(document, { field: "exclude", instances }, limits);
}

function read(body: string): JsonReader {
  const document = new JsonReader({ valuesMax: 1e6 });
  parseRequestBody(document, Buffer.from(body));
  return document;
}

describe("readK() and readExclusions()", () => {
  test("are absent where the body has none", () => {
    expect(readK(read("{}"), LIMITS)).toBeUndefined();
    expect(readExclusions(read("{}"), 1, LIMITS)).toBeUndefined();
  });

  test("read a k within its bounds", () => {
    expect(readK(read('{"k": 100}'), LIMITS)).toBe(100);
  });

  test.each(["0", "-1", "101", "1.0", '"5"', "null", "[5]", "9223372036854775807"])(
    "refuse k %s",
    (k) => {
      expect(() => readK(read(`{"k": ${k}}`), LIMITS)).toThrow(
        "it must be an integer from 1 to 100",
      );
    },
  );

  test("read one list for all or one per instance", () => {
    const forAll = readExclusions(read('{"exclude": ["a", {"b64": "Yg=="}]}'), 3, LIMITS)!;
    const each = readExclusions(read('{"exclude": [[1, 2], [], [9007199254740993]]}'), 3, LIMITS)!;

    expect(forAll.map((list) => (list.data as { toText(): string[] }).toText())).toEqual([
      ["a", "b"],
    ]);
    expect(each.map((list) => Array.from(list.data as BigInt64Array))).toEqual([
      [1n, 2n],
      [],
      [9_007_199_254_740_993n],
    ]);
    expect(each.map((list) => list.dtype)).toEqual(["int64", "int64", "int64"]);
  });

  test.each([
    ['"a"', "it must be a list of item ids"],
    ['["a", ["b"]]', "mixes ids and lists"],
    ['[["a"]]', "has 1 lists for 2 instances"],
    ['["a", 1]', "mixes strings and integers"],
    ["[1.5]", "an id is a string or an integer"],
    ["[null]", "an id is a string or an integer"],
    ["[1, 2, 3, 4, 5]", "at most 4 ids are allowed"],
    ["[[1, 2, 3], [4, 5]]", "at most 4 ids are allowed"],
    ["[[[1]], [2]]", "an id is a string or an integer"],
    ['[{"x": 1}]', "not formatted correctly for base64 data"],
  ])("refuse exclude %s", (exclude, message) => {
    expect(() => readExclusions(read(`{"exclude": ${exclude}}`), 2, LIMITS)).toThrow(message);
  });
});

describe("decodeBase64()", () => {
  test("reads what Buffer writes, padded or not", () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.boolean(), (bytes, isPadded) => {
        const text = Buffer.from(bytes).toString("base64");

        const decoded = decodeBase64(Buffer.from(isPadded ? text : text.replaceAll("=", "")));

        expect(decoded).toEqual(bytes);
      }),
    );
  });

  test.each(["A", "A===", "AA=", "AAA==", "A-_A", "AA=A", "ü"])("refuses %s", (text) => {
    expect(decodeBase64(Buffer.from(text))).toBeUndefined();
  });
});
