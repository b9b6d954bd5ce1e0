// Look-ups that the event loop answers itself, beside the same look-ups behind the channel to the compute side: both
// on the compiled scan.

import { createReferenceAccelerator, openInlineSearch } from "@winnow/accelerator";
import { StringColumn, partitionOfBytes, systemClock } from "@winnow/core";
import type { KeyedTable } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

import type { GatherAsk, LookupBatch } from "../compute.ts";
import type { MemoryTable } from "../doubles/memory-model.ts";
import {
  DIM,
  NAME,
  everyPartition,
  hasCompiledScan,
  inlineSide,
  integers,
  scanAccelerator,
  strings,
  valuesOf,
} from "../fixtures/loaded-tables.ts";
import { packKeys } from "../packed-keys.ts";
import { ProgressCounter } from "../progress-counter.ts";
import { ResidentTable } from "../resident-table.ts";
import { InlineLookups } from "./inline-lookups.ts";
import { inSharedMemory, sharedOf } from "./partition-sharing.ts";

const WORDS = 200;
const PARTITIONS = 16;
const hasScan = await hasCompiledScan();

const wordsTable: MemoryTable = {
  kind: "strings",
  rows: WORDS + 1,
  dim: DIM,
  values: valuesOf(WORDS + 1),
  keys: StringColumn.fromText(Array.from({ length: WORDS }, (_, at) => `word ${at}`)),
};
const rowsTable: MemoryTable = { kind: "row", rows: 90, dim: DIM, values: valuesOf(90, 5) };

/** A compute side with a table of words and one of row numbers, each in sixteen partitions. */
async function computeSide(options: Parameters<typeof inlineSide>[1] = {}) {
  const { client, isAtOnce } = await inlineSide([wordsTable, rowsTable], options);
  return { client, isAtOnce: (batch: LookupBatch) => isAtOnce(() => client.lookup(batch)) };
}

function batchOf(
  keys: readonly string[],
  partitions: Uint16Array = everyPartition(PARTITIONS),
): LookupBatch {
  return { ...NAME, table: 0, asks: [{ partitions, keys: packKeys(strings(keys)) }] };
}

const homeOf = (word: string): number =>
  partitionOfBytes(new TextEncoder().encode(word), PARTITIONS);

const anyWord = fc.oneof(
  fc.nat(WORDS + 20).map((at) => `word ${at}`),
  fc.string({ unit: "binary", maxLength: 6 }),
);
const anyKeys = fc.oneof(
  { weight: 4, arbitrary: fc.array(anyWord, { maxLength: 40 }).map(strings) },
  fc.array(fc.integer({ min: -1, max: 92 }), { maxLength: 6 }).map(integers),
);
const anyAsk = fc.record({
  keys: anyKeys,
  knownOnly: fc.boolean(),
  partitions: fc.oneof(
    { weight: 4, arbitrary: fc.constant(everyPartition(PARTITIONS)) },
    fc.subarray([...everyPartition(PARTITIONS)]).map((some) => Uint16Array.from(some)),
  ),
});

describe.skipIf(!hasScan)("look-ups of the event loop", () => {
  test("give what the compute side gives, refusals as well", async () => {
    const inline = await computeSide();
    const thread = await computeSide({ valuesMax: 0 });
    const anyBatch = fc.record({
      table: fc.nat(1),
      asks: fc.array(anyAsk, { minLength: 1, maxLength: 4 }),
    });

    await fc.assert(
      fc.asyncProperty(anyBatch, async ({ table, asks }) => {
        const batch = (): LookupBatch => ({
          ...NAME,
          table,
          asks: asks.map(({ keys, knownOnly, partitions }): GatherAsk => {
            const ask = { partitions: partitions.slice(), keys: packKeys(keys) };
            return knownOnly ? { ...ask, knownOnly } : ask;
          }),
        });
        const lookup = inline.client.lookup(batch());
        expect(inline.client.pending).toBe(0);

        expect((await lookup).answers).toEqual((await thread.client.lookup(batch())).answers);
      }),
      { numRuns: 200 },
    );
  });

  test("leave many keys and long ones to the compute side", async () => {
    const { isAtOnce } = await computeSide();
    const words = (count: number): string[] =>
      Array.from({ length: count }, (_, at) => `word ${at % WORDS}`);

    expect(await isAtOnce(batchOf(words(1024)))).toBe(true);
    expect(await isAtOnce(batchOf(words(1025)))).toBe(false);
    expect(await isAtOnce(batchOf(["w".repeat(2 ** 16)]))).toBe(true);
    expect(await isAtOnce(batchOf(["w".repeat(2 ** 17)]))).toBe(false);
  });

  test("are left to the compute side where scans are, and on a device that shares nothing", async () => {
    const off = await computeSide({ valuesMax: 0 });
    const other = await computeSide({
      accelerator: createReferenceAccelerator({ capacityBytes: 2 ** 28 }),
    });

    expect(await off.isAtOnce(batchOf(["word 1"]))).toBe(false);
    expect(await other.isAtOnce(batchOf(["word 1"]))).toBe(false);
  });

  test("read no partition that is given up, nor a content that is closed", async () => {
    const { client, isAtOnce } = await computeSide();
    const [word, partition] = ["word 3", homeOf("word 3")];
    const { usedBytes } = client.memory;

    const release = client.release({ ...NAME, table: 0, partition });
    const [meanwhile] = (await client.lookup(batchOf([word]))).answers;
    await release;
    const others = everyPartition(PARTITIONS).filter((each) => each !== partition);
    const left = Array.from({ length: WORDS }, (_, at) => `word ${at}`).find(
      (each) => homeOf(each) !== partition,
    )!;

    expect(meanwhile).toMatchObject({ problem: { code: "FAILED_PRECONDITION" } });
    expect(client.memory.usedBytes).toBeLessThan(usedBytes);
    expect(await isAtOnce(batchOf([left], others))).toBe(true);
    expect(await isAtOnce(batchOf([left]))).toBe(false);
    await client.load({ ...NAME, table: 0, partition });
    expect(await isAtOnce(batchOf([word]))).toBe(true);
    await client.close(NAME.handle);
    await expect(client.lookup(batchOf([word]))).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(client.memory.usedBytes).toBe(0);
  });

  test("forget a partition whose load ended after its release was asked for", async () => {
    const { client } = await computeSide();
    const name = { ...NAME, table: 0, partition: homeOf("word 3") };
    await client.release(name);

    await Promise.all([client.load(name), client.release(name)]);
    // In whichever order the compute side did the two, it alone says what is held.
    const [here] = (await client.lookup(batchOf(["word 3"]))).answers;
    const many = Array.from({ length: 1025 }, () => "word 3");
    const [there] = (await client.lookup(batchOf(many))).answers;

    expect("vectors" in here!).toBe("vectors" in there!);
  });

  test("end when the compute thread does: nothing is answered from its memory any more", async () => {
    const { client } = await computeSide();

    client.fail(new Error("exit code 9"));

    const lookup = client.lookup(batchOf(["word 3"]));
    await expect(lookup).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("take a bounded part of one turn of the event loop, and free a partition at once", async () => {
    const accelerator = await scanAccelerator();
    const values = Float32Array.from({ length: 4 * DIM }, (_, at) => at);
    const shape = { rows: 4, dim: DIM, firstRow: 0, use: "gather" } as const;
    const resident = await accelerator.load(shape, [values]);
    const spec: KeyedTable = {
      kind: "keyed",
      name: "rows",
      rows: 4,
      dim: DIM,
      partitions: 1,
      sources: [],
      keys: { kind: "row" },
    };
    const { keyed } = inSharedMemory({
      ids: undefined,
      keyed: {
        globalRows: Uint32Array.of(0, 1, 2, 3),
        keys: undefined,
        keyRows: new Uint32Array(),
      },
    });
    const source = { keyed, attributes: undefined };
    const added = new ResidentTable(spec, accelerator).add(0, { resident, source, ids: undefined });
    const share = accelerator.share!(resident);
    const turns: (() => void)[] = [];
    const progress = new ProgressCounter();
    const lookups = new InlineLookups({
      valuesMax: 1,
      openSearch: () => openInlineSearch(),
      progress,
      clock: systemClock,
      turn: () => new Promise((resolve) => turns.push(resolve)),
    });
    const name = { ...NAME, table: 0, partition: 0 };
    lookups.add(name, sharedOf(added, { share, spec, keyed }).sharedKeyed!);
    const ask = (keys: number): boolean => {
      const asked = packKeys(integers(Array.from({ length: keys }, (_, at) => at % 4)));
      const asks = [{ partitions: Uint16Array.of(0), keys: asked }];
      return lookups.answer({ ...NAME, table: 0, asks }) !== undefined;
    };

    const first = [ask(1024), ask(1024), ask(1024), ask(1)];
    turns.splice(0).forEach((turn) => turn());
    await Promise.resolve();
    const afterTurn = Array.from({ length: 129 }, () => ask(1));

    expect(first).toEqual([true, true, false, false]);
    expect(afterTurn.indexOf(false)).toBe(128);
    expect(progress.value).toBe(130);
    const other = openInlineSearch()!;
    await accelerator.release(resident);
    lookups.drop(name);
    expect(other.open(share)).toBeUndefined();
    expect(ask(1)).toBe(false);
    await accelerator.close();
  });
});
