// Tables in slices and in floats of two bytes: partitions against the whole, checksum shares, damage.

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { StringColumn, WinnowError, stringTensor } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import type { WrittenTensor } from "@winnow/model-writer";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { temporaryDirectory } from "../../../../../test/temporary-directory.ts";
import { widened } from "../bundle/narrow-floats.ts";
import { boxesOf, slicedMatrix, slicedStrings } from "../fixtures/sliced-tensors.ts";
import {
  candidateTable,
  checksumsOf,
  idsOf,
  keyedTable,
  sumOfShares,
  valuesOf,
} from "../fixtures/stored-table.ts";
import { floats, writeVersionOf } from "../fixtures/version-directory.ts";
import { VersionFiles } from "../version-files.ts";
import type { StoredTable } from "./stored-table.ts";

const directory = path.join(temporaryDirectory(), "1");
const FORMATS = ["float32", "half", "bfloat16"] as const;

/** Finite values of a format, as they are stored and as float32. */
function valuesIn(
  format: (typeof FORMATS)[number],
  count: number,
): { readonly stored: Float32Array | Uint16Array; readonly wide: Float32Array } {
  if (format === "float32") {
    const stored = Float32Array.from({ length: count }, (_, index) => Math.sin(index) * 3);
    return { stored, wide: stored };
  }
  // 0x3b00 and onwards: about 0.9 in half, 0.002 in bfloat16.
  const stored = Uint16Array.from({ length: count }, (_, index) => 0x3b00 + (index % 1021));
  return { stored, wide: widened(stored, format) };
}

/** A table of neighbouring rows of what another one is read from. */
function partOf(
  files: VersionFiles,
  { spec, rows: all, ids: allIds }: StoredTable,
  range: { readonly firstRow: number; readonly rows: number },
): StoredTable {
  const rows = { kind: "rows", of: all, ...range } as const;
  const ids = { kind: "rows", of: allIds!, ...range } as const;
  const sources = [files.sourceOf(rows), files.sourceOf(ids)];
  const partitions = Math.min(range.rows, 3);
  const part = { ...spec, rows: range.rows, partitions, sources };
  return { spec: part, rows, ids, vocabulary: undefined };
}

const cuts = fc.array(fc.nat(10_000), { maxLength: 12 });
const sizes = fc.tuple(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 1, max: 7 }));

describe("a table in slices", () => {
  test("is cut into partitions whose rows, ids and checksum shares are those of the whole", () => {
    const property = fc.property(
      sizes,
      cuts,
      fc.constantFrom(...FORMATS),
      ([rows, dim], cuts, format) => {
        const cut = cuts[0] ?? 0;
        const { stored, wide } = valuesIn(format, rows * dim);
        const ids = Array.from({ length: rows }, (_, row) => "x".repeat(row % 5) + row);
        const idStarts = [...new Set([0, ...cuts.map((each) => each % rows)])].toSorted(
          (a, b) => a - b,
        );
        const boxes = boxesOf(rows, dim, cuts);
        writeVersionOf(
          directory,
          [
            ...slicedMatrix("candidates", [rows, dim], { values: stored, boxes, dtype: format }),
            ...slicedStrings("identifiers", ids, idStarts),
          ],
          3,
        );
        const files = new VersionFiles(directory);
        const table = candidateTable(files, 1 + (cut % rows));

        const readers = Array.from({ length: table.spec.partitions }, (_, partition) =>
          files.openPartition(table, partition),
        );

        expect(readers.flatMap((reader) => [...valuesOf(reader)])).toEqual([...wide]);
        expect(readers.flatMap((reader) => idsOf(reader))).toEqual(ids);
        expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
        expect([...(files.readTensor("candidates").data as Float32Array)]).toEqual([...wide]);
        const all = files.readTensor("identifiers");
        expect(all.dtype === "string" && all.data.toText()).toEqual(ids);
        files.close();
      },
    );
    fc.assert(property, { numRuns: 80 });
  });

  test("gives neighbouring rows of it by themselves, whose shares add up to a checksum of their own", () => {
    const property = fc.property(
      sizes,
      fc.tuple(cuts, fc.nat(1000), fc.nat(1000)),
      fc.constantFrom(...FORMATS),
      ([rows, dim], [cuts, begin, length], format) => {
        const { stored, wide } = valuesIn(format, rows * dim);
        const ids = BigInt64Array.from({ length: rows }, (_, row) => BigInt(row) * 7n);
        // Slices of whole rows.
        const boxes = boxesOf(
          rows,
          dim,
          cuts.map((cut) => cut - (Math.floor(cut / 7) % 2) * 7),
        );
        writeVersionOf(
          directory,
          [
            ...slicedMatrix("candidates", [rows, dim], { values: stored, boxes, dtype: format }),
            {
              key: "identifiers",
              shape: [rows],
              content: { kind: "numbers", dtype: "int64", pieces: () => [ids] },
            },
          ],
          3,
        );
        const files = new VersionFiles(directory);
        const firstRow = begin % rows;
        const count = 1 + (length % (rows - firstRow));
        const table = partOf(files, candidateTable(files), { firstRow, rows: count });

        const readers = Array.from({ length: table.spec.partitions }, (_, partition) =>
          files.openPartition(table, partition),
        );

        const endRow = firstRow + count;
        expect(readers.flatMap((reader) => [...valuesOf(reader)])).toEqual([
          ...wide.subarray(firstRow * dim, endRow * dim),
        ]);
        const kept = readers.flatMap(({ ids: each }) =>
          Array.from((each as Tensor).data as BigInt64Array),
        );
        expect(kept).toEqual([...ids.subarray(firstRow, endRow)]);
        expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
        files.close();
      },
    );
    fc.assert(property, { numRuns: 80 });
  });

  test("is looked up by keys, with rows in several partitions, and its shares add up", () => {
    const property = fc.property(
      sizes,
      cuts,
      fc.constantFrom(...FORMATS),
      ([rows, dim], cuts, format) => {
        const { stored, wide } = valuesIn(format, rows * dim);
        const boxes = boxesOf(rows, dim, cuts);
        writeVersionOf(
          directory,
          slicedMatrix("embedding", [rows, dim], { values: stored, boxes, dtype: format }),
          2,
        );
        const files = new VersionFiles(directory);
        const keys = stringTensor(Array.from({ length: rows + 3 }, (_, key) => `key ${key}`));
        const values = {
          dtype: "int64",
          shape: [rows + 3],
          data: BigInt64Array.from({ length: rows + 3 }, (_, key) => BigInt(key % rows)),
        } as const;
        const table = keyedTable(files, { keys, values }, Math.min(rows, 5));

        for (let partition = 0; partition < table.spec.partitions; partition += 1) {
          const reader = files.openPartition(table, partition);
          const read = valuesOf(reader);
          const expected = Array.from(reader.keyed!.globalRows, (row) =>
            Array.from(wide.subarray(row * dim, (row + 1) * dim)),
          ).flat();
          expect([...read]).toEqual(expected);
        }
        expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
        files.close();
      },
    );
    fc.assert(property, { numRuns: 40 });
  });

  test("is read by range: a partition costs little more than its own rows", () => {
    const [rows, dim] = [40_000, 32];
    const stored = new Uint16Array(rows * dim).fill(0x3c00);
    const boxes = boxesOf(rows, dim, [14 * 9999, 14 * 5000 + 1, 7 + 14 * 10]);
    writeVersionOf(directory, [
      ...slicedMatrix("candidates", [rows, dim], { values: stored, boxes, dtype: "half" }),
      ...slicedStrings("identifiers", ["x"], [0]),
    ]);
    const files = new VersionFiles(directory);
    const table = { ...candidateTable(files, 16), ids: undefined };
    const before = files.bytesRead;

    valuesOf(files.openPartition(table, 5));

    expect(boxes.length).toBe(4);
    expect(files.bytesRead - before).toBe(stored.byteLength / 16);
    files.close();
  });

  test("a byte that changed anywhere in a slice makes shares that do not add up", () => {
    const [rows, dim] = [12, 5];
    const { stored } = valuesIn("half", rows * dim);
    const boxes = boxesOf(rows, dim, [14 * 4, 7 + 14 * 2, 14 * 3 + 1]);
    const ids = Array.from({ length: rows }, (_, row) => `item ${row}`);
    writeVersionOf(directory, [
      ...slicedMatrix("candidates", [rows, dim], { values: stored, boxes, dtype: "half" }),
      ...slicedStrings("identifiers", ids, [0, 5]),
    ]);
    const name = path.join(directory, "variables/variables.data-00000-of-00001");
    const whole = readFileSync(name);
    const unnoticed: number[] = [];

    for (let at = 0; at < whole.length; at += 1) {
      const changed = Uint8Array.from(whole);
      changed[at]! ^= 1;
      writeFileSync(name, changed);
      if (areSharesRight()) unnoticed.push(at);
    }

    expect(boxes.length).toBeGreaterThan(3);
    expect(unnoticed).toEqual([]);
  });
});

/** Whether the shares of all partitions add up; damaged lengths of strings are refused before. */
function areSharesRight(): boolean {
  const files = new VersionFiles(directory);
  try {
    const table = candidateTable(files, 4);
    return sumOfShares(files, table).join() === checksumsOf(table).join();
  } catch (error) {
    if (error instanceof WinnowError && error.code === "DATA_LOSS") return false;
    throw error;
  } finally {
    files.close();
  }
}

describe("slices that do not tile their tensor are refused by name", () => {
  const slice = (
    start: readonly [number, number],
    size: readonly [number, number],
  ): WrittenTensor => ({
    ...floats("candidates", size, new Float32Array(size[0] * size[1])),
    sliceOf: { shape: [6, 4], start },
  });
  const ids: WrittenTensor = {
    key: "identifiers",
    shape: [6],
    content: { kind: "strings", strings: StringColumn.fromText("abcdef".split("")) },
  };

  test.each([
    ["a gap between rows", [slice([0, 0], [2, 4]), slice([3, 0], [3, 4])]],
    ["rows that are missing at the end", [slice([0, 0], [5, 4])]],
    ["columns that are missing", [slice([0, 0], [6, 3])]],
    ["rows that overlap", [slice([0, 0], [4, 4]), slice([3, 0], [3, 4])]],
    ["columns that overlap", [slice([0, 0], [6, 3]), slice([0, 2], [6, 2])]],
  ])("%s", (_, slices) => {
    writeVersionOf(directory, [...slices, ids]);
    const files = new VersionFiles(directory);
    const table = candidateTable(files, 2);

    expect(() => files.openPartition(table, 0)).toThrow(/"candidates".*do not cover row \d once/);
    expect(() => files.readTensor("candidates")).toThrow(/"candidates".*slices/);
    files.close();
  });

  test("a slice outside of its tensor", () => {
    writeVersionOf(directory, [slice([4, 0], [4, 4]), ids]);
    const files = new VersionFiles(directory);

    expect(() => files.readTensor("candidates")).toThrow(
      'Cannot read tensor "candidates": its slice [4,0] of [4,4] is float32 [4,4] of float32 [6,4]',
    );
    files.close();
  });
});

test.each([
  ["half", 0x7c00, "Infinity"],
  ["half", 0xfe00, "NaN"],
  ["bfloat16", 0xff80, "-Infinity"],
] as const)("%s %i is refused as %s, with its row", (dtype, bits, text) => {
  const stored = new Uint16Array(40 * 3).fill(0x3c00);
  stored[27 * 3 + 2] = bits;
  const boxes = boxesOf(40, 3, [14 * 20]);
  writeVersionOf(directory, [
    ...slicedMatrix("candidates", [40, 3], { values: stored, boxes, dtype }),
    ...slicedStrings("identifiers", ["x"], [0]),
  ]);
  const files = new VersionFiles(directory);
  const table = { ...candidateTable(files, 4), ids: undefined };

  expect(valuesOf(files.openPartition(table, 0))).toHaveLength(30);
  expect(() => valuesOf(files.openPartition(table, 2))).toThrow(
    `table "candidates": row 27 of 40 holds ${text}`,
  );
  files.close();
});
