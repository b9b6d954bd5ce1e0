// Searches of whole partitions under a filter that the event loop runs itself: beside the accelerator's own searches
// with the same filters, and once a filter has been given up.

import { createAccelerator, openInlineSearch } from "@winnow/accelerator";
import type { Accelerator, Resident, RowFilter } from "@winnow/accelerator";
import { filterText, nextLoopTurn } from "@winnow/core";
import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";

import type { ScanAsk, TopKBatch } from "../compute.ts";
import type { MemoryTable } from "../doubles/memory-model.ts";
import {
  NAME,
  everyPartition,
  hasCompiledScan,
  inlineSide,
  integers,
  searchBatch,
} from "../fixtures/loaded-tables.ts";
import { ProgressCounter } from "../progress-counter.ts";
import { InlineTables } from "./inline-tables.ts";
import { SMALL_VALUES_MAX } from "./shared-rows.ts";

const DIM = 8;
const ROWS = [200, 64, 131] as const;
const TEXT = "a filter";
const hasScan = await hasCompiledScan();

const accelerators: Accelerator[] = [];
afterEach(async () => {
  await Promise.all(accelerators.splice(0).map((accelerator) => accelerator.close()));
});

/** Small integers, many of them equal, so that ties are many and sums exact. */
const valuesOf = (count: number): Float32Array =>
  Float32Array.from({ length: count }, (_, at) => ((at * 7919) % 13) - 6);

/** Three partitions that the event loop may search, and the filters that they are told of. */
async function threePartitions() {
  const { accelerator } = await createAccelerator("cpu", { capacityBytes: 2 ** 26 });
  accelerators.push(accelerator);
  const tables = new InlineTables({
    valuesMax: 2 ** 22,
    openSearch: () => openInlineSearch(1),
    progress: new ProgressCounter(),
    clock: new ManualClock(),
    turn: () => Promise.resolve(),
  });
  const residents: Resident[] = [];
  for (const [partition, rows] of ROWS.entries()) {
    const firstRow = ROWS.slice(0, partition).reduce((sum, each) => sum + each, 0);
    const shape = { rows, dim: DIM, firstRow, use: "search" } as const;
    const resident = await accelerator.load(shape, [valuesOf(rows * DIM)]);
    residents.push(resident);
    const share = accelerator.share!(resident);
    const shared = { share, rows, dim: DIM, vectorDim: DIM, firstRow, ids: undefined };
    tables.add({ ...NAME, table: 0, partition }, shared);
  }
  /** Makes a filter of rows by their numbers in the partition, and tells the event loop of it. */
  const mask = (partition: number, admits: (row: number) => boolean) => {
    const resident = residents[partition]!;
    const bits = new Uint8Array(Math.ceil(resident.rows / 8));
    for (let row = 0; row < resident.rows; row += 1) {
      if (admits(row)) bits[row >> 3]! |= 1 << (row & 7);
    }
    const filter = accelerator.filter(resident, bits);
    const uses = new Uint32Array(new SharedArrayBuffer(4));
    const name = { ...NAME, table: 0, partition };
    const share = accelerator.shareFilter!(filter);
    const admitsAll = filter.admitted === resident.rows;
    tables.addMask({ name, text: TEXT, share, admitsAll, uses });
    return { filter, uses, name };
  };
  /** Tells the event loop that a filter admits no row of a partition, as the compute thread does. */
  const admitNone = (partition: number): void => {
    const { rows, firstRow } = residents[partition]!;
    const name = { ...NAME, table: 0, partition };
    const shape = { dim: DIM, vectorDim: DIM, firstRow, partitionRows: rows };
    const uses = new Uint32Array(new SharedArrayBuffer(4));
    const none = { share: undefined, localRows: new Uint32Array(), ids: undefined };
    tables.addCopy({ name, text: TEXT, ...none, ...shape, uses });
  };
  return { accelerator, tables, residents, mask, admitNone };
}

function batchOf(vectors: Float32Array, asks: readonly Partial<ScanAsk>[]): TopKBatch {
  const whole = asks.map((ask) => ({ queries: 1, k: 5, excluded: [], rowsOnly: true, ...ask }));
  return { target: { ...NAME, table: 0, partitions: everyPartition(3) }, asks: whole, vectors };
}

const FILTERS = { filters: [TEXT] };
const one = (): Float32Array => new Float32Array(DIM).fill(1);

describe.skipIf(!hasScan)("searches of the event loop with filters", () => {
  test("give what the accelerator gives with the same filters, bit for bit", async () => {
    const anyRows = fc.constantFrom(
      "all",
      "none",
      "third",
      "most",
      "one",
    ) satisfies fc.Arbitrary<string>;
    const admits = {
      all: () => true,
      none: () => false,
      third: (row: number) => row % 3 === 0,
      most: (row: number) => row % 7 !== 2,
      one: (row: number) => row === 63,
    };
    const { accelerator, tables, residents, mask, admitNone } = await threePartitions();
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(anyRows, anyRows, anyRows),
        fc.constantFrom(1, 4, 70, 1000),
        fc.array(fc.integer({ min: -3, max: 3 }), { minLength: DIM, maxLength: DIM }),
        async (kinds, k, query) => {
          const filters = kinds.map((kind, partition) => mask(partition, admits[kind]).filter);
          for (const [partition, kind] of kinds.entries()) {
            if (kind === "none") admitNone(partition);
          }
          const vectors = Float32Array.from([...query, ...query.toReversed()]);
          const asked = { residents, vectors, k: Math.min(k, 395), filters: [filters, filters] };
          const there = await accelerator.topK(asked);
          const ask = { ...FILTERS, queries: 2, k };
          const here = tables.answer(batchOf(vectors.slice(), [ask]))!.answers[0]!;

          expect([...here.block.counts]).toEqual([...there.counts]);
          for (const at of [0, 1]) {
            const count = there.counts[at]!;
            const part = (values: Uint32Array | Float32Array, width: number) =>
              values.slice(at * width, at * width + count);
            expect(part(here.block.scores, here.block.k)).toEqual(part(there.scores, there.k));
            expect(part(here.block.rows, here.block.k)).toEqual(part(there.rows, there.k));
          }
          for (const filter of filters) accelerator.releaseFilter(filter);
        },
      ),
      { numRuns: 200 },
    );
  });

  test("tell the cache of filters of their use", async () => {
    const { tables, mask } = await threePartitions();
    const masks = [0, 1, 2].map((partition) => mask(partition, (row) => row % 2 === 0));

    tables.answer(batchOf(one(), [{}]));
    const before = masks.map(({ uses }) => uses[0]);
    tables.answer(batchOf(one(), [FILTERS]));

    expect(before).toEqual([0, 0, 0]);
    expect(masks.map(({ uses }) => uses[0])).toEqual([1, 1, 1]);
  });

  test("are the compute thread's where a filter is unknown, dropped, released, or copied for a part", async () => {
    const { accelerator, tables, mask, admitNone } = await threePartitions();
    const isHere = (): boolean => tables.answer(batchOf(one(), [FILTERS])) !== undefined;
    const even = (row: number): boolean => row % 2 === 0;
    const found = [isHere()];
    mask(0, even);
    mask(1, even);
    found.push(isHere());
    const last = mask(2, even);
    found.push(isHere());
    tables.dropAdmitted({ name: last.name, text: TEXT });
    found.push(isHere());
    const again: RowFilter = mask(2, even).filter;
    found.push(isHere());
    accelerator.releaseFilter(again);
    await nextLoopTurn();
    found.push(isHere());
    admitNone(2);
    found.push(isHere());

    expect(found).toEqual([false, false, true, false, true, false, true]);
  });

  test("hold no filter for longer than a search", async () => {
    const { accelerator, tables, mask } = await threePartitions();
    const masks = [0, 1, 2].map((partition) => mask(partition, (row) => row > 20));
    tables.answer(batchOf(one(), [FILTERS]));
    const shares = masks.map(({ filter }) => accelerator.shareFilter!(filter));
    for (const { filter } of masks) accelerator.releaseFilter(filter);
    await nextLoopTurn();

    const search = openInlineSearch(1)!;
    expect(shares.map((share) => search.openFilter(share))).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test("are those of a filter that admits many rows of a large partition, once requests come alone", async () => {
    const dim = 128;
    const rows = 16 * (SMALL_VALUES_MAX / dim + 5);
    const values = new Float32Array(rows * dim);
    for (let at = 0; at < values.length; at += 1) values[at] = ((at * 7919) % 1013) - 506;
    const ids = integers(Array.from({ length: rows }, (_, row) => row + 3));
    const groupOf = (row: number): number => row % 10;
    const shape = { kind: "candidate", rows, dim, values, ids, added: 1, groupOf } as const;
    const table: MemoryTable = shape;
    const clock = new ManualClock();
    const { client, isAtOnce } = await inlineSide([table], {
      valuesMax: rows * dim,
      partitionsMax: 1,
      filterBytesMax: 2 ** 24,
      clock,
    });
    const least = (value: number): string =>
      filterText({ kind: "test", attribute: "group", is: "gte", values: [value] });
    const ask = (asked: Partial<ScanAsk>) =>
      client.topK(searchBatch(Uint16Array.of(0), [{ k: 40, ...asked }], dim));
    /** Whether each of these many requests, one after the other, was answered at once. */
    const alone = async (asked: Partial<ScanAsk>, requests: number): Promise<boolean[]> => {
      const found: boolean[] = [];
      for (let request = 0; request < requests; request += 1) {
        for (let turn = 0; turn < 3; turn += 1) await nextLoopTurn();
        found.push(await isAtOnce(() => ask(asked)));
      }
      return found;
    };

    const most = { filters: [least(3)] };
    const first = await ask(most);
    const found = await alone(most, 30);
    // The compute thread copies the rows in the meantime.
    const waits = { timeout: 60_000, interval: 1 };
    const untilAtOnce = (asked: Partial<ScanAsk>) =>
      vi.waitFor(async () => expect(await alone(asked, 1)).toEqual([true]), waits);
    await untilAtOnce(most);
    const later = await ask(most);
    const all = { filters: [least(0)] };
    await untilAtOnce(all);

    expect(found).not.toContain(true);
    expect(later.answers).toEqual(first.answers);
    expect((await ask(all)).answers).toEqual((await ask({})).answers);
  });
});
