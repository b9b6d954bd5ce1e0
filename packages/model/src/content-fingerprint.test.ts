// Fingerprints of contents: what changes them, and what does not.

import { areOfSameFiles, fingerprint, stringTensor } from "@winnow/core";
import type { AttributeColumn, CandidateTable, KeyedTable } from "@winnow/core";
import { expect, test } from "vitest";
import { contentFingerprint, describedFingerprint } from "./content-fingerprint.ts";
import type { StoredTable } from "./saved-model/partitions/stored-table.ts";

const FILES = fingerprint("0123456789abcdef".repeat(4));
const SOURCE = { tensor: "items", file: "variables/variables.data-00000-of-00001", checksum: 7 };
const ITEMS: CandidateTable = {
  kind: "candidate",
  name: "items",
  rows: 40,
  dim: 8,
  partitions: 1,
  sources: [SOURCE],
  idDtype: undefined,
};
const USERS: KeyedTable = {
  kind: "keyed",
  name: "users",
  rows: 9,
  dim: 8,
  partitions: 1,
  sources: [SOURCE],
  keys: { kind: "row" },
};

function constant(...values: readonly number[]) {
  const tensor = {
    dtype: "float32",
    shape: [values.length],
    data: Float32Array.from(values),
  } as const;
  return { kind: "constant", name: "bias", tensor } as const;
}

const PLAIN: StoredTable = {
  spec: ITEMS,
  rows: { kind: "bundle", key: "items" },
  ids: undefined,
  vocabulary: undefined,
};
const WITH_BIAS: StoredTable = {
  ...PLAIN,
  derivation: { isByColumn: false, normalisation: undefined, appended: [constant(0, 1)] },
};
const LOOKED_UP: StoredTable = {
  spec: USERS,
  rows: { kind: "bundle", key: "users" },
  ids: undefined,
  vocabulary: undefined,
};

function maskOf(codes: readonly number[]): AttributeColumn {
  return {
    spec: { name: "genre", type: "integer", isList: false },
    values: Float64Array.of(1, 2),
    codes: Uint8Array.from(codes),
  };
}

function vocabularyOf(keys: readonly string[]): StoredTable["vocabulary"] {
  const data = BigInt64Array.from(keys, (_, at) => BigInt(at));
  return { keys: stringTensor(keys), values: { dtype: "int64", shape: [keys.length], data } };
}

test("S7: whatever makes other rows, keys or columns of the same files makes another content", () => {
  const readings: readonly (readonly StoredTable[])[] = [
    [],
    [PLAIN],
    [LOOKED_UP],
    [PLAIN, LOOKED_UP],
    [LOOKED_UP, PLAIN],
    [WITH_BIAS],
    [{ ...WITH_BIAS, derivation: { ...WITH_BIAS.derivation!, appended: [constant(-0, 1)] } }],
    [{ ...WITH_BIAS, derivation: { ...WITH_BIAS.derivation!, isByColumn: true } }],
    [{ ...PLAIN, spec: { ...ITEMS, dim: 9 } }],
    [{ ...PLAIN, spec: { ...ITEMS, idDtype: "string" } }],
    [{ ...PLAIN, rows: { kind: "bundle", key: "others" } }],
    [{ ...PLAIN, masks: [maskOf([0, 1])] }],
    [{ ...PLAIN, masks: [maskOf([1, 0])] }],
    [{ ...LOOKED_UP, vocabulary: vocabularyOf(["a", "bc"]) }],
    [{ ...LOOKED_UP, vocabulary: vocabularyOf(["ab", "c"]) }],
    [{ ...LOOKED_UP, spec: { ...USERS, keys: { ...vocabularyKeys(0) } } }],
    [{ ...LOOKED_UP, spec: { ...USERS, keys: { ...vocabularyKeys(1) } } }],
  ];

  const prints = readings.map((tables) => contentFingerprint(FILES, tables));

  expect(new Set(prints).size).toBe(readings.length);
  expect(prints.every((print) => print.length === 64 && areOfSameFiles(print, FILES))).toBe(true);
});

function vocabularyKeys(row: number): KeyedTable["keys"] {
  const fixed = { keys: stringTensor([]), rows: [] };
  return { kind: "vocabulary", keyDtype: "string", missing: { kind: "row", row }, fixed };
}

test("the number of partitions, the order of fields and absent fields are no part of a content", () => {
  const { spec, ...parts } = PLAIN;
  const again = { masks: undefined, ...parts, spec: { ...ITEMS, partitions: 8 } };

  expect(contentFingerprint(FILES, [again])).toBe(contentFingerprint(FILES, [{ spec, ...parts }]));
});

test("other files are never taken for the same ones", () => {
  const others = fingerprint(`f${FILES.slice(1)}`);

  expect(
    areOfSameFiles(contentFingerprint(others, [PLAIN]), contentFingerprint(FILES, [PLAIN])),
  ).toBe(false);
});

test("attributes belong to the content: their file to its files, what is read of it to the rest", () => {
  const content = contentFingerprint(FILES, [PLAIN]);
  const year = { name: "year", type: "integer", isList: false } as const;
  const of = (sha256: string, type: "integer" | "float") =>
    describedFingerprint(content, { name: "items.csv", sha256 }, [{ ...year, type }]);

  expect(of("aa", "integer")).toBe(of("aa", "integer"));
  expect(areOfSameFiles(of("aa", "integer"), of("aa", "float"))).toBe(true);
  expect(of("aa", "integer")).not.toBe(of("aa", "float"));
  expect(areOfSameFiles(of("aa", "integer"), of("ab", "integer"))).toBe(false);
  expect(areOfSameFiles(of("aa", "integer"), content)).toBe(false);
});
