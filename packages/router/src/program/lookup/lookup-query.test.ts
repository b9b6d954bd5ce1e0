// Lookups over workers: rows in the keys' order, whoever answered.

import { describe, expect, test } from "vitest";
import { isKnownKey } from "../../doubles/fake-cluster.ts";
import { QueryBench, rowKeys, twice } from "../../fixtures/query-bench.ts";

describe("a lookup", () => {
  test("puts rows in the order of the keys and asks each distinct key once", async () => {
    const bench = new QueryBench({ held: twice });
    const keys = [5, 39, 0, 5, 17, 5];

    const rows = await bench.settle(bench.lookup(rowKeys(keys, [2, 3])));

    expect(rows.shape).toEqual([2, 3, 3]);
    expect(rows.data).toEqual(bench.rowsOf(keys));
    const asked = bench.workers.flatMap((worker) => worker.asked);
    const count = asked.reduce(
      (sum, { ask }) => sum + (ask.kind === "lookup" ? ask.keys.data.length : 0),
      0,
    );
    expect(count).toBe(4);
  });

  test("cuts many keys into slices of bounded length, same rows", async () => {
    const bench = new QueryBench({ held: twice, settings: { sliceKeysMax: 7 } });
    const all = Array.from({ length: 40 }, (_, key) => key);

    const rows = await bench.settle(bench.lookup(rowKeys(all)));

    expect(rows.data).toEqual(bench.data.keyedRows);
    const sizes = bench.workers.flatMap((worker) =>
      worker.asked.map(({ ask }) => (ask.kind === "lookup" ? ask.keys.data.length : 0)),
    );
    expect(Math.max(...sizes)).toBeLessThanOrEqual(7);
  });

  test("survives a worker that dies while it is asked (L1)", async () => {
    const bench = new QueryBench({ held: twice });
    const all = Array.from({ length: 40 }, (_, key) => key);
    for (const worker of bench.workers) worker.delayMs = 20;

    const rows = bench.lookup(rowKeys(all));
    await bench.clock.advanceSettled(5);
    bench.kill(bench.workers[2]!);

    expect((await bench.settle(rows)).data).toEqual(bench.data.keyedRows);
  });

  test("refuses a row outside the table in TensorFlow's words", async () => {
    const bench = new QueryBench({ held: twice });

    const rows = bench.lookup(rowKeys([1, 2, 3, 40], [2, 2]));

    await expect(rows).rejects.toThrow("indices[1,1] = 40 is not in [0, 40)");
    await expect(rows).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("passes on what a worker says of an invalid key, without asking another", async () => {
    const bench = new QueryBench({ held: twice });
    for (const worker of bench.workers) worker.behave = () => "INVALID_KEY";

    const rows = bench.lookup(rowKeys([1]));

    await expect(bench.settle(rows)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(bench.workers.flatMap((worker) => worker.asked)).toHaveLength(1);
  });

  test("of keys so long that they hold others up passes the limiter", async () => {
    const settings = {
      sliceKeysMax: 10,
      sliceBytesMax: 80,
      sliceQueriesMax: 64,
      searchRowsMax: 100,
    };
    const bench = new QueryBench({ held: twice, settings });
    const all = Array.from({ length: 40 }, (_, key) => key);

    const rows = bench.lookup(rowKeys(all));
    const { limiter } = bench.parts;
    const [underWay, waiting] = [limiter.rows, limiter.waiting];

    expect((await bench.settle(rows)).data).toEqual(bench.data.keyedRows);
    expect([underWay > 0, waiting > 0, limiter.rows, limiter.waiting]).toEqual([true, true, 0, 0]);
  });

  test("answers no keys without asking anybody", async () => {
    const bench = new QueryBench({ held: twice });

    const rows = await bench.lookup(rowKeys([], [0]));

    expect(rows.shape).toEqual([0, 3]);
    expect(bench.workers.flatMap((worker) => worker.asked)).toEqual([]);
  });
});

describe("whether keys are known", () => {
  test("is told in the keys' order, each distinct key asked for once, whoever dies meanwhile", async () => {
    const bench = new QueryBench({ held: twice, settings: { sliceKeysMax: 7 } });
    const keys = [5, 39, 0, 5, 17, 38, ...Array.from({ length: 30 }, (_, key) => key)];
    for (const worker of bench.workers) worker.delayMs = 20;

    const known = bench.known(rowKeys(keys));
    await bench.clock.advanceSettled(5);
    bench.kill(bench.workers[2]!);

    expect(await bench.settle(known)).toEqual(
      Uint8Array.from(keys, (key) => isKnownKey(BigInt(key))),
    );
  });

  test("is not told where a worker of an older release answers rows, or refuses the key", async () => {
    for (const behaviour of ["older", "INVALID_KEY"] as const) {
      const bench = new QueryBench({ held: twice });
      for (const worker of bench.workers) worker.behave = () => behaviour;

      expect(await bench.settle(bench.known(rowKeys([1, 2, 3])))).toBeUndefined();
    }
  });

  test("is asked of another where a worker answers something else", async () => {
    const bench = new QueryBench({ held: twice });
    bench.workers[0]!.behave = () => "wrong";

    const known = await bench.settle(bench.known(rowKeys([0, 1, 2, 3, 4, 5])));

    expect(known).toEqual(Uint8Array.of(1, 0, 1, 0, 1, 0));
  });
});
