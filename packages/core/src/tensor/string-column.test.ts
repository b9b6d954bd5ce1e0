// Byte strings survive packing, slicing and taking; tensors hold exactly what their shape says.

import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { StringColumn } from "./string-column.ts";
import { elementCount, stringTensor, tensor } from "./tensor.ts";

describe("StringColumn", () => {
  test("encodes texts as each of them is encoded, however many there are", () => {
    const encoder = new TextEncoder();
    const kinds = [
      "ascii",
      "é",
      "",
      "half of a pair \ud83d",
      "\ude00 the other half",
      "x".repeat(2 ** 20),
    ];
    const texts = Array.from(
      { length: 140_000 },
      (_, at) => kinds[at % 20_000 < 6 ? at % 20_000 : 0]!,
    );

    const column = StringColumn.fromText(texts);

    expect(column.length).toBe(texts.length);
    const bytes = new Map(kinds.map((text) => [text, Buffer.from(encoder.encode(text))]));
    const others = texts.filter((text, at) => !bytes.get(text)!.equals(column.at(at)));
    expect(others).toEqual([]);
  });

  test("many long texts in ASCII are encoded without an array for each", () => {
    const text = "a title of some thirty characters";
    const encode = vi.spyOn(TextEncoder.prototype, "encode");
    const texts = Array.from({ length: 2 ** 21 }, () => text);

    const column = StringColumn.fromText(texts);
    const calls = encode.mock.calls.length;
    encode.mockRestore();

    expect(column.byteLength).toBe(2 ** 21 * text.length);
    expect(calls).toBeLessThan(100);
  });

  test("gives back every byte string it was made of, whole, sliced and taken", () => {
    const property = fc.property(
      fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 30 }),
      fc.nat(30),
      fc.nat(30),
      (strings, a, b) => {
        const column = StringColumn.fromBytes(strings);
        const from = Math.min(a, b, strings.length);
        const to = Math.min(Math.max(a, b), strings.length);
        const sliced = column.slice(from, to);
        const reversed = column.take(strings.map((_, index) => strings.length - 1 - index));

        expect(column.length).toBe(strings.length);
        for (const [index, string] of strings.entries()) {
          expect([...column.at(index)]).toEqual([...string]);
          expect([...reversed.at(strings.length - 1 - index)]).toEqual([...string]);
        }
        expect(sliced.length).toBe(to - from);
        expect(Array.from({ length: to - from }, (_, index) => [...sliced.at(index)])).toEqual(
          strings.slice(from, to).map((string) => Array.from(string)),
        );
        expect(sliced.byteLength).toBe(
          strings.slice(from, to).reduce((sum, string) => sum + string.length, 0),
        );
      },
    );

    fc.assert(property, { numRuns: 200 });
  });

  test("joins columns, slices of others among them, and none", () => {
    const strings = fc.array(fc.uint8Array({ maxLength: 9 }), { maxLength: 9 });
    const property = fc.property(
      fc.array(fc.tuple(strings, fc.nat(9)), { maxLength: 5 }),
      (lists) => {
        const columns = lists.map(([list, from]) => {
          const start = Math.min(from, list.length);
          return StringColumn.fromBytes(list).slice(start, list.length);
        });
        const parts = columns.flatMap((column) =>
          Array.from({ length: column.length }, (_, index) => column.at(index)),
        );

        expect(StringColumn.joined(columns)).toEqual(StringColumn.fromBytes(parts));
      },
    );

    fc.assert(property, { numRuns: 200 });
  });

  test.each([
    ["ASCII", ["", "a", "bc"]],
    ["others among them", ["a", "ü", "", "日本", "b"]],
    ["halves of one character", ["\ud83d", "\ude00"]],
    ["none", []],
  ])("has the UTF-8 of each text: %s", (_, texts) => {
    const bytes = texts.map((text) => new TextEncoder().encode(text));

    expect(StringColumn.fromText(texts)).toEqual(StringColumn.fromBytes(bytes));
  });

  test("refuses a position outside", () => {
    const column = StringColumn.fromText(["a"]);

    expect(() => column.at(1)).toThrow("string 1 of a column of 1");
    expect(() => column.at(-1)).toThrow("string -1 of a column of 1");
  });

  test("shows bytes that are no text as U+FFFD and keeps them as they are", () => {
    const column = StringColumn.fromBytes([Uint8Array.of(0xff, 0x41)]);

    expect(column.toText()).toEqual(["\uFFFDA"]);
    expect([...column.at(0)]).toEqual([0xff, 0x41]);
  });

  test("shows a byte order mark in front of a text as part of it", () => {
    expect(StringColumn.fromText(["\uFEFFa"]).toText()).toEqual(["\uFEFFa"]);
  });
});

describe("tensor()", () => {
  test("refuses values that cannot fill the shape", () => {
    expect(() => tensor("float32", [2, 3], new Float32Array(5))).toThrow(
      "5 values cannot fill shape [2,3]",
    );
  });

  test("a scalar holds one value, a shape with a zero none", () => {
    expect(elementCount([])).toBe(1);
    expect(elementCount([3, 0, 2])).toBe(0);
    expect(stringTensor(["x"], []).shape).toEqual([]);
  });
});
