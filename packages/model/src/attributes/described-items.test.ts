// How many rows a file that describes items may have, and that each format keeps to it.

import { writeFileSync } from "node:fs";
import path from "node:path";

import { expect, test } from "vitest";

import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { StoredDirectory } from "../storage/stored-directory.ts";
import { readCsvItems } from "./csv-items.ts";
import { RowLimit } from "./described-items.ts";
import { readJsonLines } from "./json-lines.ts";

test.each([
  { items: 1000, rowsMax: 2 ** 24 },
  { items: 2 ** 18, rowsMax: 2 ** 24 },
  { items: 10_000_000, rowsMax: 640_000_000 },
])("a file beside $items items may have $rowsMax rows", ({ items, rowsMax }) => {
  const limit = new RowLimit("items.csv", items);

  expect(() => {
    limit.check(rowsMax);
    limit.checkRead(rowsMax);
  }).not.toThrow();
  const rest = `where the model has ${items} items; at most ${rowsMax} rows are read`;
  expect(() => limit.check(rowsMax + 1)).toThrow(`it has ${rowsMax + 1} rows, ${rest}`);
  expect(() => limit.checkRead(rowsMax + 1)).toThrow(`it has more than ${rowsMax} rows, ${rest}`);
});

test.each([
  { name: "items.csv", read: readCsvItems, content: `id\n${"a\n".repeat(9)}` },
  { name: "items.jsonl", read: readJsonLines, content: '{"id":"a"}\n'.repeat(9) },
])("$name is read up to the limit", ({ name, read, content }) => {
  const directory = temporaryDirectory();
  writeFileSync(path.join(directory, name), content);
  const file = new StoredDirectory(directory).open(name);

  expect(read(file, new RowLimit(name, 0, 9)).ids.length).toBe(9);
  expect(() => read(file, new RowLimit(name, 0, 8))).toThrow("it has more than 8 rows");
  file.close();
});
