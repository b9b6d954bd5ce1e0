// Rows by id are those that a plain comparison of all ids finds.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Tensor, stringTensor, tensor } from "../tensor/tensor.ts";
import { FoundRows, IdIndex, comparableIds } from "./id-index.ts";

/** Few different ids, so that some have several rows; large ones differ in their upper half alone. */
const idsOf = {
  string: (numbers: readonly number[]): Tensor =>
    stringTensor(numbers.map((number) => (number % 7 === 0 ? "" : `item ${number}`))),
  int32: (numbers: readonly number[]): Tensor =>
    tensor(
      "int32",
      [numbers.length],
      Int32Array.from(numbers, (number) => number - 20),
    ),
  int64: (numbers: readonly number[]): Tensor =>
    tensor(
      "int64",
      [numbers.length],
      BigInt64Array.from(numbers, (number) => BigInt(number) << BigInt(number % 60)),
    ),
};
const numbers = fc.array(fc.nat(60), { maxLength: 80 });

describe("an index of ids", () => {
  test.each(["string", "int32", "int64"] as const)("finds all rows of %s ids", (dtype) => {
    fc.assert(
      fc.property(numbers, numbers, fc.integer({ min: 0, max: 5 }), (stored, wanted, partBits) => {
        const index = new IdIndex(stored.length, partBits);
        for (let row = 0; row < stored.length; row += 2 ** partBits) {
          index.add(idsOf[dtype](stored.slice(row, row + 2 ** partBits)));
        }
        const asked = idsOf[dtype](wanted);
        const same = (a: number, b: number): boolean =>
          a === b || (dtype === "string" && a % 7 === 0 && b % 7 === 0);

        const found = wanted.map((_, position) => {
          const rows: number[] = [];
          index.forEachRow(asked, position, (row) => rows.push(row));
          return rows.toSorted((a, b) => a - b);
        });

        expect(found).toEqual(
          wanted.map((id) => stored.flatMap((other, row) => (same(id, other) ? [row] : []))),
        );
      }),
    );
  });

  test("tells the first row of which the id has occurred before", () => {
    const repeated = (ids: readonly string[]) => IdIndex.of(stringTensor(ids)).repeated;
    expect(repeated(["a", "b", "c", "b", "a", "b"])).toEqual({ first: 1, second: 3 });
    expect(repeated(["a", "b"])).toBeUndefined();
  });

  test("ids that are all equal are indexed, and found many times over, as fast as others", () => {
    const ids = stringTensor(Array.from({ length: 300_000 }, () => ""));
    const index = IdIndex.of(ids);
    const rows = new FoundRows();

    for (let position = 0; position < 10_000; position += 1) {
      rows.addRows({ index, firstRow: 5 }, ids, position);
    }

    const found = rows.ascending();
    expect([found.length, found[0], found.at(-1)]).toEqual([300_000, 5, 300_004]);
  });

  test("of a number of rows that fills the bits of a row number finds the last one", () => {
    for (const rows of [1, 2, 3, 4, 255, 256, 65_535, 65_536]) {
      const ids = tensor(
        "int32",
        [rows],
        Int32Array.from({ length: rows }, (_, row) => row),
      );
      const index = IdIndex.of(ids);
      const found: number[] = [];
      index.forEachRow(ids, rows - 1, (row) => found.push(row));

      expect(found).toEqual([rows - 1]);
    }
  });

  test("narrows wanted integers to the type of the ids, and finds no others", () => {
    const wanted = tensor("int64", [3], BigInt64Array.of(5n, 2n ** 40n, -1n));

    expect(comparableIds(wanted, "int32")?.data).toEqual(Int32Array.of(5, -1));
    expect(comparableIds(wanted, "string")).toBeUndefined();
  });
});

test("found rows are told in ascending order, each once", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(50)), (rows) => {
      const found = new FoundRows();
      for (const row of rows) found.add(row);

      expect([...found.ascending()]).toEqual([...new Set(rows)].toSorted((a, b) => a - b));
    }),
  );
});
