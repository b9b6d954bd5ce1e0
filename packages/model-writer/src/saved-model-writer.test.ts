// Written models are opened again by the reader: same tables, same answers. That TensorFlow itself
// loads them is checked by hand when the writer changes.

import { existsSync } from "node:fs";
import path from "node:path";
import { StringColumn, type Tensor, createKeyIndex, stringTensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { openModelVersion } from "@winnow/model";
import type { ModelVersion } from "@winnow/model";
import { temporaryDirectory } from "../../../test/temporary-directory.ts";
import {
  type WrittenLookup,
  type WrittenMatrix,
  firstTokenRowOf,
  lookupRowsOf,
} from "./model-description.ts";
import { writeRankingModel, writeRetrievalModel } from "./saved-model-writer.ts";

const root = temporaryDirectory();
let versions = 0;
const nextDirectory = (): string => path.join(root, String((versions += 1)));

/** Row r holds r, r + 1/4, r + 1/2, …; in pieces of uneven size. */
function matrix(rows: number, dim: number): WrittenMatrix {
  const values = Float32Array.from(
    { length: rows * dim },
    (_, at) => Math.floor(at / dim) + (at % dim) / 4,
  );
  const cut = Math.floor(rows / 3) * dim;
  return { rows, dim, pieces: () => [values.subarray(0, cut), values.subarray(cut)] };
}

function lookup(texts: readonly string[], options: Partial<WrittenLookup> = {}): WrittenLookup {
  const vocabulary = StringColumn.fromText(texts);
  return {
    vocabulary,
    ...options,
    embedding: matrix(lookupRowsOf({ vocabulary, ...options }), 4),
  };
}

/** First value of the row of each key, from the partition that owns the key. */
function rowsOfKeys(version: ModelVersion, table: number, keys: Tensor): Map<number, number> {
  const spec = version.program.tables[table];
  const found = new Map<number, number>();
  if (spec?.kind !== "keyed") throw new RangeError("not a keyed table");
  for (let partition = 0; partition < spec.partitions; partition += 1) {
    const reader = version.openPartition(table, partition);
    const values = [...reader.chunks()].flatMap((chunk) => Array.from(chunk));
    const keyed = reader.keyed ?? {
      globalRows: new Uint32Array(),
      keys,
      keyRows: new Uint32Array(),
    };
    const local = createKeyIndex(spec, keyed).localRows(keys);
    for (const [at, row] of local.entries()) {
      const first = values[row * reader.dim] ?? Number.NaN;
      // Partitions that do not own a key answer with its OOV row, whose first value is lower.
      found.set(at, Math.max(found.get(at) ?? 0, first));
    }
  }
  return found;
}

describe("a written retrieval model", () => {
  const texts = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 8 }), {
    minLength: 1,
    maxLength: 30,
  });
  const safe = texts.filter((list) => list.every((text) => !/[\r\n]/.test(text)));

  test("leads every key to its row, wherever the vocabulary lies", () => {
    const options = fc.record({
      oovRows: fc.integer({ min: 1, max: 4 }),
      maskToken: fc.constantFrom(undefined, "[MASK] never in the list"),
      place: fc.constantFrom("graph" as const, "asset" as const),
    });
    fc.assert(
      fc.property(safe, options, fc.integer({ min: 1, max: 3 }), (texts, options, dataFiles) => {
        const directory = nextDirectory();
        const users = lookup(texts, options);
        const identifiers = StringColumn.fromText(["a", "b", "c"]);
        const model = { users, candidates: matrix(3, 4), identifiers, k: 2 };
        writeRetrievalModel(directory, model, { dataFiles });

        const version = openModelVersion(directory);
        const rows = rowsOfKeys(version, 0, stringTensor(texts));
        version.close();

        const first = firstTokenRowOf(users);
        expect([...rows.values()]).toEqual(texts.map((_, index) => first + index));
      }),
      { numRuns: 25 },
    );
  });

  test("has a lookup, dense layers and a search", () => {
    const directory = nextDirectory();
    const layer = { kernel: new Float32Array(16).fill(0.5), bias: new Float32Array(4), relu: true };
    writeRetrievalModel(directory, {
      users: lookup(["u"]),
      tower: [layer, { ...layer, relu: false }],
      candidates: matrix(5, 4),
      identifiers: StringColumn.fromText(["a", "b", "c", "d", "e"]),
      k: 3,
    });

    const { signatures } = openModelVersion(directory).program;

    const serving = signatures.find(({ name }) => name === "serving_default");
    expect(serving?.steps.map((step) => step.kind)).toEqual(["lookup", "dense", "topK"]);
    expect(serving?.inputs.map(({ name }) => name)).toEqual(["input_1"]);
    expect(serving?.outputs.map(({ name }) => name)).toEqual(["output_1", "output_2"]);
  });

  test("is not there when writing fails", () => {
    const directory = nextDirectory();
    const broken = { rows: 2, dim: 4, pieces: () => [new Float32Array(4)] };
    const identifiers = StringColumn.fromText(["a", "b"]);
    const write = (): void =>
      writeRetrievalModel(directory, {
        users: lookup(["u"]),
        candidates: broken,
        identifiers,
        k: 1,
      });

    expect(write).toThrow("4 values for candidates");
    expect(existsSync(directory)).toBe(false);
    expect(existsSync(`${directory}.writing`)).toBe(false);
  });

  test("with sizes that do not fit is refused", () => {
    const identifiers = StringColumn.fromText(["a"]);
    const model = { users: lookup(["u"]), candidates: matrix(2, 4), identifiers, k: 1 };

    expect(() => writeRetrievalModel(nextDirectory(), model)).toThrow(
      "2 candidates, 1 identifiers",
    );
  });
});

test("a written ranking model has two lookups and a dense part", () => {
  const directory = nextDirectory();
  writeRankingModel(directory, {
    users: lookup(["u1", "u2"]),
    items: lookup(["i1"], { maskToken: "" }),
    layers: [
      { kernel: new Float32Array(24).fill(1), bias: new Float32Array(3), relu: true },
      { kernel: new Float32Array(3).fill(1), bias: new Float32Array(1), relu: false },
    ],
  });

  const version = openModelVersion(directory);

  const serving = version.program.signatures.find(({ name }) => name === "serving_default");
  expect(serving?.steps.map((step) => step.kind)).toEqual(["lookup", "lookup", "dense"]);
  expect(serving?.inputs.map(({ name }) => name)).toEqual(["movie_title", "user_id"]);
  version.close();
});
