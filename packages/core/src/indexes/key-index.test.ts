// Keys to local rows, against a plain Map.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createKeyIndex } from "./key-index.ts";
import type { KeyedPartition } from "../partition/keyed-partition.ts";
import { fingerprint64 } from "../program/hashes/farm-hash.ts";
import type { MissingKey, TableKeys } from "../program/program.ts";
import { StringColumn } from "../tensor/string-column.ts";
import { type Tensor, stringTensor } from "../tensor/tensor.ts";

const integers = (values: readonly bigint[]): Tensor => ({
  dtype: "int64",
  shape: [values.length],
  data: BigInt64Array.from(values),
});

const vocabularyOf = (
  keyDtype: "string" | "int64",
  missing: MissingKey,
  fixed?: { readonly keys: Tensor; readonly rows: readonly number[] },
): { readonly keys: TableKeys; readonly rows: number } => {
  const none = keyDtype === "string" ? stringTensor([]) : integers([]);
  const keys = {
    kind: "vocabulary",
    keyDtype,
    missing,
    fixed: fixed ?? { keys: none, rows: [] },
  } as const;
  return { keys, rows: 1000 };
};

/** Rows 0 to 2 in every partition; key i at row 10 + 3 i. */
const partitionOf = (keys: Tensor): KeyedPartition => {
  const keyRows = Uint32Array.from({ length: keys.data.length }, (_, index) => 10 + 3 * index);
  return { globalRows: Uint32Array.from([0, 1, 2, ...keyRows]), keys, keyRows };
};

describe("a key index over a vocabulary", () => {
  test("S7: refuses a key that leads to two rows, as the end of a cut file may; one row twice is no harm", () => {
    const table = vocabularyOf("string", { kind: "row", row: 1 });
    const twice = partitionOf(stringTensor(["9", "98", "9"]));

    expect(() => createKeyIndex(table, twice)).toThrow(/key "9" leads to rows 10 and 16/);
    expect(() =>
      createKeyIndex(table, { ...twice, keyRows: Uint32Array.of(10, 13, 10) }),
    ).not.toThrow();
    const numbers = partitionOf(integers([7n, 7n]));
    expect(() => createKeyIndex(vocabularyOf("int64", { kind: "refuse" }), numbers)).toThrow(/"7"/);
  });

  test("gives the rows a Map would give, for strings of any bytes", () => {
    const bytes = fc.uint8Array({ maxLength: 6 });
    fc.assert(
      fc.property(fc.uniqueArray(bytes, { selector: String }), fc.array(bytes), (known, others) => {
        const keys: Tensor = {
          dtype: "string",
          shape: [known.length],
          data: StringColumn.fromBytes(known),
        };
        const twin = new Map(known.map((key, index) => [String(key), index + 3]));
        const asked = [...known, ...others];

        const index = createKeyIndex(
          vocabularyOf("string", { kind: "row", row: 1 }),
          partitionOf(keys),
        );

        const column = StringColumn.fromBytes(asked);
        const tensor: Tensor = { dtype: "string", shape: [asked.length], data: column };
        expect([...index.localRows(tensor)]).toEqual(
          asked.map((key) => twin.get(String(key)) ?? 1),
        );
        expect([...index.known(tensor)]).toEqual(asked.map((key) => Number(twin.has(String(key)))));
      }),
    );
  });

  test("gives the rows a Map would give, for integers", () => {
    const id = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    fc.assert(
      fc.property(fc.uniqueArray(id), fc.array(id), (known, others) => {
        const twin = new Map(known.map((key, index) => [key, index + 3]));
        const asked = [...known, ...others];
        const table = vocabularyOf("int64", { kind: "row", row: 0 });

        const index = createKeyIndex(table, partitionOf(integers(known)));

        const expected = asked.map((key) => twin.get(key) ?? 0);
        expect([...index.localRows(integers(asked))]).toEqual(expected);
      }),
    );
  });

  test("spreads unknown strings over the OOV rows by their fingerprint", () => {
    const table = vocabularyOf("string", { kind: "hash", firstRow: 1, buckets: 2 });
    const index = createKeyIndex(table, partitionOf(stringTensor(["known"])));
    const texts = ["a", "b", "c", "a longer unknown key", "known"];

    const rows = index.localRows(stringTensor(texts));

    const encoder = new TextEncoder();
    const buckets = texts
      .slice(0, 4)
      .map((text) => Number(fingerprint64(encoder.encode(text)) % 2n));
    expect([...rows]).toEqual([...buckets.map((bucket) => 1 + bucket), 3]);
  });

  test("spreads unknown integers by floor modulus, negative ones too", () => {
    const table = vocabularyOf("int64", { kind: "hash", firstRow: 0, buckets: 3 });

    const index = createKeyIndex(table, partitionOf(integers([])));

    expect([...index.localRows(integers([4n, -1n, -3n]))]).toEqual([1, 2, 0]);
  });

  test("answers mask keys before the vocabulary", () => {
    const fixed = { keys: stringTensor(["", "x"]), rows: [2, 0] };
    const table = vocabularyOf("string", { kind: "row", row: 1 }, fixed);

    const index = createKeyIndex(table, partitionOf(stringTensor(["x", "y"])));

    expect([...index.localRows(stringTensor(["", "x", "y", "z"]))]).toEqual([2, 0, 4, 1]);
    expect([...index.known(stringTensor(["", "x", "y", "z"]))]).toEqual([1, 1, 1, 0]);
  });

  test("refuses an unknown key where the model has no row for it, and keys of another type", () => {
    const table = vocabularyOf("string", { kind: "refuse" });

    const index = createKeyIndex(table, partitionOf(stringTensor(["a"])));

    expect(() => index.localRows(stringTensor(["a", "b"]))).toThrow(/found OOV values \["b"\]/);
    expect([...index.known(stringTensor(["a", "b"]))]).toEqual([1, 0]);
    expect(() => index.localRows(integers([1n]))).toThrow(
      "Keys of type int64 where string belongs",
    );
  });
});

describe("a key index over rows", () => {
  const partition = {
    globalRows: Uint32Array.of(1, 5, 7),
    keys: undefined,
    keyRows: new Uint32Array(),
  };
  const index = createKeyIndex({ keys: { kind: "row" }, rows: 8 }, partition);

  test("gives the position of the row in the partition", () => {
    expect([...index.localRows(integers([7n, 1n, 5n, 7n]))]).toEqual([2, 0, 1, 2]);
  });

  test.each([
    [9n, "indices[1] = 9 is not in [0, 8)"],
    [-1n, "indices[1] = -1 is not in [0, 8)"],
    [2n ** 62n, "indices[1] = 4611686018427387904 is not in [0, 8)"],
    [6n, "Row 6 does not lie in the partition asked for it"],
  ])("refuses row %s", (row, message) => {
    expect(() => index.localRows(integers([1n, row]))).toThrow(message);
  });
});
