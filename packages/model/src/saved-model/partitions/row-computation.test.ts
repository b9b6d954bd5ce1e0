// Rows that layers compute of stored matrices as they are read: the plain formula, the same bits however the table is
// cut, the checksum of every matrix, and the refusal of values that cannot be ordered.

import path from "node:path";
import { WinnowError, type CandidateTable } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { checksumsOf, sumOfShares, valuesOf } from "../fixtures/stored-table.ts";
import { floats, writeVersionOf } from "../fixtures/version-directory.ts";
import { temporaryDirectory } from "../../../../../test/temporary-directory.ts";
import { VersionFiles } from "../version-files.ts";
import type { RowStep } from "./row-computation.ts";
import type { StoredTable, StoredTensor } from "./stored-table.ts";

const directory = path.join(temporaryDirectory(), "1");
const bundle = (key: string): StoredTensor => ({ kind: "bundle", key });

/** Values in the stored matrix, in the one beside it, and between the layers: no multiple of four. */
const [OWN, OTHER, INNER, OUTER] = [5, 3, 7, 6];
const value = (seed: number, at: number): number => Math.fround(Math.sin(at * 12.9898 + seed) * 2);
const values = (seed: number, count: number): Float32Array =>
  Float32Array.from({ length: count }, (_, at) => value(seed, at));
const FIRST = values(3, INNER * (OWN + OTHER));
const SECOND = values(4, OUTER * INNER);
const CENTRE = values(5, INNER);

/** [own ‖ other] → relu(x K + c) → y L / |y L|. */
const TOWER: readonly RowStep[] = [
  { kind: "stored", matrix: 0, dim: OWN },
  { kind: "stored", matrix: 1, dim: OTHER },
  { kind: "joined", of: [0, 1], dim: OWN + OTHER },
  { kind: "product", of: 2, width: OWN + OTHER, kernel: FIRST, dim: INNER },
  { kind: "elementwise", op: "Add", of: 3, by: CENTRE, dim: INNER },
  { kind: "elementwise", op: "Maximum", of: 4, by: Float32Array.of(0), dim: INNER },
  { kind: "product", of: 5, width: INNER, kernel: SECOND, dim: OUTER },
  { kind: "elementwise", op: "Mul", of: 6, by: undefined, dim: OUTER },
  { kind: "reduced", of: 7, how: "Sum", count: OUTER, inner: 1, dim: 1 },
  { kind: "elementwise", op: "Sqrt", of: 8, by: undefined, dim: 1 },
  { kind: "elementwise", op: "Div", of: 6, by: 9, dim: OUTER },
];

interface Content {
  readonly rows: number;
  readonly partitions: number;
  readonly steps?: readonly RowStep[];
  readonly hasBias?: boolean;
}

function tableOf({ rows, partitions, steps = TOWER, hasBias = false }: Content): {
  readonly files: VersionFiles;
  readonly table: StoredTable;
} {
  writeVersionOf(directory, [
    floats("own", [rows, OWN], values(1, rows * OWN)),
    floats("other", [rows, OTHER], values(2, rows * OTHER)),
    floats("bias", [rows], values(6, rows)),
  ]);
  const files = new VersionFiles(directory);
  const appended = hasBias ? [bundle("bias")] : [];
  const sources = [bundle("own"), ...appended, bundle("other")];
  const spec: CandidateTable = {
    kind: "candidate",
    name: "items",
    rows,
    dim: steps.at(-1)!.dim + appended.length,
    partitions,
    sources: sources.map((source) => files.sourceOf(source)),
    idDtype: undefined,
  };
  const computed = { beside: [{ stored: bundle("other"), dim: OTHER }], steps };
  const derivation = { isByColumn: false, normalisation: undefined, appended, computed };
  const table = { spec, rows: bundle("own"), derivation, ids: undefined, vocabulary: undefined };
  return { files, table };
}

function read(content: Content): number[] {
  const { files, table } = tableOf(content);
  const all = Array.from({ length: content.partitions }, (_, partition) => [
    ...valuesOf(files.openPartition(table, partition)),
  ]);
  files.close();
  return all.flat();
}

/** A row in double precision. */
function plainRow(row: number): number[] {
  const product = (kernel: Float32Array, of: readonly number[]): number[] =>
    Array.from({ length: kernel.length / of.length }, (_, column) =>
      of.reduce((sum, each, at) => sum + each * kernel[column * of.length + at]!, 0),
    );
  const stored = [
    ...Array.from({ length: OWN }, (_, at) => value(1, row * OWN + at)),
    ...Array.from({ length: OTHER }, (_, at) => value(2, row * OTHER + at)),
  ];
  const inner = product(FIRST, stored).map((each, at) => Math.max(0, each + CENTRE[at]!));
  const outer = product(SECOND, inner);
  const length = Math.hypot(...outer);
  return outer.map((each) => each / length);
}

describe("rows that layers compute", () => {
  test("are what the layers make of each row", () => {
    const got = read({ rows: 50, partitions: 3 });

    for (const [at, each] of got.entries()) {
      expect(each).toBeCloseTo(plainRow(Math.floor(at / OUTER))[at % OUTER]!, 5);
    }
  });

  test("have the same bits however the table is cut, with a bias too", () => {
    // More rows than are computed together.
    const rows = 40_000;
    const whole = read({ rows, partitions: 1 });
    const widened = read({ rows, partitions: 2, hasBias: true });

    expect(read({ rows, partitions: 13 })).toEqual(whole);
    expect(widened.filter((_, at) => at % (OUTER + 1) < OUTER)).toEqual(whole);
    expect(widened.filter((_, at) => at % (OUTER + 1) === OUTER)).toEqual([...values(6, rows)]);
  });

  test("are read with shares that add up to the checksum of every stored tensor", () => {
    for (const hasBias of [false, true]) {
      const { files, table } = tableOf({ rows: 30_000, partitions: 7, hasBias });

      expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
      files.close();
    }
  });

  test("are refused by the row where a layer overflows", () => {
    const huge = Float32Array.from(FIRST, (each) => each * 1e38);
    const steps = [
      ...TOWER.slice(0, 3),
      { kind: "product", of: 2, width: OWN + OTHER, kernel: huge, dim: INNER },
    ] as const;

    expect(() => read({ rows: 9, partitions: 1, steps })).toThrow(WinnowError);
    expect(() => read({ rows: 9, partitions: 1, steps })).toThrow(
      /Cannot serve table "items": row \d of 9 holds -?Infinity/,
    );
  });

  test("look tokens up, rearrange and pool them", () => {
    const table = Float32Array.from({ length: 4 * 2 }, (_, at) => at - 3);
    const tokens = { kind: "elementwise", op: "Greater", of: 0, by: Float32Array.of(0) } as const;
    const steps: readonly RowStep[] = [
      ...TOWER.slice(0, 2),
      { ...tokens, dim: OWN },
      { kind: "gathered", of: 2, table, width: 2, dim: 2 * OWN },
      { kind: "picked", of: 3, places: Int32Array.of(1, 0, 3, 2, 9, 8), dim: 6 },
      { kind: "reduced", of: 4, how: "Mean", count: 3, inner: 2, dim: 2 },
      { kind: "picked", of: 2, places: Int32Array.of(4, 4), dim: 2 },
      { kind: "chosen", where: 6, of: 5, by: Float32Array.of(7), dim: 2 },
    ];
    const got = read({ rows: 9, partitions: 2, steps });

    const wanted = Array.from({ length: 9 }, (_, row) => {
      const numbers = [0, 1, 4].map((at) => Number(value(1, row * OWN + at) > 0));
      const rows = [1, 0].map((at) => numbers.map((number) => table[number * 2 + at]!));
      const means = rows.map((each) => Math.fround((each[0]! + each[1]! + each[2]!) / 3));
      return numbers[2] === 0 ? [7, 7] : means;
    });
    expect(got).toEqual(wanted.flat());
  });

  test.each([
    [
      "Erf",
      [0, 0.1, -0.1, 1.5, -2.9, 3.5, 7],
      [0, 0.112463, -0.112463, 0.966105, -0.999959, 0.999999, 1],
    ],
    [
      "Erfc",
      [0, 0.1, -2, 1.5, 2.5, 3.5, 7],
      [1, 0.887537, 1.995322, 0.033895, 4.07e-4, 7.43e-7, 0],
    ],
  ] as const)("%s is what tables of it have", (op, of, wanted) => {
    const steps: readonly RowStep[] = [
      ...TOWER.slice(0, 2),
      { kind: "elementwise", op: "Mul", of: 0, by: Float32Array.of(0), dim: OWN },
      { kind: "picked", of: 2, places: new Int32Array(of.length), dim: of.length },
      { kind: "elementwise", op: "Add", of: 3, by: Float32Array.from(of), dim: of.length },
      { kind: "elementwise", op, of: 4, by: undefined, dim: of.length },
    ];

    const got = read({ rows: 1, partitions: 1, steps });
    for (const [at, each] of wanted.entries()) expect(got[at]).toBeCloseTo(each, 6);
  });

  test("are refused where they look up a row that a table lacks, or count too far", () => {
    const steps: readonly RowStep[] = [
      ...TOWER.slice(0, 2),
      { kind: "elementwise", op: "Floor", of: 0, by: undefined, dim: OWN },
      { kind: "gathered", of: 2, table: new Float32Array(2), width: 1, dim: OWN },
    ];
    const by = Float32Array.of(2 ** 24);
    const counted = { kind: "elementwise", op: "AddIntegers", of: 2, by, dim: OWN } as const;

    expect(() => read({ rows: 9, partitions: 1, steps })).toThrow(
      /looks up row -?\d of a table of 2/,
    );
    expect(() => read({ rows: 9, partitions: 1, steps: [...steps, counted] })).toThrow(WinnowError);
    expect(() => read({ rows: 9, partitions: 1, steps: [...steps.slice(0, 3), counted] })).toThrow(
      /counts to 1677721\d, more than 16777216/,
    );
  });

  test("have no zero below 0, which would be another sum than that of 0", () => {
    const steps = [
      ...TOWER.slice(0, 2),
      { kind: "elementwise", op: "Mul", of: 0, by: Float32Array.of(-0), dim: OWN },
    ] as const;

    expect(read({ rows: 9, partitions: 1, steps }).some((each) => Object.is(each, -0))).toBe(false);
  });
});
