// A vocabulary's index compared with the obvious implementation, a Map.

import fc from "fast-check";
import { expect, test } from "vitest";

import { StringColumn } from "../tensor/string-column.ts";
import type { Tensor } from "../tensor/tensor.ts";
import { tensorOf } from "./operations/tensor-memory.ts";
import { indexVocabularies } from "./vocabulary-index.ts";

function positionsIn(keys: Tensor, asked: Tensor): number[] {
  const [index] = indexVocabularies([{ name: "keys", keys, values: keys }]);
  return [...index!.positionsOf(asked)];
}

test("an index of strings answers as a Map of their bytes; of equal keys the first counts", () => {
  const word = fc.uint8Array({ maxLength: 3 });
  const columnOf = (words: readonly Uint8Array[]): Tensor =>
    tensorOf("string", [words.length], StringColumn.fromBytes(words));

  fc.assert(
    fc.property(fc.array(word), fc.array(word), (keys, asked) => {
      const twin = new Map(keys.map((key, at) => [String(key), at] as const).toReversed());

      const positions = positionsIn(columnOf(keys), columnOf([...asked, ...keys]));

      expect(positions).toEqual([...asked, ...keys].map((key) => twin.get(String(key)) ?? -1));
    }),
  );
});

test("an index of integers answers as a Map; of equal keys the first counts", () => {
  const id = fc.oneof(
    fc.bigInt({ min: -3n, max: 3n }),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  );
  const idsOf = (ids: readonly bigint[]): Tensor =>
    tensorOf("int64", [ids.length], BigInt64Array.from(ids));

  fc.assert(
    fc.property(fc.array(id), fc.array(id), (keys, asked) => {
      const twin = new Map(keys.map((key, at) => [key, at] as const).toReversed());

      const positions = positionsIn(idsOf(keys), idsOf([...asked, ...keys]));

      expect(positions).toEqual([...asked, ...keys].map((key) => twin.get(key) ?? -1));
    }),
  );
});

test("an index of int32 keys answers int32 keys as a Map, and refuses int64 ones", () => {
  const id = fc.oneof(fc.integer({ min: -3, max: 3 }), fc.integer());
  const idsOf = (ids: readonly number[]): Tensor =>
    tensorOf("int32", [ids.length], Int32Array.from(ids));

  fc.assert(
    fc.property(fc.array(id), fc.array(id), (keys, asked) => {
      const twin = new Map(keys.map((key, at) => [key, at] as const).toReversed());

      const positions = positionsIn(idsOf(keys), idsOf([...asked, ...keys]));

      expect(positions).toEqual([...asked, ...keys].map((key) => twin.get(key) ?? -1));
    }),
  );
  expect(() => positionsIn(idsOf([1]), tensorOf("int64", [1], BigInt64Array.of(1n)))).toThrow(
    /Key must be type int32 but got int64/,
  );
});
