// Partitions against the whole tensors: rows, ids, checksum shares, and bytes read.

import { readdirSync } from "node:fs";
import path from "node:path";
import {
  type CandidateTable,
  StringColumn,
  type Tensor,
  WinnowError,
  stringTensor,
} from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  candidateTable,
  checksumsOf,
  idsOf,
  sumOfShares,
  valuesOf,
} from "../fixtures/stored-table.ts";
import type { StoredTable } from "./stored-table.ts";
import { temporaryDirectory } from "../../../../../test/temporary-directory.ts";
import {
  REAL_MODELS,
  floats,
  hasRealModels,
  writeVersionOf,
} from "../fixtures/version-directory.ts";
import { VersionFiles } from "../version-files.ts";

const directory = path.join(temporaryDirectory(), "1");

describe("partitions of a candidate table", () => {
  test("together are the table, its ids and its checksums, however it is cut", () => {
    const ids = fc.array(fc.string({ maxLength: 200 }), { minLength: 1, maxLength: 90 });
    fc.assert(
      fc.property(ids, fc.integer({ min: 1, max: 9 }), fc.nat(20), (ids, dim, cut) => {
        const rows = Float32Array.from({ length: ids.length * dim }, (_, index) => index / 8);
        const content = { kind: "strings", strings: StringColumn.fromText(ids) } as const;
        writeVersionOf(directory, [
          floats("candidates", [ids.length, dim], rows),
          { key: "identifiers", shape: [ids.length], content },
        ]);
        const files = new VersionFiles(directory);
        const table = candidateTable(files, 1 + (cut % ids.length));

        const readers = Array.from({ length: table.spec.partitions }, (_, partition) =>
          files.openPartition(table, partition),
        );

        const read = readers.flatMap((reader) => [...valuesOf(reader)]);
        const readIds = readers.flatMap((reader) => idsOf(reader));
        expect(read).toEqual([...rows]);
        expect(readIds).toEqual(ids);
        expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
        files.close();
      }),
      { numRuns: 60 },
    );
  });

  test("one partition of a large table costs little more than its fair share of bytes", () => {
    const [rows, dim] = [60_000, 64];
    const ids = Array.from({ length: rows }, (_, row) => `item ${row}`);
    const content = { kind: "strings", strings: StringColumn.fromText(ids) } as const;
    const values = new Float32Array(rows * dim).fill(1);
    writeVersionOf(directory, [
      floats("candidates", [rows, dim], values),
      { key: "identifiers", shape: [rows], content },
    ]);
    const files = new VersionFiles(directory);
    const table = candidateTable(files);
    const before = files.bytesRead;

    valuesOf(files.openPartition(table, 5));

    const whole = values.byteLength + ids.reduce((sum, id) => sum + id.length + 1, 0);
    expect(files.bytesRead - before).toBeLessThan((1.1 * whole) / table.spec.partitions);
    expect(files.partitionBytes(table, 5)).toBeGreaterThan(values.byteLength / 16);
    files.close();
  });

  test("a chunk that is handed back is filled again, with the same rows and checksum", () => {
    const [rows, dim] = [50_000, 64];
    const values = Float32Array.from({ length: rows * dim }, (_, index) => index % 8191);
    writeVersionOf(directory, [
      floats("candidates", [rows, dim], values),
      {
        key: "identifiers",
        shape: [1],
        content: { kind: "strings", strings: StringColumn.fromText(["x"]) },
      },
    ]);
    const files = new VersionFiles(directory);
    const table = { ...candidateTable(files, 1), ids: undefined };
    const reader = files.openPartition(table, 0);
    const chunks = reader.chunks();
    const buffers = new Set<ArrayBufferLike>();
    const read = new Float32Array(rows * dim);
    let at = 0;

    let next = chunks.next();
    while (next.done !== true) {
      const chunk = next.value;
      buffers.add(chunk.buffer);
      read.set(chunk, at);
      at += chunk.length;
      next = chunks.next(chunk);
    }

    expect(at).toBe(read.length);
    expect(Buffer.compare(new Uint8Array(read.buffer), new Uint8Array(values.buffer))).toBe(0);
    expect(buffers.size).toBe(1);
    expect(reader.checksumShares()[0]).toBe(checksumsOf(table)[0]);
    files.close();
  });

  test.each([
    ["NaN", Number.NaN],
    ["Infinity", Number.POSITIVE_INFINITY],
    ["-Infinity", Number.NEGATIVE_INFINITY],
  ])("%s is refused with table and row", (text, value) => {
    const values = new Float32Array(40 * 3).fill(1);
    values[27 * 3 + 2] = value;
    const content = {
      kind: "strings",
      strings: StringColumn.fromText(Array.from({ length: 40 }, () => "x")),
    } as const;
    writeVersionOf(directory, [
      floats("candidates", [40, 3], values),
      { key: "identifiers", shape: [40], content },
    ]);
    const files = new VersionFiles(directory);
    const table = candidateTable(files, 4);

    expect(valuesOf(files.openPartition(table, 0))).toHaveLength(30);
    expect(() => valuesOf(files.openPartition(table, 2))).toThrow(
      `table "candidates": row 27 of 40 holds ${text}`,
    );
    files.close();
  });

  test("a partition that does not exist is NOT_FOUND", () => {
    const files = new VersionFiles(directory);

    expect(() => files.openPartition(candidateTable(files, 4), 4)).toThrow(WinnowError);
    files.close();
  });
});

test("a constant of the graph is read like a stored tensor", () => {
  const rows: Tensor = {
    dtype: "float32",
    shape: [5, 2],
    data: Float32Array.from({ length: 10 }, (_, index) => index),
  };
  const ids = stringTensor(["a", "bb", "", "dddd", "e"]);
  writeVersionOf(directory, [floats("unused", [1], Float32Array.of(0))]);
  const files = new VersionFiles(directory);
  const stored = {
    rows: { kind: "constant", name: "rows", tensor: rows },
    ids: { kind: "constant", name: "ids", tensor: ids },
  } as const;
  const sources = [files.sourceOf(stored.rows), files.sourceOf(stored.ids)];
  const spec: CandidateTable = {
    kind: "candidate",
    name: "rows",
    rows: 5,
    dim: 2,
    partitions: 2,
    sources,
    idDtype: "string",
  };
  const table: StoredTable = { spec, ...stored, vocabulary: undefined };

  const reader = files.openPartition(table, 1);

  expect([...valuesOf(reader)]).toEqual([4, 5, 6, 7, 8, 9]);
  expect(idsOf(reader)).toEqual(["", "dddd", "e"]);
  expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
  files.close();
});

describe.skipIf(!hasRealModels)("real retrieval models (in ../shared/savedmodels)", () => {
  const models = hasRealModels
    ? readdirSync(REAL_MODELS).filter((name) => /retrieval/.test(name))
    : [];

  test.each(models)("the checksum shares of %s add up", (name) => {
    const files = new VersionFiles(path.join(REAL_MODELS, name, "1"));
    const table = candidateTable(files);

    expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
    files.close();
  });
});
