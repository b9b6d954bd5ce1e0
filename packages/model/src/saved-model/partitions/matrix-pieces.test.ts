// Bands of a matrix in pieces: what they are, and how many there may be.

import { describe, expect, test } from "vitest";
import { type Box, boxesOf } from "../fixtures/sliced-tensors.ts";
import { memoryRegion } from "../../storage/region.ts";
import { bandAt, bandsOf } from "./matrix-pieces.ts";
import type { StoredRegion } from "./stored-region.ts";

/** A matrix in these boxes, whose bytes nobody reads. */
function storedIn(shape: readonly number[], boxes: readonly Box[]): StoredRegion {
  const region = memoryRegion(new Uint8Array(), "file", "rows");
  const pieces = boxes
    .map(({ start, size }) => ({ start, shape: size, checksum: 0, region, offset: 0 }))
    .toSorted((a, b) => a.start[0] - b.start[0] || a.start[1] - b.start[1]);
  const source = { tensor: "rows", file: "file", checksum: 0 };
  return { dtype: "float32", shape, pieces, size: 0, name: 'tensor "rows"', source };
}

describe("bandsOf()", () => {
  test("gives rows that lie in the same pieces, in order", () => {
    const boxes: Box[] = [
      { start: [0, 0], size: [3, 4] },
      { start: [3, 0], size: [5, 1] },
      { start: [3, 1], size: [2, 3] },
      { start: [5, 1], size: [3, 3] },
    ];

    const bands = bandsOf(storedIn([8, 4], boxes));

    const shown = bands.map(({ firstRow, endRow, pieces }) => [
      firstRow,
      endRow,
      pieces.map(({ firstColumn, columns }) => `${firstColumn}+${columns}`).join(" "),
    ]);
    expect(shown).toEqual([
      [0, 3, "0+4"],
      [3, 5, "0+1 1+3"],
      [5, 8, "0+1 1+3"],
    ]);
    expect([0, 2, 3, 4, 5, 7].map((row) => bandAt(bands, row))).toEqual([0, 0, 1, 1, 2, 2]);
  });

  test("refuses few pieces that make very many bands of many columns", () => {
    const [rows, dim] = [1100, 1100];
    const columns = Array.from({ length: dim - 1 }, (_, column): Box => ({
      start: [0, column],
      size: [rows, 1],
    }));
    const cells = Array.from({ length: rows }, (_, row): Box => ({
      start: [row, dim - 1],
      size: [1, 1],
    }));

    expect(() => bandsOf(storedIn([rows, dim], [...columns, ...cells]))).toThrow(
      'tensor "rows": its 2199 slices cut too many rows into too many columns; store it in slices of whole rows',
    );
  });

  test("takes what a sharding policy cuts a thousand times", () => {
    const cuts = Array.from({ length: 1000 }, (_, index) => 14 * index + 7 * (index % 2));

    const bands = bandsOf(storedIn([100_000, 64], boxesOf(100_000, 64, cuts)));

    expect(bands.at(-1)?.endRow).toBe(100_000);
  });
});
