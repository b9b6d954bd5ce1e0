// Tables that the event loop searches itself, beside the same tables behind the channel to the compute
// side: both on the compiled scan.

import { openInlineSearch } from "@winnow/accelerator";
import type { InlineSearch } from "@winnow/accelerator";
import { VECTOR_ATTRIBUTE, nextLoopTurn } from "@winnow/core";
import type { Tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";

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
import type { TopKBatch } from "../compute.ts";
import type { MemoryTable } from "../doubles/memory-model.ts";
import { packKeys } from "../packed-keys.ts";
import { ProgressCounter } from "../progress-counter.ts";
import { InlineTables } from "./inline-tables.ts";
import { SMALL_VALUES_MAX } from "./shared-rows.ts";

const ROWS = 200;
const PARTITIONS = 16;
const hasScan = await hasCompiledScan();

/** A compute side with one table in sixteen partitions, or one of them; counts the scans that it was asked for. */
async function computeSide(
  ids: Tensor | undefined,
  valuesMax: number,
  { table = candidates(ROWS, ids), partitions = PARTITIONS } = {},
) {
  let crossed = 0;
  const accelerator = new Proxy(await scanAccelerator(), {
    get(target, name) {
      if (name === "topK") crossed += 1;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  const limits = { accelerator, valuesMax, partitionsMax: partitions };
  const { client } = await inlineSide([table], limits);
  return { client, partitions: everyPartition(partitions), crossed: () => crossed };
}

/** Varied values, many of them equal. */
function variedValues(count: number): Float32Array {
  const values = new Float32Array(count);
  // A call for each of millions of values would take seconds.
  for (let at = 0; at < count; at += 1) values[at] = ((at * 7919) % 1013) - 506;
  return values;
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
    const vectors = { attributes: [VECTOR_ATTRIBUTE], vectorBytes: true } as const;
    const asks = [
      { queries: 3, k: 7 },
      { queries: 2, k: 4, ...vectors },
      { k: 2 },
      { k: 7, rowsOnly: true, ...vectors, ownVectors: true } as const,
      { k: ROWS + 50 },
    ];

    const here = await inline.client.topK(searchBatch(inline.partitions, asks));
    const there = await thread.client.topK(searchBatch(thread.partitions, asks));

    expect(here.answers).toEqual(there.answers);
    expect([inline.crossed(), thread.crossed()]).toEqual([0, 1]);
  });

  test("give what the compute side gives where a partition is large, once requests come alone", async () => {
    const dim = 128;
    // Each partition has a few rows more than a small one; one of them is loaded.
    const rows = PARTITIONS * (SMALL_VALUES_MAX / dim + 5);
    const values = variedValues(rows * dim);
    const ids = integers(Array.from({ length: rows }, (_, row) => row + 3));
    const table: MemoryTable = { kind: "candidate", rows, dim, values, ids };
    const inline = await computeSide(ids, rows * dim, { table, partitions: 1 });
    const thread = await computeSide(ids, 0, { table, partitions: 1 });
    const ask = (side: typeof inline) =>
      side.client.topK(searchBatch(side.partitions, [{ k: 100 }], dim));
    const passedOn: number[] = [];

    const there = await ask(thread);
    const here = await ask(inline);
    for (let request = 0; request < 70; request += 1) {
      await nextLoopTurn();
      await nextLoopTurn();
      await nextLoopTurn();
      const before = inline.crossed();
      const again = await ask(inline);
      expect(again.answers).toEqual(here.answers);
      if (inline.crossed() > before) passedOn.push(request);
    }

    expect(here.answers).toEqual(there.answers);
    // A machine that scans slowly passes on some more, or all.
    expect(passedOn.slice(0, 31)).toEqual(Array.from({ length: 31 }, (_, request) => request));
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

  test("leave to the compute side vectors that take long to copy", async () => {
    const [rows, dim] = [600, 256];
    const values = variedValues(rows * dim);
    const table: MemoryTable = { kind: "candidate", rows, dim, values, ids: undefined };
    const vectors = { attributes: [VECTOR_ATTRIBUTE], vectorBytes: true } as const;
    const askedOf = async (valuesMax: number, asks: Parameters<typeof searchBatch>[1]) => {
      const { client, partitions, crossed } = await computeSide(undefined, valuesMax, { table });
      await client.topK(searchBatch(partitions, asks, dim));
      return crossed();
    };

    // 2^17 values of vectors are copied at most, and each counts as 128 that are scanned.
    expect(await askedOf(2 ** 25, [{ k: 512, ...vectors }])).toBe(0);
    expect(await askedOf(2 ** 25, [{ k: 513, ...vectors }])).toBe(1);
    expect(await askedOf(2 ** 25, [{ k: 513 }])).toBe(0);
    expect(await askedOf(2 ** 24, [{ k: 512, ...vectors }])).toBe(1);
    expect(await askedOf(2 ** 24, [{ k: 500, ...vectors }])).toBe(0);
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
  async function shared(
    values: Float32Array,
    dim: number,
    { valuesMax, threads }: { readonly valuesMax: number; readonly threads?: number },
  ) {
    const accelerator = await scanAccelerator();
    const rows = values.length / dim;
    const resident = await accelerator.load({ rows, dim, firstRow: 0, use: "search" }, [values]);
    const turns: (() => void)[] = [];
    const progress = new ProgressCounter();
    let searched = 0;
    const openSearch = (): InlineSearch => {
      const search = openInlineSearch(threads)!;
      const topK = search.topK.bind(search);
      search.topK = (...asked) => {
        searched += 1;
        return topK(...asked);
      };
      return search;
    };
    const tables = new InlineTables({
      valuesMax,
      openSearch,
      progress,
      // A scan that waits for a processor would seem to be slow.
      clock: new ManualClock(),
      turn: () => new Promise((resolve) => turns.push(resolve)),
    });
    const share = accelerator.share!(resident);
    tables.add(
      { ...NAME, table: 0, partition: 0 },
      { share, rows, dim, vectorDim: dim, firstRow: 0, ids: undefined },
    );
    const batchOf = (vectors: Float32Array, k = 5): TopKBatch => {
      const asks = [{ queries: vectors.length / dim, k, excluded: [], rowsOnly: false }];
      return { target: { ...NAME, table: 0, partitions: Uint16Array.of(0) }, asks, vectors };
    };
    const ask = (vectors: Float32Array, k?: number): boolean =>
      tables.answer(batchOf(vectors, k)) !== undefined;
    const endTurn = async (): Promise<void> => {
      turns.splice(0).forEach((turn) => turn());
      await Promise.resolve();
    };
    /** As many requests as the event loop wants to see come alone, each of which takes the compute thread so long. */
    const comeAlone = async (ms: number, requests = 32): Promise<void> => {
      const query = new Float32Array(dim).fill(1);
      for (let request = 0; request < requests; request += 1) {
        const end = tables.overlap.begin(1);
        tables.paceOf(batchOf(query))?.(ms);
        end();
        await endTurn();
        await endTurn();
      }
    };
    const count = (): number => searched;
    return { accelerator, tables, progress, share, ask, endTurn, comeAlone, searched: count };
  }

  test("take a bounded part of one turn of the event loop", async () => {
    const values = Float32Array.from({ length: 10 * DIM }, (_, at) => at);
    const { accelerator, tables, progress, share, ask, endTurn } = await shared(values, DIM, {
      valuesMax: 10 * DIM,
    });
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

  test("give up a search of rows that are all alike, and try again after more each time", async () => {
    const dim = 32;
    const { accelerator, ask, endTurn, searched } = await shared(
      new Float32Array(20_000 * dim).fill(0.5),
      dim,
      { valuesMax: 2 ** 22 },
    );
    const query = new Float32Array(dim).fill(1);
    const tried: number[] = [];

    for (let batch = 0; batch < 300; batch += 1) {
      const before = searched();
      expect(ask(query)).toBe(false);
      if (searched() > before) tried.push(batch);
      await endTurn();
    }

    expect(tried).toEqual([0, 65, 194]);
    await accelerator.close();
  });

  test("leave a vector of zeros to the compute thread, and no other query for it", async () => {
    const dim = 32;
    const values = variedValues(20_000 * dim);
    const { accelerator, ask, endTurn, searched } = await shared(values, dim, {
      valuesMax: 2 ** 22,
    });
    const known = Float32Array.from({ length: dim }, (_, at) => at % 5);
    const both = new Float32Array(2 * dim);
    both.set(known);

    const answered = [ask(known), ask(new Float32Array(dim)), ask(both), ask(known)];
    await endTurn();

    expect(answered).toEqual([true, false, false, true]);
    expect(searched()).toBe(2);
    await accelerator.close();
  });

  describe("of a large partition", () => {
    const dim = 32;
    const rows = SMALL_VALUES_MAX / dim + 1;
    const values = variedValues(rows * dim);
    const query = Float32Array.from({ length: dim }, (_, at) => at % 5);
    const limits = { valuesMax: (rows * dim) / 2, threads: 2 };

    test.each([
      { threads: 2, isTaken: true },
      { threads: 1, isTaken: false },
    ])("take as much for each of $threads threads", async ({ threads, isTaken }) => {
      const { accelerator, ask, comeAlone } = await shared(values, dim, { ...limits, threads });
      await comeAlone(1);

      expect(ask(query)).toBe(isTaken);
      await accelerator.close();
    });

    test("wait until requests have come one at a time, and again after two that overlap", async () => {
      const { accelerator, tables, ask, endTurn, comeAlone } = await shared(values, dim, limits);
      const answered: boolean[] = [];
      const tryOne = async (): Promise<void> => {
        answered.push(ask(query));
        await endTurn();
        await endTurn();
      };

      await comeAlone(1, 31);
      await tryOne();
      await comeAlone(1, 1);
      await tryOne();
      // One that arrives before the event loop has read what came during the scan.
      answered.push(ask(query), ask(query));
      tables.overlap.begin(1)();
      await endTurn();
      await endTurn();
      await tryOne();
      await comeAlone(1);
      await tryOne();

      expect(answered).toEqual([false, true, true, false, false, true]);
      await accelerator.close();
    });

    test.each([
      ["a short one", { ms: 3.9, k: 5, isTaken: true }],
      ["one that takes too long", { ms: 4.1, k: 5, isTaken: false }],
      ["one for too many candidates", { ms: 1, k: 1025, isTaken: false }],
    ])("are of a bounded length: %s", async (_, { ms, k, isTaken }) => {
      const { accelerator, ask, comeAlone } = await shared(values, dim, limits);
      await comeAlone(ms);

      expect(ask(query, k)).toBe(isTaken);
      await accelerator.close();
    });
  });
});
