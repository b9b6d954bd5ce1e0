// Index tables: many keys over many blocks, shared prefixes, compressed blocks.

import { crc32c, maskChecksum } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readTableEntries } from "./leveldb-table.ts";
import { decompressSnappy } from "./snappy.ts";
import { encodeTable } from "@winnow/model-writer";

const encoder = new TextEncoder();

function uint32(value: number): number[] {
  return [value & 255, (value >>> 8) & 255, (value >>> 16) & 255, value >>> 24];
}

/** A table of one data block with these contents, as another writer could make it. */
function tableOf(contents: readonly number[], type: number): Uint8Array {
  const block = (bytes: readonly number[], type: number): number[] => {
    const covered = [...bytes, type];
    return [...covered, ...uint32(maskChecksum(crc32c(Uint8Array.from(covered))))];
  };
  const data = block(contents, type);
  const meta = block([0, 0, 0, 0, 1, 0, 0, 0], 0);
  const index = block([0, 1, 2, 0x7a, 0, contents.length, 0, 0, 0, 0, 1, 0, 0, 0], 0);
  const handles = [data.length, meta.length - 5, data.length + meta.length, index.length - 5];
  const magic = [0x57, 0xfb, 0x80, 0x8b, 0x24, 0x75, 0x47, 0xdb];
  const footer = [...handles, ...new Uint8Array(40 - handles.length), ...magic];
  return Uint8Array.from([...data, ...meta, ...index, ...footer]);
}

/** "apple" → "1", "apricot" → "2", the second sharing two bytes. */
const PREFIXED = [
  [0, 5, 1, ...encoder.encode("apple"), 0x31],
  [2, 5, 1, ...encoder.encode("ricot"), 0x32],
  [0, 0, 0, 0, 1, 0, 0, 0],
].flat();

describe("readTableEntries()", () => {
  test("gives back any number of entries, in bytewise order", () => {
    const entry = fc.tuple(
      fc.string({ maxLength: 60, unit: "binary" }),
      fc.uint8Array({ maxLength: 300 }),
    );
    fc.assert(
      fc.property(
        fc.uniqueArray(entry, { selector: ([key]) => key, maxLength: 200 }),
        (entries) => {
          const written = entries
            .map(([key, value]) => ({ key: encoder.encode(key), value }))
            .toSorted((a, b) => Buffer.compare(a.key, b.key));

          const read = readTableEntries(encodeTable(written), "index");

          expect(read.map(({ value }) => Array.from(value))).toEqual(
            written.map(({ value }) => Array.from(value)),
          );
          expect(new Set(read.map(({ key }) => key))).toEqual(new Set(entries.map(([key]) => key)));
        },
      ),
      { numRuns: 50 },
    );
  });

  test("understands shared prefixes", () => {
    const entries = readTableEntries(tableOf(PREFIXED, 0), "index");

    expect(entries.map(({ key, value }) => [key, String.fromCharCode(...value)])).toEqual([
      ["apple", "1"],
      ["apricot", "2"],
    ]);
  });

  test("understands blocks compressed with snappy", () => {
    const literal = [PREFIXED.length, (PREFIXED.length - 1) << 2, ...PREFIXED];

    expect(readTableEntries(tableOf(literal, 1), "index").map(({ key }) => key)).toEqual([
      "apple",
      "apricot",
    ]);
  });

  test("names an unknown compression, and keys out of order", () => {
    const twice = [...PREFIXED.slice(0, 9), ...PREFIXED.slice(0, 9), ...PREFIXED.slice(-8)];

    expect(() => readTableEntries(tableOf(PREFIXED, 4), "index")).toThrow("unknown method 4");
    expect(() => readTableEntries(tableOf(twice, 0), "index")).toThrow('"apple" is out of order');
  });
});

describe("decompressSnappy()", () => {
  test("repeats what it copies from, also where they overlap", () => {
    // "ab", then 6 bytes from 2 back, then 4 from 8 back with a two-byte distance.
    const bytes = Uint8Array.of(12, 1 << 2, 0x61, 0x62, (2 << 2) | 1, 2, (3 << 2) | 2, 8, 0);

    expect(new TextDecoder().decode(decompressSnappy(bytes, "f"))).toBe("abababababab");
  });

  test.each([
    ["a copy from before the start", [4, 0, 0x61, (0 << 2) | 1, 9]],
    ["a huge announced size", [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0x61]],
    ["too little data", [9, 0, 0x61]],
    ["too much data", [1, 1 << 2, 0x61, 0x62]],
  ])("refuses %s", (_, bytes) => {
    expect(() => decompressSnappy(Uint8Array.from(bytes), "f")).toThrow("Cannot read f");
  });
});
