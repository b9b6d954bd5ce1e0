// The two tables of the scale benchmark. `small` is the demo, all models of it; `large` is one retrieval
// model of independent normal values, the hard case for the scan, whose users are as many vectors.

import { StringColumn } from "../../packages/core/dist/index.js";
import { writeDemo, writeRetrievalModel } from "../../packages/model-writer/dist/index.js";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { searchData } from "./search-data.mjs";

/** Users of each table; requests go through them. */
export const USERS = 512;

const names = (count, prefix) =>
  StringColumn.fromText(Array.from({ length: count }, (_, index) => `${prefix}${index + 1}`));

/** Writes a table below `folder` unless it is there: its models directory and the models in it. */
export async function writeTable(folder, { name, rows, dim, k }) {
  const directory = path.join(folder, `${name}-${rows}x${dim}`);
  const models = name === "small" ? ["movies", "movies-ranking"] : ["movies"];
  if (models.every((model) => existsSync(path.join(directory, model, "1")))) {
    return { directory, models };
  }
  mkdirSync(path.join(directory, "movies"), { recursive: true });
  if (name === "small") {
    await writeDemo(directory, { items: rows, dim, k, users: USERS });
    return { directory, models };
  }
  writeSearched(path.join(directory, "movies", "1"), { rows, dim, k });
  return { directory, models };
}

/** Writes a retrieval model of independent normal values. */
export function writeSearched(folder, { rows, dim, k }) {
  const { table, vectors } = searchData("normal", { rows, dim, queries: USERS });
  // Row 0 of the users is what an unknown one gets.
  const users = new Float32Array((USERS + 1) * dim);
  users.set(vectors, dim);
  writeRetrievalModel(folder, {
    users: {
      vocabulary: names(USERS, ""),
      embedding: { rows: USERS + 1, dim, pieces: () => [users] },
    },
    candidates: { rows, dim, pieces: () => [table] },
    identifiers: names(rows, "item "),
    k,
  });
}
