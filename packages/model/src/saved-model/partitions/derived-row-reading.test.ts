// Rows that are made of several stored tensors, against the plain formula over the whole tensors:
// values, checksum shares, bytes read, and what is refused.

import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { PARTITION_BYTES, WinnowError, type CandidateTable } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { checksumsOf, sumOfShares, valuesOf } from "../fixtures/stored-table.ts";
import { floats, writeVersionOf } from "../fixtures/version-directory.ts";
import { temporaryDirectory } from "../../../../../test/temporary-directory.ts";
import { VersionFiles } from "../version-files.ts";
import type {
  RowDerivation,
  RowFactor,
  RowNormalisation,
  StoredTable,
  StoredTensor,
} from "./stored-table.ts";

const directory = path.join(temporaryDirectory(), "1");
const bundle = (key: string): StoredTensor => ({ kind: "bundle", key });

interface Content {
  readonly rows: number;
  /** Of the stored matrix. */
  readonly dim: number;
  readonly partitions: number;
  readonly isByColumn: boolean;
  readonly normalisation?: RowNormalisation | undefined;
  readonly biases: number;
  readonly hasSquares?: boolean;
  readonly factors?: readonly Omit<RowFactor, "stored">[];
  /** Of a matrix by column: how many columns stand before the rows, and behind them. */
  readonly beside?: readonly [number, number] | undefined;
}

/** Columns beside the rows; none of a matrix by row. */
const besideOf = ({ isByColumn, beside }: Content): readonly [number, number] =>
  (isByColumn ? beside : undefined) ?? [0, 0];

const valueAt = (tensor: number, at: number): number =>
  Math.fround(Math.sin(at * 12.9898 + tensor + 1) * 3);

/** A factor of either sign, and no less than 1 in size. */
function factorAt(number: number, row: number): number {
  const value = valueAt(number + 10, row);
  return Math.fround(value + Math.sign(value));
}

/** Writes matrix and biases, and describes the table over them. */
function tableOf(content: Content): { readonly files: VersionFiles; readonly table: StoredTable } {
  const { rows, dim, partitions, isByColumn, normalisation, biases, hasSquares = false } = content;
  const [before, behind] = besideOf(content);
  const stored = rows + before + behind;
  const matrix = Float32Array.from({ length: stored * dim }, (_, at) => valueAt(0, at));
  const shape = isByColumn ? [dim, stored] : [rows, dim];
  const { factors = [] } = content;
  const keys = Array.from({ length: biases }, (_, number) => `bias${number}`);
  const factorKeys = factors.map((_, number) => `factor${number}`);
  writeVersionOf(directory, [
    floats("matrix", shape, matrix),
    ...keys.map((key, number) => {
      const values = Float32Array.from({ length: rows }, (_, row) => valueAt(number + 1, row));
      return floats(key, [[rows], [1, rows], [rows, 1]][number % 3]!, values);
    }),
    ...factorKeys.map((key, number) => {
      const values = Float32Array.from({ length: rows }, (_, row) => factorAt(number, row));
      return floats(key, [rows], values);
    }),
  ]);
  const files = new VersionFiles(directory);
  const sources = [bundle("matrix"), ...keys.map(bundle), ...factorKeys.map(bundle)];
  const spec: CandidateTable = {
    kind: "candidate",
    name: "items",
    rows,
    dim: dim + biases + (hasSquares ? 1 : 0),
    partitions,
    sources: sources.map((source) => files.sourceOf(source)),
    idDtype: undefined,
  };
  const appended = keys.map(bundle);
  const isPart = stored > rows;
  const derivation: RowDerivation = {
    isByColumn,
    ...(isPart && { firstColumn: before }),
    normalisation,
    appended,
    factors: factors.map(({ isDivisor, appended: before }, number) => {
      return { isDivisor, appended: before, stored: bundle(factorKeys[number]!) };
    }),
    hasSquares,
  };
  const table = { spec, rows: sources[0]!, derivation, ids: undefined, vocabulary: undefined };
  return { files, table };
}

/** The rows of the whole table, in double precision. */
function plainRows(content: Content): number[] {
  const { rows, dim, isByColumn, normalisation, biases, hasSquares = false } = content;
  const [before, behind] = besideOf(content);
  const stored = rows + before + behind;
  return Array.from({ length: rows }, (_, row) => {
    const item = Array.from({ length: dim }, (_, column) =>
      valueAt(0, isByColumn ? column * stored + before + row : row * dim + column),
    );
    const { squares, length } = normalisation ?? {};
    const sum = item.reduce((total, value) => total + value * value, 0);
    const root = Math.sqrt(boundedBy(sum, squares));
    const divisor = normalisation === undefined ? 1 : boundedBy(root, length);
    const factor = Math.min(1 / divisor, normalisation?.factorMax ?? Infinity);
    let values = item.map((value) => value * factor);
    for (let appended = 0; appended <= biases; appended += 1) {
      for (const [number, each] of (content.factors ?? []).entries()) {
        if (each.appended !== appended) continue;
        const own = factorAt(number, row);
        values = values.map((value) => (each.isDivisor ? value / own : value * own));
      }
      if (appended < biases) values = [...values, valueAt(appended + 1, row)];
    }
    const ofSquares = values.slice(0, dim).reduce((total, value) => total + value * value, 0);
    return [...values, ...(hasSquares ? [ofSquares] : [])];
  }).flat();
}

function boundedBy(value: number, bound: RowNormalisation["squares"]): number {
  if (bound === undefined) return value;
  return bound.kind === "atLeast" ? Math.max(value, bound.value) : value + bound.value;
}

const bounds = fc.option(
  fc.record({
    kind: fc.constantFrom("atLeast" as const, "plus" as const),
    value: fc.constantFrom(0, 1e-12, 0.5, 30),
  }),
  { nil: undefined },
);
const normalisations: fc.Arbitrary<RowNormalisation | undefined> = fc.option(
  fc.oneof(
    fc.record({
      operation: fc.constantFrom("division" as const, "divisionOrZero" as const),
      squares: bounds,
      length: bounds,
    }),
    fc.record({
      operation: fc.constant("reciprocal" as const),
      squares: bounds,
      length: fc.constant(undefined),
      factorMax: fc.constantFrom(undefined, 0.2, 1e12),
    }),
  ),
  { nil: undefined },
);
const contents: fc.Arbitrary<Content> = fc
  .record({
    rows: fc.integer({ min: 1, max: 70 }),
    dim: fc.integer({ min: 1, max: 9 }),
    partitions: fc.integer({ min: 1, max: 20 }),
    isByColumn: fc.boolean(),
    normalisation: normalisations,
    biases: fc.nat(4),
    hasSquares: fc.boolean(),
    factors: fc.array(fc.record({ isDivisor: fc.boolean(), appended: fc.constantFrom(0, 1, 2) }), {
      maxLength: 2,
    }),
    beside: fc.constantFrom(undefined, [1, 0] as const, [0, 2] as const, [3, 1] as const),
  })
  .filter(({ partitions, rows }) => partitions <= rows)
  .map((content) => {
    const factors = content.factors.filter(({ appended }) => appended <= content.biases);
    return Object.assign(content, { factors: content.hasSquares ? [] : factors });
  });

/** The rows of all partitions. */
function allValues(files: VersionFiles, table: StoredTable): number[] {
  const values: number[] = [];
  for (let partition = 0; partition < table.spec.partitions; partition += 1) {
    values.push(...valuesOf(files.openPartition(table, partition)));
  }
  return values;
}

describe("rows made of several tensors", () => {
  test("are those of the whole tensors, and the shares add up to each one's checksum", () => {
    fc.assert(
      fc.property(contents, (content) => {
        const { files, table } = tableOf(content);

        const read = allValues(files, table);

        const expected = plainRows(content);
        expect(read).toHaveLength(expected.length);
        for (const [at, value] of read.entries()) {
          const error = Math.abs(value - expected[at]!);
          expect(error).toBeLessThan(1e-5 * Math.max(5, Math.abs(expected[at]!)));
        }
        expect(sumOfShares(files, table)).toEqual(checksumsOf(table));
        files.close();
      }),
      { numRuns: 60 },
    );
  });

  test("do not depend on the cut, to the bit", () => {
    const how = { operation: "reciprocal", squares: { kind: "atLeast", value: 1e-12 } } as const;
    const normalisation = { ...how, length: undefined };
    for (const isByColumn of [false, true]) {
      const whole = { rows: 50, dim: 7, partitions: 1, isByColumn, normalisation, biases: 1 };
      const [one, many] = [whole, { ...whole, partitions: 13 }].map((content) => {
        const { files, table } = tableOf(content);
        const read = allValues(files, table);
        files.close();
        return read;
      });

      expect(many).toEqual(one);
    }
  });

  // The matrix of 2,048 columns is larger than what is read before rows are made.
  test.each([
    [2 ** 18, 8],
    [4200, 2048],
  ])("come in chunks of at most 4 MiB, a bias included: %i rows of %i", (rows, dim) => {
    const { files, table } = tableOf({ rows, dim, partitions: 1, isByColumn: true, biases: 1 });

    const reader = files.openPartition(table, 0);
    const values = valuesOf(reader);

    for (const row of [0, Math.floor(rows / 3), rows - 1]) {
      const got = [...values.subarray(row * (dim + 1), (row + 1) * (dim + 1))];
      const columns = Array.from({ length: dim }, (_, at) => valueAt(0, at * rows + row));
      expect(got).toEqual([...columns, valueAt(1, row)]);
    }
    expect(reader.checksumShares()).toEqual(checksumsOf(table));
    files.close();
  });

  test.each([true, false])("a partition reads its own bytes alone, by column: %s", (isByColumn) => {
    const content = { rows: 4000, dim: 16, partitions: 8, isByColumn, biases: 1 };
    const { files, table } = tableOf(content);
    const before = files.bytesRead;

    valuesOf(files.openPartition(table, 3));

    expect(files.bytesRead - before).toBe((content.rows / 8) * 17 * 4);
    expect(files.partitionBytes(table, 3)).toBe((content.rows / 8) * 17 * 4);
    expect(PARTITION_BYTES).toBeGreaterThan(files.partitionBytes(table, 3));
    files.close();
  });

  test.each([true, false])("a changed bit of any tensor shows in its sum: %s", (isByColumn) => {
    const factors = [{ isDivisor: true, appended: 0 }];
    const content = { rows: 40, dim: 4, partitions: 5, isByColumn, biases: 2, factors };
    const { files, table } = tableOf(content);
    const expected = checksumsOf(table);
    files.close();
    const data = path.join(directory, "variables/variables.data-00000-of-00001");
    const whole = readFileSync(data);
    // The matrix takes 640 bytes, each vector 160.
    for (const [source, at] of [300, 700, 900, 1000].entries()) {
      const damaged = Buffer.from(whole);
      damaged[at]! ^= 1;
      writeFileSync(data, damaged);
      const opened = new VersionFiles(directory);

      const sums = sumOfShares(opened, table);

      expect(sums.map((sum, each) => sum === expected[each])).toEqual(
        [0, 1, 2, 3].map((each) => each !== source),
      );
      opened.close();
    }
  });
});

describe("rows that cannot be ordered", () => {
  /** The refusal of a table of two rows over these stored values. */
  function refusalOf(
    matrix: readonly number[],
    bias: readonly number[],
    derivation: Omit<RowDerivation, "appended">,
  ): string {
    writeVersionOf(directory, [
      floats("matrix", [2, 2], Float32Array.from(matrix)),
      floats("bias", [bias.length], Float32Array.from(bias)),
    ]);
    const files = new VersionFiles(directory);
    const stored = [bundle("matrix"), bundle("bias")] as const;
    const sources = stored.map((source) => files.sourceOf(source));
    const shape = { name: "items", rows: 2, dim: 3, partitions: 1, sources };
    const spec: CandidateTable = { kind: "candidate", ...shape, idDtype: undefined };
    const appended = [stored[1]];
    const table = { spec, rows: stored[0], derivation: { ...derivation, appended } };
    try {
      valuesOf(files.openPartition({ ...table, ids: undefined, vocabulary: undefined }, 0));
      return "";
    } catch (error) {
      if (!(error instanceof WinnowError)) throw error;
      return `${error.code} ${error.message}`;
    } finally {
      files.close();
    }
  }
  const plain = { isByColumn: false, normalisation: undefined };
  const division = { operation: "division", squares: undefined, length: undefined } as const;
  const orZero = { ...division, operation: "divisionOrZero" } as const;

  test("are refused with the row: in a column, in a bias, and where a row has no length", () => {
    const inRow1 =
      /^INVALID_ARGUMENT Cannot serve table "items": row 1 of 2 holds (NaN|-?Infinity)/;

    expect(refusalOf([1, NaN, 3, 4], [0, 0], { ...plain, isByColumn: true })).toMatch(inRow1);
    expect(refusalOf([1, 2, 3, 4], [0, -Infinity], plain)).toMatch(inRow1);
    expect(refusalOf([1, 2, 0, 0], [0, 0], { ...plain, normalisation: division })).toMatch(inRow1);
    expect(refusalOf([1, 2, 0, 0], [0, 0], { ...plain, normalisation: orZero })).toBe("");
  });

  test("nor is a bias of another length", () => {
    expect(refusalOf([1, 2, 3, 4], [0, 0, 0], plain)).toMatch(
      /^DATA_LOSS .*it is float32 \[3,1\] where .* \[2,1\] belongs/,
    );
  });
});
