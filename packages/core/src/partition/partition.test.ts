// The cut of tables must never change: every process, and every model already placed, relies on it.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StringColumn } from "../tensor/string-column.ts";
import {
  PARTITION_BYTES,
  partitionCountOf,
  partitionHolding,
  partitionOfBytes,
  partitionOfString,
  partitionOfInteger,
  rowRangeOf,
} from "./partition.ts";

const encoder = new TextEncoder();

describe("partitionCountOf()", () => {
  test.each([
    [0, 32, 1],
    [1, 32, 1],
    [10_000, 32, 1],
    [262_144, 64, 1],
    [262_145, 64, 2],
    [1_000_000, 64, 4],
    [15_500_000, 128, 128],
    [1_000_000_000, 128, 1024],
  ])("%i rows of %i values make %i partitions", (rows, dim, partitions) => {
    expect(partitionCountOf({ rows, dim }, PARTITION_BYTES)).toBe(partitions);
  });

  test("follow the cluster's setting, and are at most one per row", () => {
    const table = { rows: 10, dim: 4 };

    expect([1000, 160, 80, 81, 1].map((bytes) => partitionCountOf(table, bytes))).toEqual([
      1, 1, 2, 2, 10,
    ]);
  });
});

describe("rowRangeOf()", () => {
  test("covers every row once, in order, with sizes that differ by at most one", () => {
    const property = fc.property(fc.integer({ min: 1, max: 5_000_000 }), (rows) => {
      const partitions = partitionCountOf({ rows, dim: 64 }, 2 ** 20);
      let endRow = 0;
      const sizes = new Set<number>();
      for (let partition = 0; partition < partitions; partition += 1) {
        const range = rowRangeOf(partition, { rows, partitions });
        expect(range.firstRow).toBe(endRow);
        endRow = range.endRow;
        sizes.add(range.endRow - range.firstRow);
      }
      expect(endRow).toBe(rows);
      expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
    });

    fc.assert(property, { numRuns: 50 });
  });
});

describe("a table with added rows", () => {
  const rows = fc.integer({ min: 1, max: 100_000 });
  const cuts = fc.tuple(rows, rows, fc.nat(63), fc.nat(63)).map(([own, added, p, q]) => {
    const original = { rows: own, partitions: Math.min(own, 1 + p) };
    return {
      rows: own + added,
      partitions: original.partitions + Math.min(added, 1 + q),
      original,
    };
  });

  test("has the model's partitions as they were, and every row once, in order", () => {
    const property = fc.property(cuts, (table) => {
      const { original } = table;
      let endRow = 0;
      for (let partition = 0; partition < table.partitions; partition += 1) {
        const range = rowRangeOf(partition, table);
        expect(range.firstRow).toBe(endRow);
        expect(range.endRow).toBeGreaterThan(range.firstRow);
        endRow = range.endRow;
      }
      for (let partition = 0; partition < original.partitions; partition += 1) {
        expect(rowRangeOf(partition, table)).toEqual(rowRangeOf(partition, original));
      }
      expect(endRow).toBe(table.rows);
      expect(rowRangeOf(original.partitions, table).firstRow).toBe(original.rows);
    });

    fc.assert(property, { numRuns: 100 });
  });

  test("tells the partition of a row", () => {
    const property = fc.property(cuts, fc.nat(), (table, at) => {
      const partition = at % table.partitions;
      const { firstRow, endRow } = rowRangeOf(partition, table);

      expect(partitionHolding(firstRow, table)).toBe(partition);
      expect(partitionHolding(endRow - 1, table)).toBe(partition);
    });

    fc.assert(property);
  });
});

describe("partitions of keys", () => {
  test("keep their values: a change would send every key to another worker", () => {
    const strings = ["", "1", "42", "user ü", "0e5f24c27b"];

    expect(strings.map((key) => partitionOfBytes(encoder.encode(key), 16))).toEqual([
      11, 15, 13, 14, 14,
    ]);
    expect([0n, 1n, -1n, 42n, 2n ** 62n].map((key) => partitionOfInteger(key, 16))).toEqual([
      1, 6, 4, 6, 11,
    ]);
  });

  test("are the same for a string of a column, also of a slice", () => {
    const column = StringColumn.fromText(["before", "", "1", "42", "user ü", "0e5f24c27b"]).slice(
      1,
      6,
    );
    const partitions = Array.from(column.toText(), (_, at) => partitionOfString(column, at, 16));

    expect(partitions).toEqual([11, 15, 13, 14, 14]);
  });

  test("are even: of 20,000 names that differ in a digit no partition of 16 gets 10 % too many", () => {
    const counts = new Uint32Array(16);
    const integerCounts = new Uint32Array(16);
    for (let user = 0; user < 20_000; user += 1) {
      counts[partitionOfBytes(encoder.encode(String(user)), 16)]! += 1;
      integerCounts[partitionOfInteger(BigInt(user), 16)]! += 1;
    }

    expect(Math.max(...counts)).toBeLessThan(1.1 * 1250);
    expect(Math.max(...integerCounts)).toBeLessThan(1.1 * 1250);
  });
});
