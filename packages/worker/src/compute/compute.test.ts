// The compute side behind its message channel, against brute force over tables of small integers,
// whose scores are exact whatever the order of summation.

import { StringColumn, WinnowError, decodeProgramPackage, partitionOfBytes } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";

import { computeInProcess } from "../compute-in-process.cases.ts";
import { MemoryModel } from "../memory-model.cases.ts";
import type { MemoryTable } from "../memory-model.cases.ts";
import type { ComputeClient } from "./compute-client.ts";
import type { TopKAsk } from "./compute.ts";
import { packKeys, unpackKeys } from "./packed-keys.ts";

const NAME = { model: "m", version: 1 };
const DIM = 3;
const clients: ComputeClient[] = [];

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.shutdown()));
});

function strings(texts: readonly string[]): Tensor {
  const data = StringColumn.fromText(texts);
  return { dtype: "string", shape: [data.length], data };
}

function integers(values: readonly number[]): Tensor {
  const data = BigInt64Array.from(values, BigInt);
  return { dtype: "int64", shape: [data.length], data };
}

function valuesOf(rows: number, seed = 1): Float32Array {
  return Float32Array.from({ length: rows * DIM }, (_, index) => ((index * 7 + seed) % 11) - 5);
}

function candidates(rows: number, ids: Tensor | undefined): MemoryTable {
  return { kind: "candidate", rows, dim: DIM, values: valuesOf(rows), ids };
}

/** Opens a version with these tables and loads all of table 0 … n. */
async function loaded(...tables: readonly MemoryTable[]): Promise<ComputeClient> {
  const model = new MemoryModel(tables);
  const client = computeInProcess({ openModel: () => model });
  clients.push(client);
  const opened = await client.open(NAME, "memory");
  for (const [table, { partitions }] of opened.tables.entries()) {
    for (let partition = 0; partition < partitions; partition += 1) {
      await client.load({ ...NAME, table, partition });
    }
  }
  return client;
}

const everyPartition = (partitions: number): Uint16Array =>
  Uint16Array.from({ length: partitions }, (_, partition) => partition);

function ask(options: Partial<TopKAsk> = {}): TopKAsk {
  return { queries: 1, k: 5, excluded: [], rowsOnly: false, ...options };
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

describe("topK", () => {
  test("(S1, S5) each ask of a batch gets its own k, exclusions and ids, as brute force says", async () => {
    const rows = 40;
    const names = Array.from({ length: rows }, (_, row) => `item ${row % 30}`);
    const table = candidates(rows, strings(names));
    const client = await loaded(table);
    const query = fc.record({
      vector: fc.array(fc.integer({ min: -3, max: 3 }), { minLength: DIM, maxLength: DIM }),
      k: fc.integer({ min: 1, max: 50 }),
      excluded: fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 12 }),
    });

    await fc.assert(
      fc.asyncProperty(fc.array(query, { minLength: 1, maxLength: 5 }), async (queries) => {
        const answer = await client.topK({
          target: { ...NAME, table: 0, partitions: everyPartition(16) },
          asks: queries.map(({ k, excluded }) =>
            ask({ k, excluded: [packKeys(strings(excluded.map((id) => `item ${id}`)))] }),
          ),
          vectors: Float32Array.from(queries.flatMap(({ vector }) => vector)),
        });

        for (const [index, { vector, k, excluded }] of queries.entries()) {
          const out = new Set(excluded.map((id) => `item ${id}`));
          const all = bruteForce(table, Float32Array.from(vector), (row) => out.has(names[row]!));
          const wanted = all.slice(0, k);
          const part = answer.parts[index]!;
          const count = part.block.counts[0]!;
          expect([...part.block.rows.subarray(0, count)]).toEqual(wanted.map(({ row }) => row));
          expect([...part.block.scores.subarray(0, count)]).toEqual(
            wanted.map(({ score }) => score + 0),
          );
          const ids = (unpackKeys(part.ids!).data as StringColumn).toText();
          expect(ids).toEqual(wanted.map(({ row }) => names[row]));
        }
      }),
      { numRuns: 40 },
    );
  });

  test("several queries of one ask take one list of exclusions for all, or one each", async () => {
    const table = candidates(20, integers(Array.from({ length: 20 }, (_, row) => 1000 + row)));
    const client = await loaded(table);
    const vectors = (): Float32Array => Float32Array.of(1, 0, 0, 0, 1, 0);
    const rowsOf = async (excluded: TopKAsk["excluded"]): Promise<number[][]> => {
      const answer = await client.topK({
        target: { ...NAME, table: 0, partitions: everyPartition(16) },
        asks: [ask({ queries: 2, k: 20, excluded })],
        vectors: vectors(),
      });
      const { block } = answer.parts[0]!;
      return [0, 1].map((query) => [
        ...block.rows.subarray(query * block.k, query * block.k + block.counts[query]!),
      ]);
    };

    const [forAll] = [await rowsOf([packKeys(integers([1003, 77]))])];
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

    expect(answer.parts[0]?.block.counts[0]).toBe(18);
    expect(answer.parts[0]?.ids).toBeUndefined();
  });

  test("(S3) only the partitions asked for are searched", async () => {
    const table = candidates(32, undefined);
    const client = await loaded(table);

    const answer = await client.topK({
      target: { ...NAME, table: 0, partitions: Uint16Array.of(2, 3) },
      asks: [ask({ k: 32 })],
      vectors: Float32Array.of(1, 2, 3),
    });

    expect([...answer.parts[0]!.block.rows].toSorted((a, b) => a - b)).toEqual([4, 5, 6, 7]);
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

describe("lookup", () => {
  const words = Array.from({ length: 50 }, (_, index) => `word ${index}`);
  const table: MemoryTable = {
    kind: "strings",
    rows: 51,
    dim: DIM,
    values: valuesOf(51),
    keys: StringColumn.fromText(words),
  };
  const rowValues = (row: number): number[] => [
    ...table.values.subarray(row * DIM, (row + 1) * DIM),
  ];

  test("rows come in the order of the keys, unknown keys as the OOV row", async () => {
    const client = await loaded(table);
    const keys = ["word 7", "nobody", "word 49", "word 7"];

    const answer = await client.lookup({
      ...NAME,
      table: 0,
      asks: [{ partitions: everyPartition(16), keys: packKeys(strings(keys)) }],
    });

    const [part] = answer.parts;
    expect(part).toEqual({
      vectors: Float32Array.from([8, 0, 50, 8].flatMap(rowValues)),
    });
  });

  test("a key outside the asked partitions fails its own ask alone", async () => {
    const client = await loaded(table);
    const home = partitionOfBytes(new TextEncoder().encode("word 3"), 16);

    const answer = await client.lookup({
      ...NAME,
      table: 0,
      asks: [
        { partitions: Uint16Array.of((home + 1) % 16), keys: packKeys(strings(["word 3"])) },
        { partitions: Uint16Array.of(home), keys: packKeys(strings(["word 3"])) },
      ],
    });

    expect(answer.parts[0]).toMatchObject({ problem: { code: "INVALID_ARGUMENT" } });
    expect(answer.parts[1]).toEqual({ vectors: Float32Array.from(rowValues(4)) });
  });

  test("row numbers are keys; one outside the table is INVALID_ARGUMENT, and so are strings", async () => {
    const byRow: MemoryTable = { kind: "row", rows: 40, dim: DIM, values: valuesOf(40) };
    const client = await loaded(byRow);
    const partitions = everyPartition(16);

    const answer = await client.lookup({
      ...NAME,
      table: 0,
      asks: [
        { partitions, keys: packKeys(integers([39, 0])) },
        { partitions, keys: packKeys(integers([40])) },
        { partitions, keys: packKeys(strings(["0"])) },
      ],
    });

    const values = [39, 0].flatMap((row) => [...byRow.values.subarray(row * DIM, (row + 1) * DIM)]);
    expect(answer.parts[0]).toEqual({ vectors: Float32Array.from(values) });
    expect(answer.parts[1]).toMatchObject({ problem: { code: "INVALID_ARGUMENT" } });
    expect(answer.parts[2]).toMatchObject({ problem: { code: "INVALID_ARGUMENT" } });
  });

  test("a small table travels whole with the program", async () => {
    const client = await loaded(table, candidates(20, undefined));

    const whole = decodeProgramPackage(await client.program(NAME, 51 * DIM * 4));
    const none = decodeProgramPackage(await client.program(NAME, 51 * DIM * 4 - 1));

    const inline = whole.inlineTables.get(0);
    expect(whole.inlineTables.size).toBe(1);
    expect(inline?.values).toEqual(table.values);
    const pairs = [...inline!.partition.keyRows].map((row, index) => [
      (inline!.partition.keys!.data as StringColumn).textAt(index),
      row,
    ]);
    expect(new Map(pairs as [string, number][])).toEqual(
      new Map(words.map((word, index) => [word, index + 1])),
    );
    expect(none.inlineTables.size).toBe(0);
  });
});

describe("loading", () => {
  test("a scan that arrives during a load is answered before the load ends", async () => {
    const model = new MemoryModel([candidates(4000, undefined)]);
    const client = computeInProcess({ openModel: () => model });
    clients.push(client);
    await client.open(NAME, "memory");
    await client.load({ ...NAME, table: 0, partition: 0 });
    const order: string[] = [];

    const load = client.load({ ...NAME, table: 0, partition: 1 }).then(() => order.push("load"));
    const scan = client
      .topK({
        target: { ...NAME, table: 0, partitions: Uint16Array.of(0) },
        asks: [ask()],
        vectors: Float32Array.of(1, 2, 3),
      })
      .then(() => order.push("scan"));
    await Promise.all([load, scan]);

    expect(order).toEqual(["scan", "load"]);
  });

  test("the progress counter moves with every chunk, and memory returns on release and close", async () => {
    const model = new MemoryModel([candidates(64, undefined)]);
    const client = computeInProcess({ openModel: () => model });
    clients.push(client);
    await client.open(NAME, "memory");
    const before = client.progress;

    const replica = await client.load({ ...NAME, table: 0, partition: 0 });
    await client.load({ ...NAME, table: 0, partition: 1 });

    expect(client.progress).toBeGreaterThanOrEqual(before + 2);
    expect(replica.bytesRead).toBe(4 * DIM * 4);
    expect(client.memory.usedBytes).toBe(2 * replica.bytes);
    await client.release({ ...NAME, table: 0, partition: 0 });
    expect(client.memory.usedBytes).toBe(replica.bytes);
    await client.close(NAME);
    expect(client.memory.usedBytes).toBe(0);
    expect(model.isClosed).toBe(true);
  });

  test("what a model's reader throws comes back with its code", async () => {
    const client = computeInProcess({
      openModel: () => {
        throw new WinnowError("DATA_LOSS", "variables.index is cut short");
      },
    });
    clients.push(client);

    await expect(client.open(NAME, "memory")).rejects.toMatchObject({
      code: "DATA_LOSS",
      message: "variables.index is cut short",
    });
  });

  test("when the thread dies, what waits for it fails with UNAVAILABLE, and so does what follows", async () => {
    const client = await loaded(candidates(20, undefined));
    const failures: Error[] = [];
    client.onFailure((error) => failures.push(error));
    const waiting = client.load({ ...NAME, table: 0, partition: 0 });

    client.fail(new Error("exit code 9"));

    await expect(waiting).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await expect(client.close(NAME)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(failures).toHaveLength(1);
  });
});
