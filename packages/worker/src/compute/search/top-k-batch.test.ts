// Searches through the compute side's message channel, against brute force.

import {
  PowerSum,
  ROW_COLUMN,
  StringColumn,
  cellOf,
  filterText,
  readSums,
  sumsAttribute,
} from "@winnow/core";
import type { BoundFunction, Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

import type { MemoryTable } from "../doubles/memory-model.ts";
import type { ScanAsk } from "../compute.ts";
import {
  DIM,
  NAME,
  candidates,
  everyPartition,
  integers,
  loaded,
  strings,
} from "../fixtures/loaded-tables.ts";
import { packKeys, unpackKeys } from "../packed-keys.ts";
import { joinAsks } from "./scan-answers.ts";

function ask(options: Partial<ScanAsk> = {}): ScanAsk {
  return { queries: 1, k: 5, excluded: [], rowsOnly: false, ...options };
}

/** No list of excluded ids for no items, else one. */
function excludedKeys(items: readonly number[]): ScanAsk["excluded"] {
  return items.length === 0 ? [] : [packKeys(strings(items.map((item) => `item ${item}`)))];
}

function int32(values: readonly number[]): Tensor {
  return { dtype: "int32", shape: [values.length], data: Int32Array.from(values) };
}

/** Rows by score descending, then row, without the excluded ones. */
function bruteForce(table: MemoryTable, query: Float32Array, isExcluded: (row: number) => boolean) {
  const scored = Array.from({ length: table.rows }, (_, row) => {
    const values = table.values.subarray(row * DIM, (row + 1) * DIM);
    return { row, score: values.reduce((sum, value, at) => sum + value * query[at]!, 0) };
  });
  return scored
    .filter(({ row }) => !isExcluded(row))
    .toSorted((a, b) => b.score - a.score || a.row - b.row);
}

function others(count: number, without: readonly number[]): Uint16Array {
  return everyPartition(count).filter((partition) => !without.includes(partition));
}

describe("topK", () => {
  test("(I2, S1) each ask of a batch gets its own k, exclusions and ids, as brute force says", async () => {
    const rows = 40;
    const names = Array.from({ length: rows }, (_, row) => `item ${row % 30}`);
    const table = candidates(rows, strings(names));
    const client = await loaded(table);
    // Asks are often equal but for the vector, because such asks cross between the threads as one.
    const query = fc.record({
      vector: fc.array(fc.integer({ min: -3, max: 3 }), { minLength: DIM, maxLength: DIM }),
      k: fc.oneof(fc.constantFrom(4, 5), fc.integer({ min: 1, max: 50 })),
      excluded: fc.oneof(
        fc.constant<number[]>([]),
        fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 12 }),
      ),
      rowsOnly: fc.oneof(fc.constant(false), fc.boolean()),
    });

    await fc.assert(
      fc.asyncProperty(fc.array(query, { minLength: 1, maxLength: 8 }), async (queries) => {
        const answer = await client.topK({
          target: { ...NAME, table: 0, partitions: everyPartition(16) },
          asks: queries.map(({ k, excluded, rowsOnly }) =>
            ask({ k, rowsOnly, excluded: excludedKeys(excluded) }),
          ),
          vectors: Float32Array.from(queries.flatMap(({ vector }) => vector)),
        });

        for (const [index, { vector, k, excluded, rowsOnly }] of queries.entries()) {
          const out = new Set(excluded.map((id) => `item ${id}`));
          const all = bruteForce(table, Float32Array.from(vector), (row) => out.has(names[row]!));
          const wanted = all.slice(0, k);
          const part = answer.answers[index]!;
          const count = part.block.counts[0]!;
          expect([...part.block.rows.subarray(0, count)]).toEqual(wanted.map(({ row }) => row));
          expect([...part.block.scores.subarray(0, count)]).toEqual(
            wanted.map(({ score }) => score + 0),
          );
          const ids = part.ids && (unpackKeys(part.ids).data as StringColumn).toText();
          expect(ids).toEqual(rowsOnly ? undefined : wanted.map(({ row }) => names[row]));
        }
      }),
      { numRuns: 60 },
    );
  });

  test("asks that differ in their vectors alone cross the threads as one", () => {
    const list = excludedKeys([1]);
    const asks = [ask(), ask({ queries: 3 }), ask({ k: 4 }), ask({ excluded: list }), ask(), ask()];

    expect(joinAsks(asks)).toEqual([
      ask({ queries: 4 }),
      ask({ k: 4 }),
      ask({ excluded: list }),
      ask({ queries: 2 }),
    ]);
    expect(joinAsks([ask({ rowsOnly: true }), ask()])).toHaveLength(2);
  });

  test("so do asks of one filter, but not those of several, or with lists or attributes", () => {
    const [one, other] = [{ filters: ["f"] }, { filters: ["g"] }];
    const each = ask({ queries: 2, filters: ["f", "g"] });
    const apart = [
      [ask(one), ask(other)],
      [ask(one), ask()],
      [ask(one), each],
      [each, each],
      [ask({ ...one, included: excludedKeys([1]) }), ask(one)],
      [ask(one), ask({ ...one, attributes: ["year"] })],
    ];

    const joined = joinAsks([ask(one), ask({ ...one, queries: 3 }), ask(), ask({ filters: [] })]);

    expect(joined).toEqual([ask({ ...one, queries: 4 }), ask({ queries: 2 })]);
    for (const asks of apart) expect(joinAsks(asks)).toEqual(asks);
  });

  test.each<[string, Tensor]>([
    ["int64", integers(Array.from({ length: 20 }, (_, row) => 1000 + row))],
    ["int32", int32(Array.from({ length: 20 }, (_, row) => 1000 + row))],
  ])("%s ids go with their rows, to every ask of several queries", async (_, ids) => {
    const client = await loaded(candidates(20, ids));

    const answer = await client.topK({
      target: { ...NAME, table: 0, partitions: everyPartition(16) },
      asks: [ask({ queries: 2, k: 3 }), ask({ queries: 1, k: 4 })],
      vectors: Float32Array.of(1, 0, 0, 0, 1, 0, -1, 2, 1),
    });

    for (const { block, ids: found } of answer.answers) {
      const expected = Array.from(block.rows, (row) => 1000 + row);
      expect(Array.from(unpackKeys(found!).data as Iterable<bigint>, Number)).toEqual(expected);
    }
    expect(answer.answers.map(({ block }) => block.rows.length)).toEqual([6, 4]);
  });

  test("vectors of winners are those of their rows, bit for bit, for the asks that want them", async () => {
    const table = candidates(20, integers(Array.from({ length: 20 }, (_, row) => 1000 + row)));
    const client = await loaded(table);

    const answer = await client.topK({
      target: { ...NAME, table: 0, partitions: everyPartition(16) },
      asks: [
        ask({ queries: 2, k: 3, attributes: ["$vector"] }),
        ask({ k: 4 }),
        ask({ k: 30, attributes: ["$vector"] }),
      ],
      vectors: Float32Array.of(1, 0, 0, 0, 1, 0, -1, 2, 1, 1, 1, 1),
    });

    const [both, plain, all] = answer.answers;
    for (const { block, attributes } of [both!, all!]) {
      const { offsets, bytes } = attributes!;
      const expected = Array.from(block.rows, (row) => {
        const values = table.values.slice(row * DIM, (row + 1) * DIM);
        return `{"$vector":"${Buffer.from(values.buffer).toString("base64")}"}`;
      });
      const texts = expected.map((_, at) =>
        Buffer.from(bytes.subarray(offsets[at], offsets[at + 1])).toString(),
      );
      expect(texts).toEqual(expected);
      expect(offsets).toHaveLength(expected.length + 1);
    }
    expect(all!.block.rows).toHaveLength(20);
    expect(plain!.attributes).toBeUndefined();
  });

  test("vectors of winners lack what was added to the rows for the search, where that is wanted", async () => {
    const plain = candidates(20, undefined);
    const client = await loaded({ ...plain, kind: "candidate", ids: undefined, added: 1 });
    const attributes = ["$vector"];

    const { answers } = await client.topK({
      target: { ...NAME, table: 0, partitions: everyPartition(16) },
      asks: [ask({ k: 20, attributes, ownVectors: true }), ask({ k: 20, attributes })],
      vectors: Float32Array.of(1, 0, 1, 1, 0, 1),
    });

    for (const [at, length] of [DIM - 1, DIM].entries()) {
      const { block, attributes: texts } = answers[at]!;
      const expected = Array.from(block.rows, (row) => {
        const { buffer } = plain.values.slice(row * DIM, row * DIM + length);
        return `{"$vector":"${Buffer.from(buffer).toString("base64")}"}`;
      });
      expect(new StringColumn(texts!.offsets, texts!.bytes).toText()).toEqual(expected);
    }
  });

  test("vectors of winners come as bytes behind the objects of the asks that want that", async () => {
    const table = candidates(20, undefined);
    const client = await loaded(table);

    const { answers } = await client.topK({
      target: { ...NAME, table: 0, partitions: everyPartition(16) },
      asks: [
        ask({ k: 2, attributes: ["$vector"], vectorBytes: true }),
        ask({ k: 2, attributes: ["$vector"] }),
      ],
      vectors: Float32Array.of(1, 0, 0, 1, 0, 0),
    });

    const textsOf = ({ attributes }: (typeof answers)[number]): StringColumn =>
      new StringColumn(attributes!.offsets, attributes!.bytes);
    const cells = textsOf(answers[0]!);
    for (const [at, row] of answers[0]!.block.rows.entries()) {
      const { values } = table;
      const bits = Buffer.from(values.buffer, 4 * row * DIM, 4 * DIM);
      expect(Buffer.from(cells.at(at))).toEqual(Buffer.from(cellOf(Buffer.from("{}"), bits)));
    }
    expect(textsOf(answers[1]!).textAt(0)).toMatch(/^\{"\$vector":"/);
  });

  test("(I2) sums of powers are those of all rows of the partitions asked, beside asks for items", async () => {
    const table = candidates(40, undefined);
    const client = await loaded(table);
    const vectors = Float32Array.of(1, 0, 0.5, 0, 1, 0, -1, 2, 1);

    const sumsOver = async (partitions: Uint16Array): Promise<readonly string[]> => {
      const answer = await client.topK({
        target: { ...NAME, table: 0, partitions },
        asks: [ask({ k: 4 }), ask({ queries: 2, k: 1, rowsOnly: true, attributes: ["$sums"] })],
        vectors: vectors.slice(),
      });
      const { offsets, bytes } = answer.answers[1]!.attributes!;
      expect(answer.answers[0]!.attributes).toBeUndefined();
      return [0, 1].map((query) =>
        Buffer.from(bytes.subarray(offsets[query], offsets[query + 1])).toString(),
      );
    };
    const whole = await sumsOver(everyPartition(16));
    const parts = [await sumsOver(Uint16Array.of(0, 3, 5)), await sumsOver(others(16, [0, 3, 5]))];

    for (const query of [0, 1]) {
      const vector = vectors.slice((query + 1) * DIM, (query + 2) * DIM);
      const scores = bruteForce(table, vector, () => false).map(({ score }) => score);
      const [best] = scores as [number];
      const merged = new PowerSum();
      for (const texts of parts) merged.addText(texts[query]!.slice('{"$sums":'.length, -1));
      const plain = scores.reduce((sum, score) => sum + Math.exp(score - best), 0);

      expect(merged.relativeTo(best)).toBeCloseTo(plain, 9);
      expect(`{"$sums":${merged.toText()}}`).toBe(whole[query]);
    }
  });

  test("(I2) sums of functions of scores are those of the rows that each query's filter admits", async () => {
    const table = candidates(40, undefined);
    const client = await loaded(table);
    const vectors = Float32Array.of(1, 0, 0.5, -1, 2, 1);
    const numbers = Float32Array.of(0.5, -3);
    const functions: readonly BoundFunction[] = [{ op: "Tanh" }, { op: "Add", numbers }];
    const text = (bound: number): string =>
      filterText({ kind: "test", attribute: ROW_COLUMN, is: "lt", values: [bound] });

    const answer = await client.topK({
      target: { ...NAME, table: 0, partitions: everyPartition(16) },
      asks: [
        ask({
          queries: 2,
          k: 1,
          rowsOnly: true,
          filters: [text(7), text(31)],
          attributes: [sumsAttribute(functions, { firstRow: 0, endRow: 2 }, false)],
        }),
      ],
      vectors: vectors.slice(),
    });

    const { offsets, bytes } = answer.answers[0]!.attributes!;
    for (const [query, rows] of [7, 31].entries()) {
      const vector = vectors.slice(query * DIM, (query + 1) * DIM);
      const values = bruteForce(table, vector, (row) => row >= rows).map(({ score }) =>
        Math.fround(Math.fround(Math.tanh(score)) + numbers[query]!),
      );
      const best = Math.max(...values);
      const told = readSums(
        Buffer.from(bytes.subarray(offsets[query], offsets[query + 1])).toString(),
      );
      const sum = new PowerSum();
      sum.addText(told.sum);

      expect(told.best).toBe(best);
      expect(sum.relativeTo(best)).toBeCloseTo(
        values.reduce((total, value) => total + Math.exp(value - best), 0),
        6,
      );
    }
  });

  test("several queries of one ask take one list of exclusions for all, or one each", async () => {
    const table = candidates(20, integers(Array.from({ length: 20 }, (_, row) => 1000 + row)));
    const client = await loaded(table);
    const vectors = (): Float32Array => Float32Array.of(1, 0, 0, 0, 1, 0);
    const rowsOf = async (excluded: ScanAsk["excluded"]): Promise<number[][]> => {
      const answer = await client.topK({
        target: { ...NAME, table: 0, partitions: everyPartition(16) },
        asks: [ask({ queries: 2, k: 20, excluded })],
        vectors: vectors(),
      });
      const { block } = answer.answers[0]!;
      return [0, 1].map((query) =>
        Array.from(block.rows.subarray(query * block.k, query * block.k + block.counts[query]!)),
      );
    };

    const forAll = await rowsOf([packKeys(integers([1003, 77]))]);
    const each = await rowsOf([packKeys(integers([1003])), packKeys(integers([1004]))]);

    expect(forAll.map((rows) => rows.includes(3))).toEqual([false, false]);
    expect(each.map((rows) => [rows.includes(3), rows.includes(4)])).toEqual([
      [false, true],
      [true, false],
    ]);
  });

  test("in a table without ids the row number is the id", async () => {
    const client = await loaded(candidates(20, undefined));

    const answer = await client.topK({
      target: { ...NAME, table: 0, partitions: everyPartition(16) },
      asks: [ask({ k: 20, excluded: [packKeys(integers([0, 19, 400, -1]))] })],
      vectors: Float32Array.of(1, 1, 1),
    });

    expect(answer.answers[0]?.block.counts[0]).toBe(18);
    expect(answer.answers[0]?.ids).toBeUndefined();
  });

  test("(I2) only the partitions asked for are searched", async () => {
    const table = candidates(32, undefined);
    const client = await loaded(table);

    const answer = await client.topK({
      target: { ...NAME, table: 0, partitions: Uint16Array.of(2, 3) },
      asks: [ask({ k: 32 })],
      vectors: Float32Array.of(1, 2, 3),
    });

    expect([...answer.answers[0]!.block.rows].toSorted((a, b) => a - b)).toEqual([4, 5, 6, 7]);
  });

  test("a partition that is not held, and vectors of another dim, are refused", async () => {
    const client = await loaded(candidates(20, undefined));
    const target = { ...NAME, table: 0, partitions: Uint16Array.of(0) };
    await client.release({ ...NAME, table: 0, partition: 0 });

    const vectors = Float32Array.of(1, 2, 3);
    await expect(client.topK({ target, asks: [ask()], vectors })).rejects.toThrow(/not held/);
    const other = { ...NAME, table: 0, partitions: Uint16Array.of(1) };
    const short = Float32Array.of(1, 2);
    await expect(client.topK({ target: other, asks: [ask()], vectors: short })).rejects.toThrow(
      /dim 3/,
    );
  });
});
