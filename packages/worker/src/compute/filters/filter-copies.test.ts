// Which copies of filters are held when more are asked for than there is room for.

import { createReferenceAccelerator } from "@winnow/accelerator";
import { ColumnBuilder, filterText } from "@winnow/core";
import { describe, expect, test, vi } from "vitest";

import { ManualClock } from "../../../../../test/doubles/manual-clock.ts";
import type { ResidentPartition } from "../resident-table.ts";
import type { AdmittedShares } from "./admitted-shares.ts";
import { FilterCache } from "./filter-cache.ts";
import { COPY_POLICY } from "./filter-copies.ts";
import type { CopyPolicy } from "./filter-copies.ts";

const ROWS = 64;
const DIM = 4;
/** What sharing a copy takes. */
const HOST_BYTES = 100;
/** Admits `ROWS - least` rows. */
const textOf = (least: number): string =>
  filterText({ kind: "test", attribute: "row", is: "gte", values: [least] });

/** A cache on a device of plain JavaScript, whose copies are all shared; `wantedMax` admitted rows are worth one. */
async function caching(
  policy: Partial<CopyPolicy> = {},
  { bytesMax = 2 ** 20, wantedMax = Number.POSITIVE_INFINITY } = {},
) {
  const device = createReferenceAccelerator({ capacityBytes: 2 ** 24 });
  const builder = new ColumnBuilder();
  for (let row = 0; row < ROWS; row += 1) builder.add(row);
  const attributes = new Map([
    ["row", builder.finish({ name: "row", type: "integer", isList: false })],
  ]);
  const shape = { rows: ROWS, dim: DIM, firstRow: 0, use: "search" } as const;
  const resident = await device.load(shape, [new Float32Array(ROWS * DIM)]);
  const keys = { ids: undefined, keyIndex: undefined, hostBytes: 0 };
  const partition: ResidentPartition = { partition: 0, attributes, resident, ...keys };
  /** Texts of shared copies, and of those that the event loop has searched. */
  const shared = new Set<string>();
  const searched = new Set<string>();
  const masks = new Set<string>();
  const shares: AdmittedShares = {
    wants: (_, admitted) => admitted <= wantedMax,
    share: (_, text) => {
      shared.add(text);
      return { bytes: HOST_BYTES, takeUses: () => searched.delete(text) };
    },
    shareMask: (_, text) => {
      masks.add(text);
      return { bytes: 0, takeUses: () => searched.delete(text) };
    },
    drop: (_, text) => {
      shared.delete(text);
      masks.delete(text);
    },
  };
  const clock = new ManualClock();
  const cache = new FilterCache(device, bytesMax, {
    policy: { ...COPY_POLICY, ...policy },
    shares,
    clock,
  });
  const loaded = device.memory().usedBytes;
  /** Asks for a filter as often as is needed for its copy. */
  const ask = async (text: string): Promise<void> => {
    for (let use = 0; use < COPY_POLICY.usesMin; use += 1) cache.of(partition, text);
    await cache.copied;
  };
  const copyBytes = (): number => device.memory().usedBytes - loaded;
  return { cache, partition, clock, ask, copyBytes, shared, masks, searched };
}

test("copies for the event loop have a budget of their own, whatever the device has room for", async () => {
  const sharedBytesMax = 8192;
  const { ask, copyBytes, shared } = await caching({ sharedBytesMax });
  for (let least = 0; least < ROWS; least += 1) await ask(textOf(least));

  // The bytes of a copy's ids are known once it is shared.
  const besides = (shared.size - 1) * HOST_BYTES;
  expect(copyBytes() + besides).toBeLessThanOrEqual(sharedBytesMax);
  expect(shared.size).toBeGreaterThan(4);
  expect(shared).toContain(textOf(0));
});

test("a copy that nobody used for the time that each is given leaves its room to others", async () => {
  const { ask, clock, shared, searched } = await caching({ sharedBytesMax: 8192, idleMs: 1000 });
  for (let least = 0; least < ROWS; least += 1) await ask(textOf(least));
  const first = new Set(shared);
  const used = textOf(1);
  const late = textOf(30);
  clock.advance(999);
  await ask(late);
  expect(shared).toEqual(first);

  clock.advance(1);
  await ask(late);
  searched.add(used);
  clock.advance(1000);
  for (let least = 40; least < ROWS; least += 1) await ask(textOf(least));

  expect(shared).toContain(used);
  expect(shared).toContain(textOf(50));
  expect(shared).not.toContain(textOf(2));
});

test("no more copies wait than may, and a filter whose copy did not wait gets one later", async () => {
  const { cache, partition, shared } = await caching({ waitingMax: 5 });
  const texts = Array.from({ length: 20 }, (_, least) => textOf(least));
  for (let use = 0; use < 3; use += 1) for (const text of texts) cache.of(partition, text);
  await cache.copied;
  expect(shared.size).toBe(5);

  for (let turn = 0; turn < 3; turn += 1) {
    for (const text of texts) cache.of(partition, text);
    await cache.copied;
  }
  expect(shared.size).toBe(20);
});

test("the limit of bytes of filters holds while copies are shared and no search follows", async () => {
  const bytesMax = 2000;
  const { cache, ask, copyBytes, shared } = await caching({}, { bytesMax });
  for (let least = 0; least < ROWS; least += 1) {
    await ask(textOf(least));
    expect(cache.bytes).toBeLessThanOrEqual(bytesMax);
  }

  expect(shared.size).toBeGreaterThan(0);
  cache.dropCopies();
  await cache.copied;
  expect(shared.size).toBe(0);
  await vi.waitFor(() => expect(copyBytes()).toBe(0));
});

test("a filter that is not worth a copy is shared by itself once it was used often", async () => {
  const { cache, partition, ask, copyBytes, shared, masks } = await caching({}, { wantedMax: 10 });
  const [many, few] = [textOf(ROWS - 11), textOf(ROWS - 10)];

  cache.of(partition, many);
  cache.of(partition, many);
  expect(masks.size).toBe(0);
  await ask(many);
  await ask(few);

  expect([[...masks], [...shared]]).toEqual([[many], [few]]);
  const bytes = cache.bytes;
  cache.dropCopies();
  expect([masks.size, shared.size, bytes - cache.bytes]).toEqual([0, 0, HOST_BYTES]);
  await vi.waitFor(() => expect(copyBytes()).toBe(0));
  await ask(many);
  expect([...masks]).toEqual([many]);
  cache.forget(partition);
  expect(masks.size).toBe(0);
});

describe("a filter that admits more than a quarter", () => {
  const half = textOf(ROWS / 2);
  const policy = { rowsMin: ROWS, broadUsesMin: 5, leftOutValuesMin: (ROWS * DIM) / 2 };
  const usedOften = async (changed: Partial<CopyPolicy>, text = half) => {
    const { cache, partition, copyBytes, ...found } = await caching(
      { ...policy, ...changed },
      { wantedMax: 0 },
    );
    const after: object[] = [];
    for (let use = 1; use <= 5; use += 1) {
      cache.of(partition, text);
      await cache.copied;
      after.push({ hasCopy: copyBytes() > 0, isMasked: found.masks.has(text) });
    }
    const rows = cache.of(partition, text).copy?.localRows.length;
    return { after, rows, shared: found.shared.has(text) };
  };
  const nothing = { hasCopy: false, isMasked: false };
  const masked = { hasCopy: false, isMasked: true };

  test("is copied once it was used more often, and until then not shared", async () => {
    expect(await usedOften({})).toEqual({
      after: [nothing, nothing, nothing, nothing, { hasCopy: true, isMasked: false }],
      rows: ROWS / 2,
      shared: true,
    });
  });

  test.each([
    ["leaves out too little", { leftOutValuesMin: (ROWS * DIM) / 2 + 1 }, half],
    ["admits too much", {}, textOf(20)],
  ])("is shared without a copy where it %s", async (_, changed, text) => {
    const { after, rows } = await usedOften(changed, text);
    expect([after, rows]).toEqual([[nothing, nothing, masked, masked, masked], undefined]);
  });

  test("is shared without a copy where there is no room for one", async () => {
    const { after, rows } = await usedOften({ memoryFractionMax: 0 });
    expect([after, rows]).toEqual([[nothing, nothing, nothing, nothing, masked], undefined]);
  });
});

test("a filter that the event loop searches with is a recent one, and a dropped one is known no more", async () => {
  const bytesMax = 1500;
  const { cache, partition, ask, masks, searched } = await caching({}, { bytesMax, wantedMax: 0 });
  const kept = textOf(0);
  await ask(kept);
  const once = textOf(1);
  await ask(once);
  for (let least = 2; least < ROWS - 1; least += 1) {
    searched.add(kept);
    await ask(textOf(least));
    cache.trim();
  }

  expect(masks).toContain(kept);
  expect(masks).not.toContain(once);
  expect(cache.bytes).toBeLessThanOrEqual(bytesMax);
  expect(cache.of(partition, kept).copy).toBeUndefined();
});
