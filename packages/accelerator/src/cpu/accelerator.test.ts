// The CPU accelerator does what every accelerator must do, in each instruction set of this machine;
// its filter saves memory and work; and every part of its bound is needed.

import { describe, expect, test } from "vitest";
import { describeAccelerator } from "../cases/accelerator.cases.ts";
import type { InstructionSet } from "../accelerator-options.ts";
import {
  EXACTNESS_FAMILIES,
  answer,
  bruteForce,
  firstDifference,
  normalValues,
  seededRandom,
} from "../cases/exactness.cases.ts";
import { createReferenceAccelerator } from "../reference/accelerator.ts";
import { createCpuAccelerator } from "./accelerator.ts";
import type { CpuAcceleratorOptions } from "./accelerator.ts";
import { loadNativeAddon } from "./native-addon.ts";
import type { NativeAddon, NativeAnswer } from "./native-addon.ts";

const { addon, reason } = loadNativeAddon();
const CAPACITY_BYTES = 2 ** 30;

/** The instruction sets that this machine has. */
function instructionSets(native: NativeAddon): InstructionSet[] {
  const all: InstructionSet[] = [
    ...(["amx", "avx512-vnni", "avx2"] as const),
    ...(["neon-i8mm", "neon-dotprod"] as const),
    "portable",
  ];
  return all.filter((set) => {
    const { handle, kernel } = native.createDevice(1, set);
    native.releaseDevice(handle);
    return kernel === set;
  });
}

for (const instructionSet of addon === undefined ? [] : instructionSets(addon)) {
  describeAccelerator(instructionSet, (options) =>
    createCpuAccelerator(addon!, { ...options, instructionSet }),
  );
}

describe.skipIf(addon === undefined)(`the native scan ${reason ?? ""}`, () => {
  describeFilter(addon!);
});

function describeFilter(native: NativeAddon): void {
  async function searchCost(
    family: string,
    options: Partial<CpuAcceleratorOptions> = {},
  ): Promise<NativeAnswer[]> {
    const costs: NativeAnswer[] = [];
    const accelerator = createCpuAccelerator(native, {
      capacityBytes: CAPACITY_BYTES,
      onSearch: (found) => costs.push(found),
      ...options,
    });
    await answer(accelerator, EXACTNESS_FAMILIES[family]!(), 1);
    await accelerator.close();
    return costs;
  }

  describe("the filter", () => {
    test("lets few rows pass beyond those returned", async () => {
      const [found] = await searchCost("normal values", { threads: 1 });

      expect(found!.denseQueries).toBe(0);
      expect(found!.rescored).toBeLessThan(9 * 250);
    });

    test("is not misled by a dimension that is far larger than all others", async () => {
      const family = "one large dimension that queries weigh little";
      const [found] = await searchCost(family, { threads: 1 });

      expect(found!.denseQueries).toBe(0);
      expect(found!.rescored).toBeLessThan(5 * 20 * 8);
    });

    test("gives a query up to the dense scan when a table is full of ties", async () => {
      const [found] = await searchCost("many equal rows of a large table");

      expect(found!.denseQueries).toBe(2);
    });

    test.each([
      ["queries with NaN", 1],
      ["queries with infinities", 5],
      ["zero queries", 5],
      ["scores that overflow", 5],
      ["normal values", 0],
    ])("leaves to the dense scan what it cannot bound: %s", async (family, queries) => {
      const [found] = await searchCost(family);

      expect(found!.denseQueries).toBe(queries);
    });

    test("costs at most 1.3 times the memory of the rows", async () => {
      for (const [rows, dim] of [
        [62_500, 64],
        [62_500, 128],
        [20_000, 32],
      ] as const) {
        const accelerator = createCpuAccelerator(native, { capacityBytes: CAPACITY_BYTES });
        const shape = { rows, dim, firstRow: 0, use: "search" } as const;

        const resident = await accelerator.load(shape, [new Float32Array(rows * dim)]);

        expect(resident.bytes / (rows * dim * 4)).toBeLessThan(1.3);
        await accelerator.close();
      }
    });
  });

  test("released rows are given back to the system at once", async () => {
    const [rows, dim] = [500_000, 64];
    const accelerator = createCpuAccelerator(native, { capacityBytes: CAPACITY_BYTES });
    function* chunks(): Generator<Float32Array> {
      for (let done = 0; done < rows; done += 10_000)
        yield new Float32Array(10_000 * dim).fill(done);
    }
    const shape = { rows, dim, firstRow: 0, use: "search" } as const;
    const resident = await accelerator.load(shape, chunks());
    await accelerator.topK({ residents: [resident], vectors: new Float32Array(dim).fill(1), k: 5 });
    const before = process.memoryUsage.rss();

    await accelerator.release(resident);

    expect(before - process.memoryUsage.rss()).toBeGreaterThan(0.8 * resident.bytes);
    await accelerator.close();
  });

  describe("the guessed threshold", () => {
    test.each([0, 0.3])("changes no answer when it is too high: rank weight %d", async (rank) => {
      let repeated = 0;
      const accelerator = createCpuAccelerator(native, {
        capacityBytes: CAPACITY_BYTES,
        threads: 2,
        boundWeights: Float64Array.of(1, 1, 1, rank),
        onSearch: (found) => {
          repeated += found.repeatedQueries;
        },
      });

      const wrong: string[] = [];
      for (const [name, family] of Object.entries(EXACTNESS_FAMILIES)) {
        const problem = family();
        const block = await answer(accelerator, problem, 2);
        if (firstDifference(block, bruteForce(problem)) !== undefined) wrong.push(name);
      }

      expect(wrong).toEqual([]);
      expect(repeated).toBeGreaterThan(0);
      await accelerator.close();
    });

    test("is right where the sample is large enough", async () => {
      const [found] = await searchCost("normal values", { threads: 2 });

      expect(found!.repeatedQueries).toBe(0);
    });
  });

  describe("the bound", () => {
    // Each part of the bound must be needed, and the suite must notice when it is missing.
    test.each([
      ["row error", 0],
      ["query error", 1],
      ["norm", 2],
    ])("with its %s weakened, answers are wrong and the suite notices", async (_name, part) => {
      const boundWeights = Float64Array.of(1, 1, 1, 1);
      boundWeights[part] = part === 2 ? 0.25 : 0;
      const accelerator = createCpuAccelerator(native, {
        capacityBytes: CAPACITY_BYTES,
        // One thread takes the units in order, so that the norm can end the scan early.
        threads: 1,
        boundWeights,
      });

      const wrong: string[] = [];
      for (const [name, family] of Object.entries(EXACTNESS_FAMILIES)) {
        const problem = family();
        const block = await answer(accelerator, problem, 2);
        if (firstDifference(block, bruteForce(problem)) !== undefined) wrong.push(name);
      }

      expect(wrong).not.toEqual([]);
      await accelerator.close();
    });
  });

  test("agrees with the reference on tables of many units, with exclusions and a mask", async () => {
    const random = seededRandom(77);
    const [rows, dim, queries] = [50_000, 40, 40];
    const scales = normalValues(random, rows).map((value) => Math.exp(0.4 * value));
    const table = normalValues(random, rows * dim).map(
      (value, at) => value * scales[Math.floor(at / dim)]!,
    );
    const vectors = normalValues(random, queries * dim);
    const excludedRows = Array.from({ length: queries }, (_, query) =>
      query % 3 === 0
        ? undefined
        : Uint32Array.from({ length: 500 }, () => Math.floor(random() * rows)).toSorted(),
    );
    const half = Uint8Array.from({ length: rows / 8 }, () => Math.floor(random() * 256));
    const few = half.map((byte) => (byte < 4 ? byte : 0));
    const admittedRows = Array.from(
      { length: queries },
      (_, query) => [half, undefined, few][query % 3],
    );
    const problem = { dim, table, vectors, k: 77, excludedRows, admittedRows };
    const options = { capacityBytes: CAPACITY_BYTES, threads: 3 };

    const native1 = createCpuAccelerator(native, options);
    const fast = await answer(native1, problem, 7);
    const obvious = await answer(createReferenceAccelerator(options), problem, 1);

    expect(firstDifference(fast, obvious)).toBeUndefined();
    await native1.close();
  });
}
