// What a footer costs to read.

import { writeFileSync } from "node:fs";
import path from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { temporaryDirectory } from "../../../../../../test/temporary-directory.ts";
import { StoredDirectory } from "../../../storage/stored-directory.ts";
import { parquetFile } from "../../fixtures/parquet-files.ts";
import { readFooter } from "./parquet-file.ts";

const root = temporaryDirectory();

test("the chunks of a row group are listed once, not for each of its columns", () => {
  const columns = Array.from(
    { length: 100 },
    (_, at) => ({ name: `c${at}`, kind: "text" }) as const,
  );
  const chunks = columns.map(() => ({ pages: Buffer.alloc(0), values: 0 }));
  const groups = [1, 2, 3].map(() => ({ rows: 0, chunks }));
  writeFileSync(path.join(root, "items.parquet"), parquetFile(columns, groups));
  const file = new StoredDirectory(root).open("items.parquet");
  onTestFinished(() => file.close());
  // Lists are made by `filter`: of 4,000 columns in 60 groups, one for each chunk took 33 s instead of 2.
  const lists = vi.spyOn(Array.prototype, "filter");
  onTestFinished(() => lists.mockRestore());

  const read = readFooter(file);

  expect(lists.mock.calls.length).toBeLessThan(10);
  expect(read.map((column) => column.chunks.length)).toEqual(columns.map(() => 3));
});
