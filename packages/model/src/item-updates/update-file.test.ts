// What a file of changes comes to, compared with the simplest reading: each line by `JSON.parse`, and a map of the last ones.

import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { StringColumn } from "@winnow/core";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { StoredDirectory } from "../storage/stored-directory.ts";
import { UPDATE_FILE, readItemUpdates } from "./update-file.ts";
import type { ItemUpdates, UpdatedItems } from "./update-file.ts";

const root = temporaryDirectory();
const FILE = path.join(root, UPDATE_FILE);
const ITEMS = {
  table: "items",
  idDtype: "string",
  vectors: { dim: 2, round: (value: number): number => value },
} as const satisfies UpdatedItems;

const read = (text: string): ItemUpdates => {
  mkdirSync(path.dirname(FILE), { recursive: true });
  writeFileSync(FILE, text);
  return readItemUpdates(new StoredDirectory(root), ITEMS);
};

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

function found({ ids, values, removed }: ItemUpdates): ReturnType<typeof expected> {
  const texts = ids.data instanceof StringColumn ? ids.data.toText() : [];
  const vectors = texts.map((id, at) => [id, values[2 * at], values[2 * at + 1]]);
  return { vectors, removed };
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
