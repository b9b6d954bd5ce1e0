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

describe("a key index with the slots of another one", () => {
  const inSharedMemory = (bytes: Uint8Array): Uint8Array => {
    const shared = new Uint8Array(new SharedArrayBuffer(bytes.byteLength));
    shared.set(bytes);
    return shared;
  };
  const missing = fc.constantFrom<MissingKey>(
    { kind: "row", row: 1 },
    { kind: "hash", firstRow: 1, buckets: 2 },
    { kind: "refuse" },
  );
  const outcomeOf = (work: () => unknown): unknown => {
    try {
      return work();
    } catch (error) {
      return String(error);
    }
  };

  test("gives the same rows, known keys and refusals", () => {
    const key = fc.bigInt({ min: 0n, max: 60n });
    const anyKeys = fc.uniqueArray(key, { selector: String });
    const kinds = fc.record({ rule: missing, isText: fc.boolean() });
    fc.assert(
      fc.property(anyKeys, fc.array(key), kinds, (known, asked, { rule, isText }) => {
        const tensorOf = (values: readonly bigint[]): Tensor =>
          isText ? stringTensor(values.map(String)) : integers(values);
        const fixed = { keys: tensorOf([7n]), rows: [2] };
        const table = vocabularyOf(isText ? "string" : "int64", rule, fixed);
        const keys = tensorOf(known);
        const first = createKeyIndex(table, partitionOf(keys));

        const second = createKeyIndex(table, partitionOf(keys), first.slots);

        const askedKeys = tensorOf(asked);
        expect(second.slots).toBe(first.slots);
        expect([...second.known(askedKeys)]).toEqual([...first.known(askedKeys)]);
        expect(outcomeOf(() => [...second.localRows(askedKeys)])).toEqual(
          outcomeOf(() => [...first.localRows(askedKeys)]),
        );
      }),
    );
  });

  test("has its slots in shared memory if the keys are, of texts and of numbers", () => {
    const { offsets, bytes } = StringColumn.fromText(["a", "b"]);
    const texts: Tensor = {
      dtype: "string",
      shape: [2],
      data: new StringColumn(offsets, inSharedMemory(bytes)),
    };
    const memory = new SharedArrayBuffer(16);
    const numbers: Tensor = { dtype: "int64", shape: [2], data: new BigInt64Array(memory) };
    numbers.data.set([5n, 6n]);
    const rule = { kind: "row", row: 1 } as const;

    const indexes = [
      createKeyIndex(vocabularyOf("string", rule), partitionOf(texts)),
      createKeyIndex(vocabularyOf("int64", rule), partitionOf(numbers)),
    ];

    const areShared = indexes.map(({ slots }) => slots?.buffer instanceof SharedArrayBuffer);
    expect(areShared).toEqual([true, true]);
    const own = createKeyIndex(vocabularyOf("string", rule), partitionOf(stringTensor(["a"])));
    expect(own.slots?.buffer).toBeInstanceOf(ArrayBuffer);
  });
});

test("keys lead to their rows wherever the rows without keys are", () => {
  const rule = { kind: "row", row: 0 } as const;
  const others = fc.uniqueArray(fc.integer({ min: 1, max: 40 }), { maxLength: 12 });
  fc.assert(
    fc.property(others, fc.integer({ min: 1, max: 20 }), fc.nat(30), (without, count, shift) => {
      const free = Array.from({ length: 60 }, (_, row) => row + 1).filter(
        (row) => !without.includes(row),
      );
      const own = free.slice(0, count).map((_, at) => free[(at + shift) % count]!);
      const globalRows = Uint32Array.from([0, ...without, ...own]).toSorted();
      const keys = stringTensor(own.map((row) => `key ${row}`));
      const partition = { globalRows, keys, keyRows: Uint32Array.from(own) };
      const index = createKeyIndex(vocabularyOf("string", rule), partition);

      const found = index.localRows(stringTensor([...keys.data.toText(), "none"]));

      expect(Array.from(found, (row) => globalRows[row])).toEqual([...own, 0]);
    }),
  );
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

  test("gives the positions in a large partition, however its rows are spread", () => {
    const step = fc.integer({ min: 1, max: 2 ** 10 });
    const pieces = fc.array(fc.tuple(step, fc.integer({ min: 1, max: 3000 })), { minLength: 1 });
    fc.assert(
      fc.property(pieces, fc.nat(2 ** 9), (cut, first) => {
        const rows: number[] = [first];
        for (const [gap, count] of cut.slice(0, 5)) {
          for (let at = 0; at < count; at += 1) rows.push(rows.at(-1)! + gap);
        }
        const globalRows = Uint32Array.from(rows);
        const table = { keys: { kind: "row" as const }, rows: rows.at(-1)! + 3 };
        const large = createKeyIndex(table, { ...partition, globalRows });

        expect(large.localRows(integers(rows.map(BigInt)))).toEqual(
          Uint32Array.from(rows, (_, at) => at),
        );
        expect(() => large.localRows(integers([BigInt(rows.at(-1)! + 2)]))).toThrow(
          "does not lie in the partition",
        );
      }),
      { numRuns: 30 },
    );
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
