// Partitions of keyed tables against the obvious: the partition of each key, and the rows it needs.

import path from "node:path";
import { type Tensor, partitionOfBytes, partitionOfInteger, stringTensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checksumsOf, keyedTable, sumOfShares, valuesOf } from "../fixtures/stored-table.ts";
import { temporaryDirectory } from "../../../../../test/temporary-directory.ts";
import { floats, writeVersionOf } from "../fixtures/version-directory.ts";
import { VersionFiles } from "../version-files.ts";

const directory = path.join(temporaryDirectory(), "1");

const textOf = (keys: Tensor | undefined): string[] =>
  keys?.dtype === "string" ? keys.data.toText() : [];

describe("partitions of a keyed table", () => {
  test("hold their keys' rows and the rows without a key, and add up to the checksum", () => {
    const vocabularies = fc.uniqueArray(fc.string({ maxLength: 9 }), { maxLength: 80 });
    fc.assert(
      fc.property(vocabularies, fc.nat(4), fc.integer({ min: 1, max: 7 }), (texts, spare, cut) => {
        const dim = 3;
        const rows = texts.length + spare + 1;
        const values = Float32Array.from({ length: rows * dim }, (_, index) => index);
        writeVersionOf(directory, [floats("embedding", [rows, dim], values)]);
        const files = new VersionFiles(directory);
        // Rows in reverse; the last two keys share a row.
        const rowOf = texts.map((_, index) => Math.max(rows - 1 - index, spare + 2));
        const clamped = rowOf.map((row) => Math.min(row, rows - 1));
        const keys = stringTensor(texts);
        const table = keyedTable(
          files,
          {
            keys,
            values: {
              dtype: "int64",
              shape: [texts.length],
              data: BigInt64Array.from(clamped, BigInt),
            },
          },
          Math.min(cut, rows),
        );
        const owned = new Set(clamped);

        for (let partition = 0; partition < table.spec.partitions; partition += 1) {
          const reader = files.openPartition(table, partition);
          const read = valuesOf(reader);
          const { globalRows, keys, keyRows } = reader.keyed!;

          const mine = texts.flatMap((text, index) =>
            partitionOfBytes(new TextEncoder().encode(text), table.spec.partitions) === partition
              ? [index]
              : [],
          );
          const free = Array.from({ length: rows }, (_, row) => row).filter(
            (row) => !owned.has(row),
          );
          const expected = new Set([...mine.map((index) => clamped[index]!), ...free, 0]);
          expect([...globalRows]).toEqual([...expected].toSorted((a, b) => a - b));
          expect(textOf(keys)).toEqual(mine.map((index) => texts[index]));
          expect([...keyRows]).toEqual(mine.map((index) => clamped[index]));
          expect([...read]).toEqual(
            [...globalRows].flatMap((row) =>
              Array.from(values.subarray(row * dim, (row + 1) * dim)),
            ),
          );
        }
        expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
        files.close();
      }),
      { numRuns: 60 },
    );
  });

  test("(S7) a row that some of the partitions read from a damaged copy does not add up", () => {
    const [rows, dim, partitions] = [30, 2, 6];
    const values = Float32Array.from({ length: rows * dim }, (_, index) => index);
    // Most keys have a row of their own, some share one, and some rows have no key.
    const texts = Array.from({ length: 36 }, (_, index) => `key ${index}`);
    const rowOf = texts.map((_, index) => (index < 24 ? 1 + index : 3 + (index % 3)));
    const data = BigInt64Array.from(rowOf, BigInt);
    const vocabulary = {
      keys: stringTensor(texts),
      values: { dtype: "int64", shape: [36], data },
    } as const;
    const damagedDirectory = path.join(temporaryDirectory(), "1");
    writeVersionOf(directory, [floats("embedding", [rows, dim], values)]);
    const files = new VersionFiles(directory);
    const table = keyedTable(files, vocabulary, partitions);
    const shareOf = (from: VersionFiles, partition: number) => {
      const reader = from.openPartition(table, partition);
      valuesOf(reader);
      return { share: reader.checksumShares()[0]!, rows: reader.keyed!.globalRows };
    };
    const sound = Array.from({ length: partitions }, (_, each) => shareOf(files, each));

    for (let damagedRow = 0; damagedRow < rows; damagedRow += 1) {
      const other = values.slice();
      other[damagedRow * dim]! += 0.5;
      writeVersionOf(damagedDirectory, [floats("embedding", [rows, dim], other)]);
      const damagedFiles = new VersionFiles(damagedDirectory);
      const damaged = sound.map((_, each) => shareOf(damagedFiles, each));
      const readers = [...sound.keys()].filter((each) => sound[each]!.rows.includes(damagedRow));
      for (let chosen = 1; chosen < 2 ** readers.length; chosen += 1) {
        const isDamaged = (each: number): boolean => (chosen & (1 << readers.indexOf(each))) !== 0;
        const sum = sound.reduce(
          (xor, { share }, each) =>
            xor ^ (readers.includes(each) && isDamaged(each) ? damaged[each]!.share : share),
          0,
        );
        expect({ damagedRow, chosen, sum: sum >>> 0 }).not.toMatchObject({
          sum: checksumsOf(table)[0],
        });
      }
      damagedFiles.close();
    }
    files.close();
  });

  test("without a vocabulary hold the rows whose number hashes to them", () => {
    const values = Float32Array.from({ length: 500 * 2 }, (_, index) => index);
    writeVersionOf(directory, [floats("embedding", [500, 2], values)]);
    const files = new VersionFiles(directory);
    const table = keyedTable(files, undefined);

    const { globalRows } = files.openPartition(table, 3).keyed!;

    const expected = Array.from({ length: 500 }, (_, row) => row).filter(
      (row) => partitionOfInteger(BigInt(row), table.spec.partitions) === 3,
    );
    expect([...globalRows]).toEqual(expected);
    expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
    files.close();
  });

  test("a vocabulary that leads outside the table is refused", () => {
    writeVersionOf(directory, [floats("embedding", [2, 1], Float32Array.of(1, 2))]);
    const files = new VersionFiles(directory);
    const values: Tensor = { dtype: "int64", shape: [1], data: BigInt64Array.of(2n) };
    const table = keyedTable(files, { keys: stringTensor(["a"]), values });

    expect(() => files.openPartition(table, 0)).toThrow(
      "key 0 of its vocabulary leads to row 2 of 2",
    );
    files.close();
  });
});
