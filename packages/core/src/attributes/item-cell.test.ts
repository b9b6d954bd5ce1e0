// Cells of vectors alone against cells that are made one by one.

import fc from "fast-check";
import { expect, test } from "vitest";
import { StringColumn } from "../tensor/string-column.ts";
import { cellOf, vectorCells, vectorsOfCells } from "./item-cell.ts";

test("cells of vectors alone are what each would be by itself, with every bit of their values", () => {
  const sizes = fc.record({ count: fc.nat({ max: 5 }), dim: fc.nat({ max: 9 }) });
  fc.assert(
    fc.property(sizes, fc.infiniteStream(fc.integer()), ({ count, dim }, words) => {
      const bits = Int32Array.from({ length: count * dim }, () => words.next().value);
      const values = new Float32Array(bits.buffer);
      const single = Array.from({ length: count }, (_, at) =>
        cellOf(Buffer.from("{}"), Buffer.from(bits.buffer, 4 * at * dim, 4 * dim)),
      );
      const expected = StringColumn.fromBytes(single);

      const cells = vectorCells(values, count);

      expect(cells.offsets).toEqual(expected.offsets);
      expect(Buffer.compare(cells.bytes, expected.bytes)).toBe(0);
      expect(new Int32Array(vectorsOfCells(cells).buffer)).toEqual(bits);
    }),
  );
});

test("vectors behind other objects are read, unless they differ in length or one is missing", () => {
  const cellOfValues = (text: string, ...values: readonly number[]): Uint8Array =>
    cellOf(Buffer.from(text), new Uint8Array(Float32Array.from(values).buffer));
  const both = [cellOfValues('{"year":1990}', 1, 2), cellOfValues("{}", 3, 4)];
  const read = (...cells: readonly Uint8Array[]) => vectorsOfCells(StringColumn.fromBytes(cells));

  expect(read(...both)).toEqual(Float32Array.of(1, 2, 3, 4));
  expect(() => read(...both, cellOfValues("{}", 5))).toThrow("different lengths");
  expect(() => read(both[0]!, new Uint8Array())).toThrow("different lengths");
});
