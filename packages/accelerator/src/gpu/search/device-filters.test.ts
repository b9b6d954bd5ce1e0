// Filters that stay on the device: a mask that was used before is not sent again, whatever lies in
// which slab, and the host's bitmap answers where the device has none.

import fc from "fast-check";
import { WinnowError } from "@winnow/core";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Accelerator, Resident, RowFilter } from "../../accelerator.ts";
import {
  bruteForce,
  firstDifference,
  loadParts,
  normalValues,
  seededRandom,
} from "../../cases/exactness.cases.ts";
import type { SearchProblem } from "../../cases/exactness.cases.ts";
import { BitmapFilter } from "../../queries/row-admission.ts";
import { createGpuAccelerator } from "../accelerator.ts";
import type { GpuDevice } from "../device/device.ts";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";
import type { GpuAcceleratorOptions } from "../gpu-settings.ts";
import type { GpuBuffer } from "../webgpu-api.ts";
import { DeviceFilters } from "./device-filters.ts";
import type { MaskPiece } from "./search-scope.ts";

const { device, reason } = await sharedSoftwareGpu();
const DIM = 4;
const K = 9;
/** Tables by chance, with up to six searches each. `npm run fuzz:gpu` has more of them. */
const SETS_OF_SEARCHES = Number(process.env["FUZZ_SEARCHES"] ?? 4);
const SEARCHES_MS_MAX = 120_000 + SETS_OF_SEARCHES * 3000;

afterEach(() => vi.restoreAllMocks());

interface CountedDevice {
  readonly device: Pick<GpuDevice, "allocate" | "connection">;
  readonly usage: { bytes: number; written: number };
  failure: WinnowError | undefined;
}

/** A device that only counts bytes, and refuses to allocate while `failure` is set. */
function countedDevice(): CountedDevice {
  const usage = { bytes: 0, written: 0 };
  const counted = { failure: undefined as WinnowError | undefined, usage };
  const allocate = async (size: number): Promise<object> => {
    await Promise.resolve();
    if (counted.failure !== undefined) throw counted.failure;
    usage.bytes += size;
    return { size, destroy: () => (usage.bytes -= size) };
  };
  const queue = {
    writeBuffer: (...[, , { length }]: [0, 0, Uint8Array]) => (usage.written += length),
  };
  return Object.assign(counted, {
    device: { allocate, connection: { queue } } as unknown as CountedDevice["device"],
  });
}

const piecesOf = (bitmaps: readonly Uint8Array[]): MaskPiece[] =>
  bitmaps.map((bits) => ({ bits, from: 0, to: 0, bytes: bits.length }));

/** Number of copies that make up the mask; 0 if the host must send it. */
async function copiesOf(filters: DeviceFilters, mask: readonly MaskPiece[]): Promise<number> {
  const copyBufferToBuffer = vi.fn();
  await filters.prepare(mask);
  const target = { buffer: {} as GpuBuffer, at: 0 };
  const isCopied = filters.copy({ copyBufferToBuffer }, mask, target);
  expect(copyBufferToBuffer).toHaveBeenCalledTimes(isCopied ? mask.length : 0);
  return copyBufferToBuffer.mock.calls.length;
}

describe("bitmaps on a device", () => {
  test("go there when they are used for the second time, and once", async () => {
    const { device: counted, usage } = countedDevice();
    const filters = new DeviceFilters(counted, 10_000);
    const bitmaps = [new Uint8Array(1024), new Uint8Array(16)];
    for (const bits of bitmaps) filters.add(bits);
    const mask = piecesOf(bitmaps);

    const copies = [];
    for (let use = 0; use < 4; use += 1) copies.push(await copiesOf(filters, mask));

    expect(copies).toEqual([0, 2, 2, 2]);
    expect(usage).toEqual({ bytes: 1040, written: 1040 });
  });

  test("stay on the host where they are many and small", async () => {
    const { device: counted, usage } = countedDevice();
    const filters = new DeviceFilters(counted, 2 ** 24);
    const small = Array.from({ length: 65 }, () => new Uint8Array(2 ** 14 - 16));
    const large = Array.from({ length: 65 }, () => new Uint8Array(2 ** 14));
    for (const bits of [...small, ...large]) filters.add(bits);
    const copiesOfSecond = async (bitmaps: readonly Uint8Array[]): Promise<number> => {
      await copiesOf(filters, piecesOf(bitmaps));
      return await copiesOf(filters, piecesOf(bitmaps));
    };

    expect(await copiesOfSecond(small)).toBe(0);
    expect(usage.bytes).toBe(0);
    expect(await copiesOfSecond(small.slice(1))).toBe(64);
    expect(await copiesOfSecond(large)).toBe(65);
  });

  test("that find no room leave the search to the host, and are tried again", async () => {
    const counted = countedDevice();
    const filters = new DeviceFilters(counted.device, 10_000);
    const mask = piecesOf([new Uint8Array(1024)]);
    filters.add(mask[0]!.bits);
    await copiesOf(filters, mask);

    counted.failure = new WinnowError("RESOURCE_EXHAUSTED", "full");
    expect(await copiesOf(filters, mask)).toBe(0);
    expect(filters.usedBytes).toBe(0);
    counted.failure = undefined;
    await copiesOf(filters, mask);

    expect(await copiesOf(filters, mask)).toBe(1);
  });

  test("on a device that is lost meanwhile fail every search that waits for them", async () => {
    const counted = countedDevice();
    const filters = new DeviceFilters(counted.device, 10_000);
    const mask = piecesOf([new Uint8Array(1024)]);
    filters.add(mask[0]!.bits);
    await filters.prepare(mask);
    counted.failure = new WinnowError("UNAVAILABLE", "lost");

    const searches = await Promise.allSettled([filters.prepare(mask), filters.prepare(mask)]);

    expect(searches.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(filters.usedBytes).toBe(0);
  });

  test("never pass their limit, whatever is used, released and made at once", async () => {
    const step = fc.record({
      what: fc.constantFrom("use", "use", "use", "release", "turn", "settle"),
      picks: fc.uniqueArray(fc.nat(7), { minLength: 1, maxLength: 4 }),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        const { device: counted, usage } = countedDevice();
        const filters = new DeviceFilters(counted, 2000);
        const bitmaps = Array.from({ length: 8 }, (_, at) => new Uint8Array(16 * (1 + at * 5)));
        for (const bits of bitmaps) filters.add(bits);
        const uses: Promise<unknown>[] = [];
        for (const { what, picks } of steps) {
          const picked = picks.map((pick) => bitmaps[pick]!);
          if (what === "use") uses.push(copiesOf(filters, piecesOf(picked)));
          if (what === "release") for (const bits of picked) filters.release(bits);
          if (what === "turn") await Promise.resolve();
          if (what === "settle") await Promise.all(uses);
          expect(filters.usedBytes).toBeLessThanOrEqual(2000);
          expect(usage.bytes).toBeLessThanOrEqual(filters.usedBytes);
        }
        await Promise.all(uses);
        for (const bits of bitmaps) filters.release(bits);
        expect([filters.usedBytes, usage.bytes]).toEqual([0, 0]);
      }),
      { numRuns: 500 },
    );
  });
});

test("a filter counts the rows that it admits, and none past the end of its resident", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), fc.nat(500), (bits, rows) => {
      const resident: Resident = { rows, dim: 1, firstRow: 0, bytes: 0 };
      const isIn = (row: number): boolean => (((bits[row >> 3] ?? 0) >> (row & 7)) & 1) === 1;

      const filter = new BitmapFilter(resident, bits);

      const admitted = Array.from({ length: rows }, (_, row) => row).filter((row) => isIn(row));
      expect(filter.admitted).toBe(admitted.length);
    }),
  );
});

interface Opened {
  readonly accelerator: Accelerator;
  readonly residents: readonly Resident[];
  readonly problem: SearchProblem;
}

async function open(
  rows: number,
  parts: number,
  options: Partial<GpuAcceleratorOptions> = {},
): Promise<Opened> {
  const random = seededRandom(rows);
  const table = normalValues(random, rows * DIM);
  const problem = { dim: DIM, k: K, table, vectors: normalValues(random, 3 * DIM) };
  const accelerator = createGpuAccelerator(device!, { capacityBytes: 2 ** 26, ...options });
  return { accelerator, residents: await loadParts(accelerator, problem, parts), problem };
}

/** A bitmap of global rows, and filters for it. */
interface Made {
  readonly bits: Uint8Array;
  readonly filters: readonly RowFilter[];
}

function madeFilter({ accelerator, residents, problem }: Opened, seed: number): Made {
  const random = seededRandom(seed);
  const bits = Uint8Array.from({ length: problem.table.length / DIM / 8 + 1 }, () =>
    Math.floor(random() * 256),
  );
  const filters = residents.map((resident) => {
    const { firstRow, rows } = resident;
    const local = new Uint8Array(Math.ceil(rows / 8));
    for (let row = 0; row < rows; row += 1) {
      const global = firstRow + row;
      local[row >> 3]! |= ((bits[global >> 3]! >> (global & 7)) & 1) << (row & 7);
    }
    return accelerator.filter(resident, local);
  });
  return { bits, filters };
}

/** What is wrong with a search whose query i has filter i. */
async function fault(
  { accelerator, residents, problem }: Opened,
  made: readonly (Made | undefined)[],
  excludedRows: readonly (Uint32Array | undefined)[] = made.map(() => undefined),
): Promise<string | undefined> {
  const { vectors, k } = problem;
  const filters = made.map((each) => each?.filters);
  const block = await accelerator.topK({ residents, vectors, k, filters, excludedRows });
  const admittedRows = made.map((each) => each?.bits);
  return firstDifference(block, bruteForce({ ...problem, admittedRows, excludedRows }));
}

/** Bytes sent to the device from here on. */
function watchWrites(): { bytes: number } {
  const watch = { bytes: 0 };
  const { queue } = device!.connection;
  const writeBuffer = queue.writeBuffer.bind(queue);
  vi.spyOn(queue, "writeBuffer").mockImplementation((...args) => {
    watch.bytes += args[2].byteLength;
    writeBuffer(...args);
  });
  return watch;
}

describe.skipIf(device === undefined)(`filters on a GPU ${reason}`, () => {
  test("are sent twice: with their first search, and to stay", async () => {
    const opened = await open(60_000, 3);
    const made = madeFilter(opened, 1);
    const alone = {
      ...opened,
      problem: { ...opened.problem, vectors: new Float32Array(DIM).fill(1) },
    };
    const watch = watchWrites();

    const sent = [];
    for (let search = 0; search < 4; search += 1) {
      const before = watch.bytes;
      expect(await fault(alone, [made])).toBeUndefined();
      sent.push(watch.bytes - before);
    }

    const [first, second, third, fourth] = sent;
    expect(Math.min(first!, second!)).toBeGreaterThan(7500);
    expect(third).toBeLessThan(2000);
    expect(fourth).toBe(third);
    await opened.accelerator.close();
  });

  test(
    "admit what they say, whatever the parts, slabs, exclusions and other filters",
    async () => {
      const shapes = fc.record({
        rows: fc.integer({ min: 1, max: 3000 }),
        parts: fc.integer({ min: 1, max: 6 }),
        slabBytesMax: fc.integer({ min: 1, max: 20_000 }),
        scratchBytesMax: fc.constantFrom(2 ** 20, 2 ** 22),
        seed: fc.nat(),
      });
      const searches = fc.array(fc.array(fc.option(fc.nat(3)), { minLength: 3, maxLength: 3 }), {
        minLength: 2,
        maxLength: 6,
      });
      await fc.assert(
        fc.asyncProperty(shapes, searches, async ({ rows, parts, seed, ...options }, asked) => {
          const opened = await open(rows, Math.min(parts, rows), options);
          const made = [1, 2, 3, 4].map((at) => madeFilter(opened, seed + at));
          const some = bruteForce(opened.problem).rows.slice(0, 5).toSorted();

          for (const picks of asked) {
            const excludedRows = seed % 2 === 0 ? undefined : [some, undefined, some];
            const chosen = picks.map((pick) => (pick === null ? undefined : made[pick]));
            expect(await fault(opened, chosen, excludedRows)).toBeUndefined();
          }
          await opened.accelerator.close();
        }),
        { numRuns: SETS_OF_SEARCHES },
      );
    },
    SEARCHES_MS_MAX,
  );

  test("that are released under searches under way still hold for these, and for no other", async () => {
    const opened = await open(3000, 3, { slabBytesMax: 8000, lanes: 2 });
    for (let turns = 0; turns < 6; turns += 1) {
      const [one, other] = [madeFilter(opened, turns), madeFilter(opened, 100 + turns)];
      for (let use = 0; use < turns % 3; use += 1) await fault(opened, [one, other, one]);

      const searches = Array.from({ length: 4 }, () => fault(opened, [one, other, undefined]));
      for (let turn = 0; turn < turns; turn += 1) {
        await new Promise((resolve) => void setImmediate(resolve));
      }
      for (const filter of [...one.filters, ...other.filters]) {
        opened.accelerator.releaseFilter(filter);
        opened.accelerator.releaseFilter(filter);
      }

      expect(await Promise.all(searches)).toEqual([undefined, undefined, undefined, undefined]);
      await expect(fault(opened, [one, one, one])).rejects.toThrow(RangeError);
    }
    await opened.accelerator.close();
  });

  test("beyond the memory for them still hold", async () => {
    // A sixteenth of the working memory holds the bitmaps of two filters.
    const opened = await open(5000, 2, { scratchBytesMax: 2 ** 15, slabBytesMax: 2 ** 15 });
    const made = [1, 2, 3, 4].map((seed) => madeFilter(opened, seed));
    const allocate = vi.spyOn(device!, "allocate");

    for (const [one, other] of [
      [0, 1],
      [0, 1],
      [2, 3],
      [2, 3],
      [0, 3],
      [0, 3],
      [0, 3],
    ] as const) {
      expect(await fault(opened, [made[one], made[other], made[one]])).toBeUndefined();
    }

    expect(allocate).toHaveBeenCalled();
    await opened.accelerator.close();
  });

  test("for which the device has no memory are sent with each search", async () => {
    const opened = await open(3000, 2);
    const made = madeFilter(opened, 1);
    expect(await fault(opened, [made, made, made])).toBeUndefined();
    const full = new WinnowError("RESOURCE_EXHAUSTED", "no room");
    const allocate = vi.spyOn(device!, "allocate").mockRejectedValue(full);

    expect(await fault(opened, [made, made, made])).toBeUndefined();
    expect(allocate).toHaveBeenCalledTimes(2);
    await opened.accelerator.close();
  });

  test("a device that is lost while it takes them rejects the search", async () => {
    const opened = await open(3000, 2);
    const made = madeFilter(opened, 1);
    expect(await fault(opened, [made, made, made])).toBeUndefined();
    vi.spyOn(device!, "allocate").mockRejectedValue(new WinnowError("UNAVAILABLE", "lost"));

    const search = fault(opened, [made, made, made]);

    await expect(search).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await opened.accelerator.close();
  });
});
