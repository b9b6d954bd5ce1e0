// Small tables that the event loop searches itself, beside the same tables behind the channel to the compute
// side: both on the compiled scan.

import { openInlineSearch } from "@winnow/accelerator";
import { systemClock } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";

import {
  DIM,
  NAME,
  candidates,
  everyPartition,
  hasCompiledScan,
  inlineSide,
  integers,
  scanAccelerator,
  searchBatch,
  strings,
} from "../fixtures/loaded-tables.ts";
import { packKeys } from "../packed-keys.ts";
import { ProgressCounter } from "../progress-counter.ts";
import { InlineTables } from "./inline-tables.ts";

const ROWS = 200;
const PARTITIONS = 16;
const hasScan = await hasCompiledScan();

/** A compute side with one table in sixteen partitions; counts the scans that it was asked for. */
async function computeSide(ids: Tensor | undefined, valuesMax: number) {
  let crossed = 0;
  const accelerator = new Proxy(await scanAccelerator(), {
    get(target, name) {
      if (name === "topK") crossed += 1;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  const { client } = await inlineSide([candidates(ROWS, ids)], { accelerator, valuesMax });
  return { client, partitions: everyPartition(PARTITIONS), crossed: () => crossed };
}

describe.skipIf(!hasScan)("searches of the event loop", () => {
  const named = strings(Array.from({ length: ROWS }, (_, row) => `item ${row}`));
  const numbered = integers(Array.from({ length: ROWS }, (_, row) => row * 10));

  test.each([
    ["string ids", named],
    ["int64 ids", numbered],
    ["no ids", undefined],
  ])("give what the compute side gives, bit for bit: %s", async (_, ids) => {
    const inline = await computeSide(ids, 2 ** 20);
    const thread = await computeSide(ids, 0);
    const asks = [{ queries: 3, k: 7 }, { k: 2 }, { k: 7, rowsOnly: true }, { k: ROWS + 50 }];

    const here = await inline.client.topK(searchBatch(inline.partitions, asks));
    const there = await thread.client.topK(searchBatch(thread.partitions, asks));

    expect(here.answers).toEqual(there.answers);
    expect([inline.crossed(), thread.crossed()]).toEqual([0, 1]);
  });

  test("leave to the compute side what asks for more than ids, and what is large", async () => {
    const { client, partitions, crossed } = await computeSide(named, ROWS * DIM * 4);

    await client.topK(searchBatch(partitions, [{ queries: 4 }]));
    expect(crossed()).toBe(0);
    await client.topK(searchBatch(partitions, [{ queries: 5 }]));
    expect(crossed()).toBe(1);
    await client.topK(searchBatch(partitions, [{ excluded: [packKeys(strings(["item 3"]))] }]));
    expect(crossed()).toBe(2);
  });

  test("leave a release what it was: a partition that is given up is searched nowhere", async () => {
    const { client, partitions } = await computeSide(named, 2 ** 20);
    const usedBytes = client.memory.usedBytes;

    await client.release({ ...NAME, table: 0, partition: 2 });

    const gone = client.topK(searchBatch(partitions, [{}]));
    await expect(gone).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    const left = await client.topK(searchBatch(partitions.slice(0, 2), [{}]));
    expect(left.answers[0]!.block.counts[0]).toBe(5);
    expect(client.memory.usedBytes).toBeLessThan(usedBytes);
    await client.close(NAME.handle);
    await expect(client.topK(searchBatch(partitions, [{}]))).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
    expect(client.memory.usedBytes).toBe(0);
  });

  test("forget a partition whose load ended after its release was asked for", async () => {
    const { client, partitions } = await computeSide(named, 2 ** 20);
    await client.release({ ...NAME, table: 0, partition: 1 });

    const load = client.load({ ...NAME, table: 0, partition: 1 });
    const release = client.release({ ...NAME, table: 0, partition: 1 });
    await Promise.all([load, release]);
    // In whichever order the compute side did the two, it alone says what is held.
    const answer = await client
      .topK(searchBatch(partitions, [{}]))
      .catch((error: unknown) => error);
    const held = await client
      .topK(searchBatch(partitions, [{ excluded: [packKeys(strings(["item 0"]))] }]))
      .catch((error: unknown) => error);

    expect("answers" in (answer as object)).toBe("answers" in (held as object));
  });

  test("end when the compute thread does: nothing is answered from its memory any more", async () => {
    const { client, partitions } = await computeSide(named, 2 ** 20);

    client.fail(new Error("exit code 9"));

    const asked = client.topK(searchBatch(partitions, [{}]));
    await expect(asked).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  /** One partition of a table that is shared; the scans' turns end when the test says so. */
  async function shared(values: Float32Array, dim: number, valuesMax: number) {
    const accelerator = await scanAccelerator();
    const rows = values.length / dim;
    const resident = await accelerator.load({ rows, dim, firstRow: 0, use: "search" }, [values]);
    const turns: (() => void)[] = [];
    const progress = new ProgressCounter();
    const tables = new InlineTables({
      valuesMax,
      openSearch: openInlineSearch,
      progress,
      clock: systemClock,
      turn: () => new Promise((resolve) => turns.push(resolve)),
    });
    const share = accelerator.share!(resident);
    tables.add(
      { ...NAME, table: 0, partition: 0 },
      { share, rows, dim, firstRow: 0, ids: undefined },
    );
    const ask = (vectors: Float32Array): boolean => {
      const asks = [{ queries: 1, k: 5, excluded: [], rowsOnly: false }];
      const target = { ...NAME, table: 0, partitions: Uint16Array.of(0) };
      return tables.answer({ target, asks, vectors }) !== undefined;
    };
    const endTurn = async (): Promise<void> => {
      turns.splice(0).forEach((turn) => turn());
      await Promise.resolve();
    };
    return { accelerator, tables, progress, share, ask, endTurn };
  }

  test("take a bounded part of one turn of the event loop", async () => {
    const values = Float32Array.from({ length: 10 * DIM }, (_, at) => at);
    const { accelerator, tables, progress, share, ask, endTurn } = await shared(
      values,
      DIM,
      10 * DIM,
    );
    const query = new Float32Array(DIM).fill(1);

    const first = Array.from({ length: 6 }, () => ask(query));
    await endTurn();
    const afterTurn = ask(query);

    expect(first).toEqual([true, true, true, true, false, false]);
    expect([afterTurn, progress.value]).toEqual([true, 5]);
    tables.clear();
    await accelerator.close();
    expect(openInlineSearch()?.open(share)).toBeUndefined();
  });

  test("leave a table whose rows are all alike to the thread, after the first one, for longer each time", async () => {
    const dim = 32;
    const { accelerator, ask, endTurn } = await shared(
      new Float32Array(20_000 * dim).fill(0.5),
      dim,
      2 ** 22,
    );
    const query = new Float32Array(dim).fill(1);
    const answered: number[] = [];

    for (let batch = 0; batch < 300; batch += 1) {
      if (ask(query)) answered.push(batch);
      await endTurn();
    }

    expect(answered).toEqual([0, 65, 194]);
    await accelerator.close();
  });
});
