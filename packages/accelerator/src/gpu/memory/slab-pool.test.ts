// Partitions that share slabs on the device are loaded, searched together or in part, moved and
// released; every answer equals the reference's, and every byte is accounted for.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Accelerator, Resident } from "../../accelerator.ts";
import { createGpuAccelerator } from "../accelerator.ts";
import type { GpuAcceleratorOptions, GpuSearchCost } from "../gpu-settings.ts";
import {
  DIM,
  GROUP_BYTES,
  K,
  VALUE_BYTES,
  bytesOf,
  gatherFault,
  load,
  searchFault,
} from "../fixtures/shared-table.ts";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";

const { device, reason } = await sharedSoftwareGpu();

interface Opened {
  readonly accelerator: Accelerator;
  readonly costs: GpuSearchCost[];
}

function openOne(options: Partial<GpuAcceleratorOptions> = {}): Opened {
  const costs: GpuSearchCost[] = [];
  const onSearch = (cost: GpuSearchCost): number => costs.push(cost);
  const settings = { capacityBytes: 2 ** 28, onSearch, ...options };
  return { accelerator: createGpuAccelerator(device!, settings), costs };
}

/** Courses by chance; a device in software takes a third of a second for one. `npm run fuzz:gpu` has more of them. */
const COURSES = Number(process.env["FUZZ_SEARCHES"] ?? 12);
const COURSES_MS_MAX = 120_000 + COURSES * 3000;

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

describe.skipIf(device === undefined)(`partitions in shared slabs ${reason}`, () => {
  test("16 partitions of a table are searched with the dispatches of one", async () => {
    const { accelerator, costs } = openOne();
    const residents: Resident[] = [];
    for (let part = 0; part < 16; part += 1) {
      residents.push(await load(accelerator, part * 500, 500));
    }

    expect(await searchFault(accelerator, residents)).toBeUndefined();

    // Scan, sift, score per slab; exclude, select, list, rank per pass; 15 + 1 partitions.
    expect(costs[0]!.dispatches).toBe(2 * 3 + 4);
    expect(costs[0]!.readBytes).toBe(3 * (16 + K * 8));
    expect(accelerator.memory().usedBytes).toBe(16 * 4 * GROUP_BYTES);
    await accelerator.close();
    expect(accelerator.memory().usedBytes).toBe(0);
  });

  test("some are released, the others searched, and others loaded into their place", async () => {
    const { accelerator, costs } = openOne();
    const [first, second, third] = [
      await load(accelerator, 0, 1000),
      await load(accelerator, 1000, 1500),
      await load(accelerator, 2500, 700),
    ];
    const { usedBytes } = accelerator.memory();

    await accelerator.release(second);

    expect(accelerator.memory().usedBytes).toBe(bytesOf([first, third]));
    expect(await searchFault(accelerator, [third, first])).toBeUndefined();
    const again = await load(accelerator, 1000, 1500);
    expect(accelerator.memory().usedBytes).toBe(usedBytes);
    expect(await searchFault(accelerator, [first, again, third])).toBeUndefined();
    expect(await searchFault(accelerator, [again])).toBeUndefined();
    expect(await gatherFault(accelerator, again)).toBeUndefined();
    expect(costs.map(({ exactQueries }) => exactQueries)).toEqual([0, 0, 0]);
    await accelerator.close();
  });

  test("a resident larger than a buffer may be lies in several", async () => {
    const { accelerator, costs } = openOne({ slabBytesMax: 3 * VALUE_BYTES });
    const residents = [await load(accelerator, 130, 2000), await load(accelerator, 4000, 200)];

    expect(await searchFault(accelerator, residents)).toBeUndefined();
    expect(await gatherFault(accelerator, residents[0]!)).toBeUndefined();

    // 16 groups in slabs of three; the last of them shares a slab with the other two: six slabs.
    expect(costs[0]!.dispatches).toBe(6 * 3 + 4);
    await accelerator.close();
  });

  test("holes are reused where there is no memory to close them", async () => {
    const capacityBytes = Math.ceil((10 * GROUP_BYTES * 8) / 7);
    const { accelerator } = openOne({ capacityBytes });
    const residents = [await load(accelerator, 0, 256), await load(accelerator, 256, 256)];
    residents.push(await load(accelerator, 512, 256), await load(accelerator, 768, 512));
    await accelerator.release(residents.shift()!);
    const rest = await load(accelerator, 2000, 256);

    expect(accelerator.memory().usedBytes).toBe(10 * GROUP_BYTES);
    expect(await searchFault(accelerator, [...residents, rest])).toBeUndefined();
    const tooMuch = load(accelerator, 4000, 1);
    await expect(tooMuch).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(await searchFault(accelerator, [...residents, rest])).toBeUndefined();
    await accelerator.close();
  });

  test("a load that fails gives its room back and disturbs nobody", async () => {
    const { accelerator } = openOne();
    const resident = await load(accelerator, 0, 1000);
    const other = await load(accelerator, 3000, 1000);
    await accelerator.release(other);
    const shape = { rows: 900, dim: DIM, firstRow: 1000, use: "search" } as const;

    const failed = accelerator.load(shape, [new Float32Array(DIM * 300).fill(9)]);

    await expect(failed).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(accelerator.memory().usedBytes).toBe(resident.bytes);
    expect(await searchFault(accelerator, [resident])).toBeUndefined();
    await accelerator.close();
  });

  test("a load that begins while others move finds room beside them", async () => {
    for (let turns = 0; turns < 12; turns += 1) {
      const { accelerator } = openOne();
      const first = await load(accelerator, 0, 700);
      const second = await load(accelerator, 1000, 700);

      const released = accelerator.release(first);
      for (let turn = 0; turn < turns; turn += 1) await nextTurn();
      const third = await load(accelerator, 3000, 500);
      await released;

      expect(await searchFault(accelerator, [second, third])).toBeUndefined();
      expect(accelerator.memory().usedBytes).toBe(bytesOf([second, third]));
      await accelerator.close();
    }
  });

  test("searches under way are right while partitions come, move and go", async () => {
    const { accelerator } = openOne({ lanes: 3 });
    const kept = [await load(accelerator, 0, 900), await load(accelerator, 900, 300)];
    const faults: Promise<string | undefined>[] = [];
    const changes: Promise<unknown>[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      const coming = load(accelerator, 2000 + turn * 400, 400);
      faults.push(searchFault(accelerator, kept), searchFault(accelerator, kept.slice(1)));
      changes.push(coming.then((resident) => accelerator.release(resident)));
      faults.push(coming.then(() => searchFault(accelerator, kept)));
    }

    expect(await Promise.all(faults)).toEqual(faults.map(() => undefined));
    await Promise.all(changes);
    expect(accelerator.memory().usedBytes).toBe(bytesOf(kept));
    await accelerator.close();
  });

  test(
    "any sequence of loads, releases and searches is exact and accounted for",
    async () => {
      const step = fc.record({
        what: fc.constantFrom("load", "load", "release", "search"),
        pick: fc.nat(),
        rows: fc.integer({ min: 1, max: 700 }),
      });
      const slabGroups = fc.constantFrom(1, 2, 5, 1000);
      await fc.assert(
        fc.asyncProperty(slabGroups, fc.array(step, { maxLength: 14 }), async (groups, steps) => {
          const { accelerator } = openOne({ slabBytesMax: groups * VALUE_BYTES });
          const held: Resident[] = [];
          // Parts of the table, each loaded at most once at a time.
          const begins = [0, 1, 901, 1801, 2701, 3601, 4501, 5401, 6301, 7201];
          for (const { what, pick, rows } of steps) {
            const free = begins.filter((begin) => held.every(({ firstRow }) => firstRow !== begin));
            let fault: string | undefined;
            if (what === "load" && free.length > 0) {
              const firstRow = free[pick % free.length]!;
              held.push(await load(accelerator, firstRow, firstRow === 0 ? 1 : rows));
            } else if (what === "release" && held.length > 0) {
              await accelerator.release(held.splice(pick % held.length, 1)[0]!);
            } else if (held.length > 0) {
              const some = held.filter((_, at) => at === pick % held.length || at === pick % 3);
              fault = await searchFault(accelerator, some);
            }
            expect(fault).toBeUndefined();
            expect(accelerator.memory().usedBytes).toBe(bytesOf(held));
          }
          for (const resident of held)
            expect(await gatherFault(accelerator, resident)).toBeUndefined();
          await Promise.all(held.map((resident) => accelerator.release(resident)));
          expect(accelerator.memory().usedBytes).toBe(0);
          await accelerator.close();
        }),
        { numRuns: COURSES },
      );
    },
    COURSES_MS_MAX,
  );
});
