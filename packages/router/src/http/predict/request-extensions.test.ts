// What `k` and `exclude` may be, and base64, in which ids may come.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeBase64 } from "../json/base64-bytes.ts";
import { JsonReader } from "../json/json-reader.ts";
import { parseRequestBody } from "./predict-request.ts";
import { fieldsOf, readExtensions, readIgnoredKeys } from "./request-extensions.ts";
import type { RequestExtensions } from "./request-extensions.ts";

const LIMITS = { kMax: 100, excludedIdsMax: 4 };

function extensionsOf(
  document: JsonReader,
  instances: number,
  limits: Partial<typeof LIMITS> = {},
): RequestExtensions {
  return readExtensions(fieldsOf(document), instances, { ...LIMITS, ...limits });
}

const readK = (document: JsonReader): number | undefined => extensionsOf(document, 1).k;
const readFilters = (document: JsonReader, instances: number): RequestExtensions["filter"] =>
  extensionsOf(document, instances).filter;
const readReturned = (document: JsonReader): RequestExtensions["attributes"] =>
  extensionsOf(document, 1).attributes;

function readExclusions(
  document: JsonReader,
  instances: number,
  limits: { readonly excludedIdsMax: number },
): RequestExtensions["exclude"] {
  return extensionsOf(document, instances, limits).exclude;
}

function read(body: string): JsonReader {
  const document = new JsonReader({ valuesMax: 1e6 });
  parseRequestBody(document, Buffer.from(body));
  return document;
}

describe("readK() and readExclusions()", () => {
  test("are absent where the body has none", () => {
    expect(readK(read("{}"))).toBeUndefined();
    expect(readExclusions(read("{}"), 1, LIMITS)).toBeUndefined();
  });

  test("read a k within its bounds", () => {
    expect(readK(read('{"k": 100}'))).toBe(100);
  });

  test.each(["0", "-1", "101", "1.0", '"5"', "null", "[5]", "9223372036854775807"])(
    "refuse k %s",
    (k) => {
      expect(() => readK(read(`{"k": ${k}}`))).toThrow("it must be an integer from 1 to 100");
    },
  );

  // TensorFlow Serving's texts end before such a number.
  test.each(["NaN", "Infinity", "-Infinity"])("name %s in a refusal", (k) => {
    expect(() => readK(read(`{"k": ${k}}`))).toThrow(`"k" is ${k}; it must be an integer`);
  });

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

describe("readFilters(), readReturned() and readIgnoredKeys()", () => {
  const year = { kind: "test", attribute: "year", is: "in", values: [1990] };

  test("read one filter for all, or one per instance", () => {
    expect(readFilters(read("{}"), 2)).toBeUndefined();
    expect(readFilters(read('{"filter": null}'), 2)).toBeUndefined();
    expect(readFilters(read('{"filter": {"year": 1990}}'), 2)).toEqual([year]);
    const all = { kind: "and", of: [] };
    expect(readFilters(read('{"filter": [{"year": 1990}, null]}'), 2)).toEqual([year, all]);
    const big = '{"filter": {"year": {"$gt": -9223372036854775808}}}';
    expect(readFilters(read(big), 1)).toEqual([
      { kind: "test", attribute: "year", is: "gt", values: [-(2n ** 63n)] },
    ]);
    const beyond =
      '{"filter": {"year": {"$in": [-9223372036854775809, 18446744073709551617, 1e3]}}}';
    expect(readFilters(read(beyond), 1)).toEqual([
      {
        kind: "test",
        attribute: "year",
        is: "in",
        values: [-(2n ** 63n) - 1n, 2 ** 64, 1e3],
      },
    ]);
  });

  // RapidJSON reads each of these as a neighbour of the float64 that has these digits.
  test.each([11.737702369689941, 36.967708587646484, 1.1e-30])(
    "a filter's %s is the nearest float64",
    (value) => {
      const test = { kind: "test", attribute: "price", is: "in", values: [value] };
      expect(readFilters(read(`{"filter": {"price": ${value}}}`), 1)).toEqual([test]);
    },
  );

  test.each([
    ['"x"', 'is "x"; it must be an object'],
    ['[{"a": 1}]', "1 filters for 2 instances"],
    ['{"a": 1, "a": 2}', 'names "a" twice in one object'],
    [`{"a": {"$in": [${"1,".repeat(70_000)}1]}}`, "holds more than 65536 values"],
    [`{"a": {"$in": ["${"x".repeat(4_194_304)}"]}}`, "holds more than 4194304 bytes"],
    [`${'{"$not": '.repeat(100)}{"a": 1}${"}".repeat(100)}`, "lies too deep"],
  ])("refuse filter %.40s", (filter, message) => {
    expect(() => readFilters(read(`{"filter": ${filter}}`), 2)).toThrow(message);
  });

  test("names of attributes are taken once", () => {
    expect(readReturned(read("{}"))).toBeUndefined();
    expect(readReturned(read('{"return": ["a", "b", "a"]}'))).toEqual(["a", "b"]);
    expect(() => readReturned(read('{"return": ["a", 1]}'))).toThrow("a list of names");
    const many = JSON.stringify(Array.from({ length: 65 }, (_, at) => `a${at}`));
    expect(() => readReturned(read(`{"return": ${many}}`))).toThrow("at most 64 are allowed");
  });

  test("keys that mean nothing are named, a few, and never as more than one header", () => {
    const body =
      '{"instances": [{"nested": 1}], "fliter": {}, "k": 1, "a\\r\\nSet-Cookie: b, é": 2}';
    expect(readIgnoredKeys(read(body))).toEqual(["fliter", "a??Set-Cookie:?b????"]);
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`key${at}`, at]));
    expect(readIgnoredKeys(read(JSON.stringify(many)))).toHaveLength(8);
    expect(readIgnoredKeys(read(`{"${"x".repeat(500)}": 1}`))[0]).toHaveLength(64);
  });
});
