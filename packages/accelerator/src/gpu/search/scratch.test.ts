// Working memory: what searches use beside the rows has a limit of its own within the capacity. A
// search that does not fit is answered by another path or refused with a reason.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  bruteForce,
  firstDifference,
  loadParts,
  normalValues,
  seededRandom,
} from "../../cases/exactness.cases.ts";
import { createGpuAccelerator } from "../accelerator.ts";
import type { GpuDevice } from "../device/device.ts";
import type { GpuSearchCost } from "../gpu-settings.ts";
import { rowLayout } from "../codes.ts";
import { passQueries, passSizes } from "./pass-rooms.ts";
import { Scratch, scratchBytesOf } from "./scratch.ts";
import type { ScratchName } from "./scratch.ts";
import type { SearchScope } from "./search-scope.ts";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";

const { device, reason } = await sharedSoftwareGpu();

/** A device that only counts what is allocated. */
function countingDevice(): { readonly device: GpuDevice; readonly bytes: () => number } {
  let bytes = 0;
  const allocate = async (size: number): Promise<object> => {
    await Promise.resolve();
    bytes += size;
    return { size, destroy: () => (bytes -= size) };
  };
  const limits = { maxStorageBufferBindingSize: 5000, maxBufferSize: 6000 };
  return {
    device: { allocate, isTimed: false, limits } as unknown as GpuDevice,
    bytes: () => bytes,
  };
}

const sum = (sizes: Iterable<number>): number => [...sizes].reduce((all, size) => all + size, 0);

describe("working memory", () => {
  test("is an eighth of the capacity, or what is useful if that is less", () => {
    expect(scratchBytesOf(2 ** 30, 2 ** 30)).toBe(2 ** 27);
    expect(scratchBytesOf(2 ** 37, 2 ** 30)).toBe(2 ** 30);
    expect(scratchBytesOf(Infinity, 5)).toBe(5);
  });

  test("grows to what is asked, stays for the next, and never passes its limit", async () => {
    const names: ScratchName[] = ["query", "bounds", "found", "result"];
    const shape = fc.array(fc.integer({ min: 0, max: 4000 }), { minLength: 4, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(fc.array(shape, { maxLength: 20 }), async (shapes) => {
        const { device: counting, bytes } = countingDevice();
        const scratch = new Scratch(counting, 10_000);
        for (const sizes of shapes) {
          const asked = Object.fromEntries(names.map((name, at) => [name, sizes[at]!]));
          if (sum(sizes) > scratch.roomBytes) continue;
          await scratch.reserve(asked);
          expect(bytes()).toBe(scratch.usedBytes);
          expect(bytes()).toBeLessThanOrEqual(10_000);
          for (const name of names) {
            const { size } = scratch.buffer(name);
            expect(size).toBeGreaterThanOrEqual(asked[name]!);
            expect(size).toBeLessThanOrEqual(5000);
          }
        }
        scratch.close();
        expect(bytes()).toBe(0);
      }),
    );
  });

  test("is allocated once for batches that differ a little", async () => {
    const { device: counting, bytes } = countingDevice();
    const scratch = new Scratch(counting, 100_000);
    await scratch.reserve({ found: 3000 });
    const before = bytes();

    for (let size = 3000; size < 4096; size += 100) await scratch.reserve({ found: size });

    expect(bytes()).toBe(before);
    expect(scratch.buffer("found").size).toBe(4096);
  });

  test("that does not suffice is refused with what would", async () => {
    const scratch = new Scratch(countingDevice().device, 10_000);

    const reserve = scratch.reserve({ found: 10_001 });

    await expect(reserve).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await expect(reserve).rejects.toThrow(/10000 are set aside; .*larger memory limit/);
  });

  test("decides how many queries go together", () => {
    const scope = { slabs: [{}], rangeWords: [0, 0, 0, 0], slots: 1000, layout: rowLayout(64) };
    const search = scope as unknown as SearchScope;
    const limits = fc.record({
      scratchBytes: fc.nat(2 ** 30),
      bufferBytes: fc.nat(2 ** 29),
      queries: fc.integer({ min: 1, max: 400 }),
    });
    const pass = fc.record({
      k: fc.integer({ min: 1, max: 2048 }),
      excludedRowsMax: fc.option(fc.nat(9999), { nil: undefined }),
      isMasked: fc.boolean(),
    });
    fc.assert(
      fc.property(pass, limits, (shape, { scratchBytes, bufferBytes, queries }) => {
        const fits = (count: number): boolean => {
          const sizes = Object.values(passSizes(search, shape, count));
          return sum(sizes) <= scratchBytes && Math.max(...sizes) <= bufferBytes;
        };

        const count = passQueries(search, shape, { scratchBytes, bufferBytes, queries });

        expect(count === 0 || fits(count)).toBe(true);
        expect(count === Math.min(queries, 256) || !fits(count + 1)).toBe(true);
      }),
    );
  });

  test("a candidate comes back in 8 bytes, a query's head in 16", () => {
    const scope = { slabs: [{}], rangeWords: [], slots: 10_000, layout: rowLayout(64) };
    const shape = { k: 100, excludedRowsMax: undefined, isMasked: false };

    expect(passSizes(scope as unknown as SearchScope, shape, 7).result).toBe(7 * 816);
  });
});

describe.skipIf(device === undefined)(`a small device ${reason}`, () => {
  const random = seededRandom(8);
  const table = normalValues(random, 4000 * 16);
  const vectors = normalValues(random, 3 * 16);

  test("answers queries that do not fit its working memory by the exact road", async () => {
    const costs: GpuSearchCost[] = [];
    const onSearch = (cost: GpuSearchCost): number => costs.push(cost);
    const capacityBytes = 700_000;
    const accelerator = createGpuAccelerator(device!, { capacityBytes, onSearch });
    const residents = await loadParts(accelerator, { table, dim: 16 }, 2);
    const problem = { dim: 16, table, vectors, k: 200 };

    const block = await accelerator.topK({ residents, ...problem });

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
    expect(costs[0]!.exactQueries).toBe(3);
    await accelerator.close();
  });

  test("says so if there is no room for a search at all", async () => {
    const accelerator = createGpuAccelerator(device!, { capacityBytes: 20_000 });
    const residents = await loadParts(accelerator, { table: table.slice(0, 64), dim: 16 }, 1);

    const search = accelerator.topK({ residents, vectors, k: 1 });

    await expect(search).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    await accelerator.close();
    expect(accelerator.memory().usedBytes).toBe(0);
  });
});
