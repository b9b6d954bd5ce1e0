// Where a benchmark keeps its tables and, when asked to, the figures it has so far: a run that is cut
// short goes on where it stopped, and a long one can be done in several short ones.

import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import { searchData } from "./search-data.mjs";

/** Queries that go with every table. */
export const QUERIES = 512;

/** The folder given, kept; or a fresh one, removed by `close`. */
export function benchFolder(kept) {
  const folder = kept ?? mkdtempSync(path.join(os.tmpdir(), "winnow-bench-"));
  mkdirSync(folder, { recursive: true });
  const figuresFile = path.join(folder, "figures.json");
  const figures = existsSync(figuresFile) ? JSON.parse(readFileSync(figuresFile, "utf8")) : {};
  return {
    folder,
    /** A figure by its name: known from an earlier run, or measured now and kept. */
    async figure(name, measure) {
      if (figures[name] !== undefined) return figures[name];
      figures[name] = await measure();
      writeFileSync(figuresFile, JSON.stringify(figures, undefined, 1));
      return figures[name];
    },
    has: (name) => figures[name] !== undefined,
    /** A table and its queries, from its file if that is there. */
    data: (kind, { rows, dim }) => readOrMakeData(folder, kind, { rows, dim }),
    close() {
      if (kept === undefined) rmSync(folder, { recursive: true, force: true });
    },
  };
}

function readOrMakeData(folder, kind, { rows, dim }) {
  const file = path.join(folder, `${kind}-${rows}x${dim}.f32`);
  const bytes = (rows + QUERIES) * dim * 4;
  if (existsSync(file) && statSync(file).size === bytes) {
    const values = new Float32Array(readFileSync(file).buffer);
    return {
      file,
      rows,
      dim,
      table: values.subarray(0, rows * dim),
      vectors: values.slice(rows * dim),
    };
  }
  const { table, vectors } = searchData(kind, { rows, dim, queries: QUERIES });
  writeFileSync(file, table);
  writeFileSync(file, vectors, { flag: "a" });
  return { file, rows, dim, table, vectors };
}
