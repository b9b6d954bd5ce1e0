// Searches under filters that the event loop runs itself, over copies of the admitted rows: beside the same
// searches behind the channel to the compute side, and when copies and partitions are given up.

import { createReferenceAccelerator, openInlineSearch } from "@winnow/accelerator";
import type { Accelerator } from "@winnow/accelerator";
import {
  StringColumn,
  VECTOR_ATTRIBUTE,
  filterText,
  nextLoopTurn,
  systemClock,
} from "@winnow/core";
import type { Filter, Tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";

import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import type { ScanAnswer, ScanAsk } from "../compute.ts";
import {
  DIM,
  NAME,
  candidates,
  everyPartition,
  hasCompiledScan,
  inlineSide,
  integers,
  searchBatch,
  strings,
} from "../fixtures/loaded-tables.ts";
import { packKeys, unpackKeys } from "../packed-keys.ts";
import { ProgressCounter } from "../progress-counter.ts";
import { InlineTables } from "./inline-tables.ts";

const ROWS = 300;
const GROUPS = 10;
const PARTITIONS = 16;
const hasScan = await hasCompiledScan();

const named = strings(Array.from({ length: ROWS }, (_, row) => `item ${row}`));
const numbered = integers(Array.from({ length: ROWS }, (_, row) => row * 10));

interface SideOptions {
  readonly ids?: Tensor | undefined;
  readonly valuesMax?: number;
  readonly filterBytesMax?: number;
  readonly accelerator?: Accelerator;
}

/** A compute side with one table in sixteen partitions. */
async function computeSide(options: SideOptions = {}) {
  const { ids = "ids" in options ? undefined : named, ...sideOptions } = options;
  // Group 9 has rows in the first half of the table alone.
  const groupOf = (row: number): number =>
    row % GROUPS === 9 && row * 2 >= ROWS ? 0 : row % GROUPS;
  const table = { ...candidates(ROWS, ids), kind: "candidate", ids, groupOf, added: 1 } as const;
  const { client, isAtOnce } = await inlineSide([table], sideOptions);
  const partitions = everyPartition(PARTITIONS);
  const answersAtOnce = (asks: readonly Partial<ScanAsk>[]): Promise<boolean> =>
    isAtOnce(() => client.topK(searchBatch(partitions, asks)));
  const warm = async (text: string): Promise<void> => {
    await vi.waitFor(async () => expect(await answersAtOnce([{ filters: [text] }])).toBe(true));
  };
  return { client, partitions, isAtOnce: answersAtOnce, warm };
}

const textOf = (...values: number[]): string =>
  filterText({ kind: "test", attribute: "group", is: "in", values } satisfies Filter);
const TEXTS = [textOf(3), textOf(9), textOf(0, 1, 2, 4, 5, 6, 7), textOf(77)];

const VECTORS = { attributes: [VECTOR_ATTRIBUTE], vectorBytes: true } as const;

const anyAsk = fc.record({
  queries: fc.integer({ min: 1, max: 3 }),
  k: fc.constantFrom(1, 7, 40, ROWS + 50),
  rowsOnly: fc.boolean(),
  filters: fc.constantFrom(undefined, ...TEXTS.map((text) => [text])),
  attributes: fc.constantFrom(undefined, VECTORS.attributes),
  vectorBytes: fc.constant(true as const),
  ownVectors: fc.constantFrom(undefined, true as const),
});

describe.skipIf(!hasScan)("searches of the event loop under filters", () => {
  test.each([
    ["string ids", named],
    ["int64 ids", numbered],
    ["no ids", undefined],
  ])("give what the compute side gives, bit for bit: %s", async (_, ids) => {
    const inline = await computeSide({ ids });
    const thread = await computeSide({ ids, valuesMax: 0 });
    for (const text of TEXTS) await inline.warm(text);

    await fc.assert(
      fc.asyncProperty(fc.array(anyAsk, { minLength: 1, maxLength: 4 }), async (asks) => {
        const search = inline.client.topK(searchBatch(inline.partitions, asks));
        expect(inline.client.pending).toBe(0);
        const there = await thread.client.topK(searchBatch(thread.partitions, asks));

        expect((await search).answers.map(readable)).toEqual(there.answers.map(readable));
      }),
      { numRuns: 60 },
    );
  });

  test("begin once a filter was used often, and leave lists of ids and attributes to the thread", async () => {
    const { isAtOnce, warm } = await computeSide();
    const filters = [TEXTS[0]!];

    const first = await isAtOnce([{ filters }]);
    await warm(TEXTS[0]!);

    const lists = () => [packKeys(strings(["item 3"]))];
    expect(first).toBe(false);
    expect(await isAtOnce([{ filters, excluded: lists() }])).toBe(false);
    expect(await isAtOnce([{ filters, included: lists() }])).toBe(false);
    expect(await isAtOnce([{ filters, attributes: ["group"] }])).toBe(false);
    expect(await isAtOnce([{ filters, attributes: [VECTOR_ATTRIBUTE] }])).toBe(false);
    expect(await isAtOnce([{ filters, ...VECTORS, attributes: ["group", VECTOR_ATTRIBUTE] }])).toBe(
      false,
    );
    expect(await isAtOnce([{ filters, ...VECTORS, excluded: lists() }])).toBe(false);
    expect(await isAtOnce([{ filters, ...VECTORS }])).toBe(true);
    expect(await isAtOnce([{ filters }, { filters: [textOf(8)] }])).toBe(false);
    expect(await isAtOnce([{ filters }, { filters: [TEXTS[0]!] }, {}])).toBe(true);
  });

  test("search no copy of a partition that is given up, nor of a content that is closed", async () => {
    const { client, partitions, warm, isAtOnce } = await computeSide();
    const filters = [TEXTS[0]!];
    await warm(TEXTS[0]!);

    const release = client.release({ ...NAME, table: 0, partition: 2 });
    const meanwhile = client.topK(searchBatch(partitions, [{ filters }]));
    await expect(meanwhile).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await release;
    const left = await client.topK(searchBatch(partitions.slice(0, 2), [{ filters }]));
    expect(left.answers[0]!.block.counts[0]).toBeGreaterThan(0);

    await client.load({ ...NAME, table: 0, partition: 2 });
    expect(await isAtOnce([{ filters }])).toBe(false);
    await warm(TEXTS[0]!);
    await client.close(NAME.handle);
    const closed = client.topK(searchBatch(partitions, [{ filters }]));
    await expect(closed).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(client.memory.usedBytes).toBe(0);
  });

  test("are asked of the compute side under an aborted signal and after its end", async () => {
    const { client, partitions, warm } = await computeSide();
    const filters = [TEXTS[0]!];
    await warm(TEXTS[0]!);

    const aborted = client.topK(searchBatch(partitions, [{ filters }]), AbortSignal.abort());
    const asked = client.pending;
    await aborted.catch(() => undefined);
    client.fail(new Error("exit code 9"));
    const ended = client.topK(searchBatch(partitions, [{ filters }]));

    expect(asked).toBe(1);
    await expect(ended).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("go to the compute side once the filter was dropped for others, with the same answer", async () => {
    const { client, partitions, warm, isAtOnce } = await computeSide({ filterBytesMax: 2 ** 17 });
    const filters = [TEXTS[0]!];
    await warm(TEXTS[0]!);
    const before = await client.topK(searchBatch(partitions, [{ filters }]));

    for (let turn = 0; turn < 8; turn += 1) {
      const others = Array.from({ length: 4 }, (_, at) => ({
        filters: [textOf(1, 100 + turn * 4 + at)],
      }));
      await client.topK(searchBatch(partitions, others));
    }

    const search = client.topK(searchBatch(partitions, [{ filters }]));
    expect(client.pending).toBe(1);
    expect((await search).answers).toEqual(before.answers);
    expect(await isAtOnce([{ filters }])).toBe(false);
  });

  test("keep the filter that they use: the cache drops others first", async () => {
    const { client, partitions, warm, isAtOnce } = await computeSide({ filterBytesMax: 2 ** 17 });
    const filters = [TEXTS[0]!];
    await warm(TEXTS[0]!);
    const found: boolean[] = [];

    for (let turn = 0; turn < 30; turn += 1) {
      await client.topK(searchBatch(partitions, [{ filters: [textOf(1, 100 + turn)] }]));
      found.push(await isAtOnce([{ filters }]));
    }

    expect(found).not.toContain(false);
  });

  test("never are where the device shares nothing", async () => {
    const accelerator = createReferenceAccelerator({ capacityBytes: 2 ** 28 });
    const { client, isAtOnce } = await computeSide({ accelerator });
    const found: boolean[] = [];

    for (let turn = 0; turn < 6; turn += 1) found.push(await isAtOnce([{ filters: [TEXTS[0]!] }]));

    expect(found).not.toContain(true);
    expect(client.pending).toBe(0);
  });

  test.each([
    ["string ids", (rows: number) => strings(Array.from({ length: rows }, (_, row) => `i${row}`))],
    ["no ids", () => undefined],
  ])("read large copies once requests come alone, with helper threads: %s", async (_, idsOf) => {
    const dim = 128;
    const third = 34_000;
    const rows = 3 * third;
    const values = new Float32Array(rows * dim);
    for (let at = 0; at < values.length; at += 1) values[at] = ((at * 7919) % 1013) - 506;
    const ids = idsOf(rows);
    // Of the partitions the first has a large copy of half of its rows, the second a small one, the third none.
    const groupOf = (row: number): number => {
      if (row < third) return row % 2;
      return row < 2 * third && row % 500 === 0 ? 1 : 0;
    };
    const shape = { kind: "candidate", rows, dim, partitions: 3 } as const;
    const table = { ...shape, values, ids, added: 1, groupOf };
    // Scans take no time, however busy the machine is.
    const clock = new ManualClock();
    const side = (valuesMax: number) =>
      inlineSide([table], { valuesMax, partitionsMax: 3, filterBytesMax: 2 ** 24, clock });
    const [inline, thread] = [await side(rows * dim), await side(0)];
    const asks = [
      { k: 40 },
      { k: 40, ...VECTORS },
      { k: 7, ...VECTORS, ownVectors: true as const, rowsOnly: true },
    ];
    const batch = (ask: object) =>
      searchBatch(everyPartition(3), [{ ...ask, filters: [textOf(1)] }], dim);
    const isAlone = async (): Promise<boolean> => {
      for (let turn = 0; turn < 3; turn += 1) await nextLoopTurn();
      return inline.isAtOnce(() => inline.client.topK(batch(asks[0]!)));
    };

    const found: boolean[] = [];
    for (let request = 0; request < 16; request += 1) found.push(await isAlone());
    const waits = { timeout: 60_000, interval: 1 };
    await vi.waitFor(async () => expect(await isAlone()).toBe(true), waits);
    for (const ask of asks) {
      const here = await inline.client.topK(batch(ask));
      const there = await thread.client.topK(batch(ask));
      expect(here.answers.map(readable)).toEqual(there.answers.map(readable));
    }

    expect(found).not.toContain(true);
  });

  test("take a bounded part of one turn however few rows they read, and none of a copy that is gone", async () => {
    const turns: (() => void)[] = [];
    const tables = new InlineTables({
      valuesMax: 2 ** 20,
      openSearch: () => openInlineSearch(),
      progress: new ProgressCounter(),
      clock: systemClock,
      turn: () => new Promise((resolve) => turns.push(resolve)),
    });
    const name = { ...NAME, table: 0, partition: 0 };
    tables.add(name, undefined);
    const counter = new Uint32Array(new SharedArrayBuffer(4));
    const rows = { localRows: new Uint32Array(), ids: undefined, firstRow: 0 };
    const dims = { dim: DIM, vectorDim: DIM };
    const shape = { ...rows, ...dims, share: undefined, partitionRows: ROWS, uses: counter };
    tables.addCopy({ name, text: TEXTS[3]!, ...shape });
    const gone = { ...shape, share: 2 ** 40, localRows: Uint32Array.of(1) };
    tables.addCopy({ name, text: TEXTS[0]!, ...gone });
    const askGone = (): unknown =>
      tables.answer(searchBatch(Uint16Array.of(0), [{ filters: [TEXTS[0]!] }]));
    const ask = (): boolean =>
      tables.answer(searchBatch(Uint16Array.of(0), [{ filters: [TEXTS[3]!] }])) !== undefined;

    const inTurn = Array.from({ length: 1100 }, ask);
    turns.splice(0).forEach((turn) => turn());
    await Promise.resolve();

    expect(inTurn.filter(Boolean)).toHaveLength(1024);
    expect(ask()).toBe(true);
    expect(askGone()).toBeUndefined();
  });
});

/** An answer without regard to where its arrays begin. */
function readable({ block, ids, attributes }: ScanAnswer): object {
  const texts = ids && textsOf(unpackKeys(ids));
  const cells = attributes && new StringColumn(attributes.offsets, attributes.bytes);
  return { block, ids: texts, cells: cells && cellsOf(cells) };
}

const cellsOf = (column: StringColumn): readonly number[][] =>
  Array.from({ length: column.length }, (_, at) => [...column.at(at)]);

function textsOf({ dtype, data }: Tensor): readonly string[] {
  return Array.from({ length: data.length }, (_, at) =>
    dtype === "string" ? Buffer.from(data.at(at)).toString() : String(data[at]),
  );
}
