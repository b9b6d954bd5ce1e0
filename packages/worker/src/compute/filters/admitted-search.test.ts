// Filtered searches, whichever way they go (bitmaps, copies of rows, both in one batch), against the unfiltered
// order of all rows less what is not admitted; on the plain and on the native device.

import { createAccelerator } from "@winnow/accelerator";
import type { Accelerator, Resident } from "@winnow/accelerator";
import { ColumnBuilder, filterText, rowRangeOf, stringTensor } from "@winnow/core";
import type { AttributeColumn, CandidateTable, Filter } from "@winnow/core";
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";

import type { ScanAsk, TopKBatch } from "../compute.ts";
import { ExclusionIndexes } from "./exclusion.ts";
import { FilterCache, rowsInSteps } from "./filter-cache.ts";
import { COPY_POLICY } from "./filter-copies.ts";
import type { CopyPolicy } from "./filter-copies.ts";
import { packKeys } from "../packed-keys.ts";
import { ResidentTable } from "../resident-table.ts";
import type { ResidentPartition } from "../resident-table.ts";
import { answerTopK } from "../search/top-k-batch.ts";

const ROWS = 331;
const PARTITIONS = 4;
const DIM = 5;
const SPEC: CandidateTable = {
  kind: "candidate",
  name: "items",
  rows: ROWS,
  dim: DIM,
  partitions: PARTITIONS,
  sources: [],
  idDtype: "string",
  attributes: [{ name: "g", type: "integer", isList: false }],
};
/** Copies whatever is asked for a second time. */
const EAGER: CopyPolicy = {
  ...COPY_POLICY,
  rowsMin: 1,
  usesMin: 2,
  fractionMax: 1,
  memoryFractionMax: 1,
};
const idOf = (row: number): string => `item ${row}`;
/** Rows 7 and 8 of ten, in the last partition none. */
const groupOf = (row: number): number => (row * 13) % 10;
/** Small integers, so that many scores tie. */
const values = Float32Array.from({ length: ROWS * DIM }, (_, at) => ((at * 7919) % 13) - 6);

const opened: Accelerator[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((accelerator) => accelerator.close()));
});

async function start(
  kind: "reference" | "cpu",
  policy: CopyPolicy,
  { bytesMax = 2 ** 20, onAdded }: { bytesMax?: number; onAdded?: () => void } = {},
) {
  const capacityBytes = 2 ** 26;
  const { accelerator } = await createAccelerator(kind, { capacityBytes, threads: 1 });
  opened.push(accelerator);
  const table = new ResidentTable(SPEC, accelerator);
  for (let partition = 0; partition < PARTITIONS; partition += 1) {
    const { firstRow, endRow } = rowRangeOf(partition, SPEC);
    const rows = endRow - firstRow;
    const own = values.slice(firstRow * DIM, endRow * DIM);
    const shape = { rows, dim: DIM, firstRow, use: "search" } as const;
    const resident = await accelerator.load(shape, [own]);
    const ids = stringTensor(Array.from({ length: rows }, (_, at) => idOf(firstRow + at)));
    const source = { ids, keyed: undefined, attributes: [columnOf(firstRow, endRow)] };
    table.add(partition, { resident, source, ids });
  }
  const filters = new FilterCache(accelerator, bytesMax, { policy, ...(onAdded && { onAdded }) });
  const indexes = new ExclusionIndexes(2 ** 20);
  const parts = { accelerator, table, filters, indexes, onStep: () => undefined };
  return { accelerator, filters, parts };
}

function columnOf(firstRow: number, endRow: number): AttributeColumn {
  const builder = new ColumnBuilder();
  for (let row = firstRow; row < endRow; row += 1) builder.add(groupOf(row));
  return builder.finish(SPEC.attributes![0]!);
}

interface Asked {
  readonly vector: readonly number[];
  readonly k: number;
  /** Groups that are admitted; all without. */
  readonly groups: readonly number[] | undefined;
  readonly included: readonly number[] | undefined;
  readonly excluded: readonly number[];
}

const EVERY_GROUP = Array.from({ length: 10 }, (_, group) => group);

const anyAsk: fc.Arbitrary<Asked> = fc.record({
  vector: fc.array(fc.integer({ min: -2, max: 2 }), { minLength: DIM, maxLength: DIM }),
  k: fc.constantFrom(1, 3, 20, ROWS),
  groups: fc.constantFrom(undefined, [3], [3, 4], [0, 1, 2, 5, 6, 9], [77], [7, 8], EVERY_GROUP),
  included: fc.option(fc.uniqueArray(fc.nat(ROWS + 3), { maxLength: 40 }), { nil: undefined }),
  excluded: fc.uniqueArray(fc.nat(ROWS + 3), { maxLength: 20 }),
});

function askOf({ k, groups, included, excluded }: Asked): ScanAsk {
  const test = groups && {
    kind: "test" as const,
    attribute: "g",
    is: "in" as const,
    values: groups,
  };
  const text = test && filterText(test satisfies Filter);
  const idsOf = (rows: readonly number[]) => [packKeys(stringTensor(rows.map(idOf)))];
  return {
    queries: 1,
    k,
    rowsOnly: true,
    excluded: excluded.length === 0 ? [] : idsOf(excluded),
    filters: text === undefined ? undefined : [text],
    included: included && idsOf(included),
  };
}

function expected({ vector, k, groups, included, excluded }: Asked): object {
  const out = new Set(excluded);
  const only = included && new Set(included);
  const scored = Array.from({ length: ROWS }, (_, row) => {
    const own = values.subarray(row * DIM, (row + 1) * DIM);
    return { row, score: own.reduce((sum, value, at) => sum + value * vector[at]!, 0) + 0 };
  });
  const admitted = scored.filter(
    ({ row }) =>
      !out.has(row) && only?.has(row) !== false && groups?.includes(groupOf(row)) !== false,
  );
  const best = admitted.toSorted((a, b) => b.score - a.score || a.row - b.row).slice(0, k);
  return { rows: best.map(({ row }) => row), scores: best.map(({ score }) => score) };
}

const ASKED: Asked = {
  vector: [1, 0, -1, 2, 0],
  k: 5,
  groups: [3],
  included: undefined,
  excluded: [],
};

let isPrepared = false;

type Parts = Awaited<ReturnType<typeof start>>["parts"];

function batchOf(asked: readonly Asked[]): TopKBatch {
  const handle = 1 as never;
  const partitions = Uint16Array.from({ length: PARTITIONS }, (_, partition) => partition);
  const vectors = Float32Array.from(asked.flatMap(({ vector }) => vector));
  return { target: { handle, table: 0, partitions }, asks: asked.map(askOf), vectors };
}

const textsOf = ({ asks }: TopKBatch): ReadonlySet<string> =>
  new Set(asks.flatMap(({ filters = [] }) => filters));

async function answers(parts: Parts, asked: readonly Asked[]): Promise<object[]> {
  // Every second time the filters are found out beforehand, as a compute side does.
  isPrepared = !isPrepared;
  if (isPrepared) {
    const wanted = { texts: textsOf(batchOf(asked)), partitions: [...parts.table.held()] };
    await parts.filters.prepare(wanted, () => true);
  }
  return await searched(parts, asked);
}

async function searched(parts: Parts, asked: readonly Asked[]): Promise<object[]> {
  const { block } = await answerTopK(parts, batchOf(asked), new AbortController().signal);
  return asked.map(({ k }, query) => {
    const count = Math.min(k, block.counts[query]!);
    const from = query * block.k;
    const rows = [...block.rows.subarray(from, from + count)];
    return { rows, scores: [...block.scores.subarray(from, from + count)] };
  });
}

describe.each(["reference", "cpu"] as const)("on the %s device", (kind) => {
  test("answers are those of brute force, by bitmaps and by copies, in one batch", async () => {
    const { parts, filters, accelerator } = await start(kind, EAGER);
    const before = accelerator.memory().usedBytes;
    await fc.assert(
      fc.asyncProperty(fc.array(anyAsk, { minLength: 1, maxLength: 6 }), async (asked) => {
        const wanted = asked.map(expected);
        for (let turn = 0; turn < 2; turn += 1) {
          expect(await answers(parts, asked)).toEqual(wanted);
        }
        await filters.copied;
        expect(await answers(parts, asked)).toEqual(wanted);
      }),
      { numRuns: 60 },
    );
    expect(accelerator.memory().usedBytes).toBeGreaterThan(before);
    filters.dropCopies();
    const [one] = fc.sample(anyAsk, { numRuns: 1, seed: 1 });
    expect(await answers(parts, [one!])).toEqual([expected(one!)]);
    await vi.waitFor(() => expect(accelerator.memory().usedBytes).toBe(before));
  });

  test("a budget that no filter fits keeps nothing, and answers are the same", async () => {
    const { parts, filters, accelerator } = await start(kind, EAGER, { bytesMax: 0 });
    const before = accelerator.memory().usedBytes;
    const asked = fc.sample(anyAsk, { numRuns: 40, seed: 2 });
    for (const each of asked)
      expect(await answers(parts, [each, each])).toEqual([expected(each), expected(each)]);
    await filters.copied;
    expect(filters.bytes).toBe(0);
    await vi.waitFor(() => expect(accelerator.memory().usedBytes).toBe(before));
  });
});

test("the budget holds while filters are found out that no search ever uses", async () => {
  const { parts, filters } = await start("cpu", EAGER, { bytesMax: 2000 });
  const textOf = (value: number): string =>
    filterText({ kind: "test", attribute: "g", is: "gt", values: [value] });
  const most: number[] = [];
  const texts = new Set(Array.from({ length: 300 }, (_, at) => textOf(at / 100)));
  const partitions = [...parts.table.held()];
  await filters.prepare({ texts, partitions }, () => most.push(filters.bytes) > 0);
  expect(most).toHaveLength(300 * PARTITIONS);
  expect(Math.max(...most)).toBeLessThanOrEqual(2000);
  expect(Math.max(...most)).toBeGreaterThan(0);
});

test("filters of one search are evaluated once, also where the budget does not hold all of them", async () => {
  const added = vi.fn<() => void>();
  const { parts, filters } = await start("cpu", EAGER, { bytesMax: 2000, onAdded: added });
  const asked = Array.from({ length: 40 }, (_, at): Asked => {
    return { ...ASKED, groups: [at % 10, 100 + at] };
  });

  const texts = textsOf(batchOf(asked));
  const partitions = [...parts.table.held()];
  await filters.prepare({ texts, partitions, isSearchNext: true }, () => true);
  const found = await searched(parts, asked);

  expect(found).toEqual(asked.map(expected));
  expect(added).toHaveBeenCalledTimes(40 * PARTITIONS);
  expect(filters.bytes).toBeLessThanOrEqual(2000);
});

test("a filter of many conditions is evaluated in steps, until nobody wants it any more", async () => {
  const rows = 2 ** 18;
  const builder = new ColumnBuilder();
  for (let row = 0; row < rows; row += 1) builder.add([row % 17]);
  const column = builder.finish({ name: "g", type: "integer", isList: true });
  const resident = { rows, firstRow: 0 } as Resident;
  const partition: ResidentPartition = {
    partition: 0,
    attributes: new Map([["g", column]]),
    resident,
    ids: undefined,
    keyIndex: undefined,
    hostBytes: 0,
  };
  const of = Array.from({ length: 16 }, (_, end): Filter => {
    return { kind: "test", attribute: "g", is: "lt", values: [end + 1] };
  });
  const onStep = vi.fn<() => boolean>(() => true);

  const bits = await rowsInSteps({ kind: "and", of }, partition, onStep);

  expect(onStep).toHaveBeenCalledTimes((16 * rows) / 2 ** 20);
  expect([...bits!.subarray(0, 5)]).toEqual([1, 0, 2, 0, 4]);
  const again = { ...partition, attributes: new Map([["g", { ...column }]]) };
  expect(await rowsInSteps({ kind: "and", of }, again, () => false)).toBeUndefined();
});

test("a filter that admits every row is searched as none", async () => {
  const { parts, accelerator } = await start("cpu", { ...EAGER, usesMin: 100 });
  const topK = vi.spyOn(accelerator, "topK");
  const all = { ...ASKED, groups: EVERY_GROUP };

  const found = await searched(parts, [all, ASKED]);

  expect(found).toEqual([expected(all), expected(ASKED)]);
  expect(topK.mock.lastCall?.[0].filters?.map((list) => list === undefined)).toEqual([true, false]);
});

describe("copies", () => {
  test.each<[string, Partial<CopyPolicy>, boolean]>([
    ["of a filter that is asked for often enough", {}, true],
    ["of a filter that is asked for more seldom", { usesMin: 6 }, false],
    ["of a filter that admits too many rows", { fractionMax: 0.01 }, false],
    ["of partitions that are too small", { rowsMin: 1000 }, false],
    ["for which there is no memory", { memoryFractionMax: 0 }, false],
  ])("%s are made or not", async (_, policy, isMade) => {
    const { parts, filters, accelerator } = await start("cpu", { ...EAGER, ...policy });
    const before = accelerator.memory().usedBytes;
    for (let turn = 0; turn < 5; turn += 1) await answers(parts, [ASKED]);
    await filters.copied;
    expect(accelerator.memory().usedBytes > before).toBe(isMade);
  });

  test("of a partition that is released are released with it, also while they are made", async () => {
    const { parts, filters, accelerator } = await start("cpu", EAGER);
    for (let turn = 0; turn < 2; turn += 1) await answers(parts, [ASKED]);
    filters.forget(parts.table.at(0));
    await filters.copied;
    filters.forget(parts.table.at(1));
    for (let partition = 0; partition < 2; partition += 1) await parts.table.release(partition);
    const used = accelerator.memory().usedBytes;
    filters.dropCopies();
    await vi.waitFor(() => expect(accelerator.memory().usedBytes).toBeLessThan(used));
    for (let partition = 2; partition < 4; partition += 1) {
      filters.forget(parts.table.at(partition));
      await parts.table.release(partition);
    }
    expect(filters.bytes).toBe(0);
    expect(accelerator.memory().usedBytes).toBe(0);
  });
});
