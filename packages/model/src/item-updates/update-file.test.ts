// What a file of changes comes to, compared with the simplest reading: each line by `JSON.parse`, and a map of the last ones;
// and a file that grew or was replaced, compared with the same one read for the first time.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { StringColumn, WinnowError } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { StoredDirectory } from "../storage/stored-directory.ts";
import { UPDATE_FILE, readItemUpdates } from "./update-file.ts";
import type { ItemUpdates, UpdateReading, UpdatedItems } from "./update-file.ts";

const root = temporaryDirectory();
const FILE = path.join(root, UPDATE_FILE);
const ITEMS = {
  table: "items",
  idDtype: "string",
  vectors: { dim: 2, round: (value: number): number => value },
} as const satisfies UpdatedItems;

function read(
  content: string | Uint8Array,
  { items = ITEMS, ...reading }: UpdateReading & { readonly items?: UpdatedItems } = {},
): ItemUpdates {
  mkdirSync(path.dirname(FILE), { recursive: true });
  writeFileSync(FILE, content);
  return readItemUpdates(new StoredDirectory(root), items, reading);
}

interface Change {
  readonly id: string;
  readonly vector?: readonly number[];
}

/** Ids and vectors in the order of the last lines, and how many are removed. */
function expected(text: string): {
  readonly vectors: readonly unknown[];
  readonly removed: number;
} {
  const last = new Map<string, readonly number[] | undefined>();
  for (const line of text.split("\n").filter((each) => each.trim() !== "")) {
    const { id, vector } = JSON.parse(line) as Change;
    last.delete(id);
    last.set(id, vector);
  }
  const vectors = [...last].flatMap(([id, vector]) =>
    vector === undefined ? [] : [[id, Math.fround(vector[0]!), Math.fround(vector[1]!)]],
  );
  return { vectors, removed: last.size - vectors.length };
}

const textsOf = ({ data }: Tensor): readonly string[] =>
  data instanceof StringColumn ? data.toText() : Array.from(data, String);

function found({ names, ids, values }: ItemUpdates): ReturnType<typeof expected> {
  const texts = textsOf(ids);
  const vectors = texts.map((id, at) => [id, values[2 * at], values[2 * at + 1]]);
  return { vectors, removed: names.data.length - texts.length };
}

const id = fc.oneof(fc.constantFrom("a", "b", 'c "quoted"', "d\\e", "ä 🎬"), fc.string());
const value = fc.oneof(
  fc.double({ min: -1e38, max: 1e38, noNaN: true }),
  fc.constantFrom(0, -0, 1e-50, 0.5),
);
const change = fc.oneof(
  fc.tuple(id, value, value).map(([each, x, y]) => ({ id: each, vector: [x, y] })),
  fc.tuple(id, value, value).map(([each, x, y]) => ({ vector: [x, y], id: each })),
  id.map((each) => ({ id: each, removed: true })),
);
const line = fc.oneof(
  change.map((each) => JSON.stringify(each)),
  change.map((each) => JSON.stringify(each, null, " ").replaceAll("\n", "")),
  fc.constantFrom("", " ", "\t"),
);
const file = fc
  .tuple(fc.array(line, { maxLength: 40 }), fc.constantFrom("\n", "\r\n"), fc.boolean())
  .map(([lines, end, isEnded]) => lines.join(end) + (isEnded ? end : ""));

test("the last line of each id counts, in the order of these lines", () => {
  const isAlike = (text: string): void => {
    expect(found(read(text))).toEqual(expected(text));
  };

  fc.assert(fc.property(file, isAlike), { numRuns: 300 });
});

test("vectors of more than one piece of memory, some of them given up", () => {
  const lines = Array.from({ length: 5000 }, (_, at) => ({
    id: `item ${(at * 7) % 3000}`,
    ...(at % 5 === 4 ? { removed: true } : { vector: [at, -at / 3] }),
  }));
  const text = lines.map((each) => `${JSON.stringify(each)}\n`).join("");

  expect(found(read(text))).toEqual(expected(text));
});

test("a file of which a start is read says what that start says alone", () => {
  const lines = ["a", "b", "a"].map((id, at) => `{"id":"${id}","vector":[${at},1]}\n`);
  for (const count of [1, 2, 3]) {
    const start = lines.slice(0, count).join("");

    const { digest, ...said } = read(lines.join(""), { bytesMax: start.length });

    expect({ digest, ...said }).toEqual(read(start));
    expect(digest.bytes).toBe(start.length);
  }
  expect(() => read(lines.join(""), { bytesMax: 60 })).toThrow(/line 3/);
});

describe("a file that was read before", () => {
  /** All that is said of a file, or why it is refused. */
  function said(reading: () => ItemUpdates): unknown {
    try {
      const { names, hasVector, changed, ids, values, digest, lines, isEnded } = reading();
      const places = textsOf(names).map((_, at) => changed.rowOf(names, at));
      const tensors = [names, ids].map((tensor) => [tensor.dtype, tensor.shape, textsOf(tensor)]);
      return { tensors, hasVector, places, values, digest, lines, isEnded };
    } catch (error) {
      return error instanceof WinnowError ? [error.code, error.message] : error;
    }
  }

  const number = fc.oneof(
    fc.integer({ min: -9, max: 9 }),
    fc.constantFrom("5", "9007199254740993"),
  );
  const numbered = fc.oneof(
    number.map((each) => JSON.stringify({ id: each, removed: true })),
    fc.tuple(number, value).map(([each, x]) => JSON.stringify({ id: each, vector: [x, 1] })),
  );
  const types = [
    ["string", line],
    ["int32", numbered],
    ["int64", numbered],
  ] as const;

  test.each(types)(
    "of ids of %s and is cut anywhere says what it says when it is read first",
    (idDtype, lines) => {
      const items = { ...ITEMS, idDtype };
      const files = fc
        .array(fc.tuple(fc.array(lines, { maxLength: 8 }), fc.constantFrom("\n", "\r\n")), {
          minLength: 1,
          maxLength: 3,
        })
        .map((all) =>
          all.map(([each, end]) => Buffer.from(each.map((text) => text + end).join(""))),
        );
      const cuts = fc.array(fc.nat(), { maxLength: 6 });

      const isAlike = (contents: readonly Buffer[], places: readonly number[]): void => {
        let before: ItemUpdates | undefined;
        for (const content of contents) {
          const ends = places
            .map((place) => place % (content.length + 1))
            .toSorted((a, b) => a - b);
          for (const end of [...ends, content.length]) {
            const part = content.subarray(0, end);
            const grown = said(() => (before = read(part, { items, before })));

            expect(grown).toEqual(said(() => read(part, { items })));
          }
        }
      };

      fc.assert(fc.property(files, cuts, isAlike), { numRuns: 100 });
    },
  );

  test.each([
    ["items", { itemsMax: 3, valuesMax: 100 }],
    ["values", { itemsMax: 100, valuesMax: 6 }],
  ])(
    "and has too many %s is refused with the line that it is refused with when it is read first",
    (_, limits) => {
      const text = ["a", "b", "a", "c", "d", "e"]
        .map((each) => `{"id":"${each}","vector":[1,2]}\n`)
        .join("");

      for (let end = 0; end < text.length; end = text.indexOf("\n", end) + 1) {
        const before = read(text.slice(0, end));

        const grown = said(() => read(text, { limits, before }));
        expect(grown).toEqual(said(() => read(text, { limits })));
      }
    },
  );

  const roundings = vi.fn((value: number) => value);
  const counted = { ...ITEMS, vectors: { dim: 2, round: roundings } };
  const readCounted = (text: string, before?: ItemUpdates): number => {
    roundings.mockClear();
    read(text, { items: counted, before });
    return roundings.mock.calls.length;
  };
  const a = '{"id":"a","vector":[1,2]}\n';
  const b = '{"id":"b","vector":[1,2]}\n';

  test("has its new lines read alone", () => {
    const before = read(a + b + a, { items: counted });

    expect(readCounted(a + b + a + b, before)).toBe(2);
    expect(readCounted(a + b + a, before)).toBe(0);
  });

  test("is read whole where its beginning changed, it is shorter, or its last line had no end", () => {
    const before = read(a + a, { items: counted });
    const unended = read(a.trimEnd(), { items: counted });

    expect(readCounted(b + a + a, before)).toBe(6);
    expect(readCounted(a, before)).toBe(2);
    expect(readCounted(a + b, unended)).toBe(4);
  });

  test("is read whole where its lines mean something else for the model", () => {
    const before = read(a, { items: { ...ITEMS, idDtype: "string" } });

    expect(readCounted(a + b, before)).toBe(4);
  });
});
