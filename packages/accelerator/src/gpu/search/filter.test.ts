// The fast path of the GPU accelerator is fast because it excludes rows, and exact because it never
// excludes one wrongly: what it lets pass, when it gives up, and how large tables are cut.

import fc from "fast-check";
import { mergeTopK } from "@winnow/core";
import type { TopKBlock } from "@winnow/core";
import { describe, expect, test } from "vitest";
import {
  EXACTNESS_FAMILIES,
  answer,
  bruteForce,
  firstDifference,
  loadParts,
  normalValues,
  seededRandom,
} from "../../cases/exactness.cases.ts";
import type { SearchProblem } from "../../cases/exactness.cases.ts";
import { createReferenceAccelerator } from "../../reference/accelerator.ts";
import { createAccelerator } from "../../create-accelerator.ts";
import { createGpuAccelerator } from "../accelerator.ts";
import { openGpuDevice } from "../device/device.ts";
import { resolveGpuOptions } from "../gpu-settings.ts";
import type { GpuAcceleratorOptions, GpuSearchCost } from "../gpu-settings.ts";
import { HIDDEN_FAMILIES } from "./hidden-families.cases.ts";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";

const { device, reason } = await sharedSoftwareGpu();
const CAPACITY_BYTES = 2 ** 30;
/** Searches by chance; a device in software takes half a second for one. `npm run fuzz:gpu` has more of them. */
const SEARCHES = Number(process.env["FUZZ_SEARCHES"] ?? 5);
const ROWS_MAX = "FUZZ_SEARCHES" in process.env ? 1500 : 500;
const SEARCHES_MS_MAX = 120_000 + SEARCHES * 3000;

/** Answers by the GPU, with the cost of the search. */
async function searched(
  problem: SearchProblem,
  options: Partial<GpuAcceleratorOptions> = {},
  parts = 1,
): Promise<{ readonly block: TopKBlock; readonly cost: GpuSearchCost }> {
  const costs: GpuSearchCost[] = [];
  const accelerator = createGpuAccelerator(device!, {
    capacityBytes: CAPACITY_BYTES,
    onSearch: (cost) => costs.push(cost),
    ...options,
  });
  const block = await answer(accelerator, problem, parts);
  await accelerator.close();
  return { block, cost: costs[0]! };
}

function normalProblem(
  rows: number,
  dim: number,
  of: { readonly queries: number; readonly k: number },
): SearchProblem {
  const random = seededRandom(rows + dim);
  const table = normalValues(random, rows * dim);
  return { dim, k: of.k, table, vectors: normalValues(random, of.queries * dim) };
}

describe.skipIf(device === undefined)(`the GPU's filter ${reason}`, () => {
  test("keeps few groups and scores few rows beyond those returned", async () => {
    const problem = normalProblem(20_000, 64, { queries: 5, k: 10 });

    const { block, cost } = await searched(problem);

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
    expect(cost.filteredQueries).toBe(5);
    expect(cost.keptGroups).toBeLessThan(5 * 60);
    expect(cost.scoredRows).toBeLessThan(5 * 60);
  });

  test.each([
    ["normal values", "filteredQueries", 9],
    ["ternary ties", "filteredQueries", 5],
    ["many equal rows of a large table", "exactQueries", 2],
    ["scores that overflow", "exactQueries", 5],
    ["queries with NaN", "hostQueries", 1],
    ["queries with infinities", "hostQueries", 5],
    ["log-normal norms", "filteredQueries", 5],
    ["norms from 2^-120 to 2^120", "filteredQueries", 0],
  ] as const)("%s: %s is %i", async (family, road, count) => {
    const { cost } = await searched(EXACTNESS_FAMILIES[family]!());

    expect(cost[road]).toBe(count);
  });
});

describe.skipIf(device === undefined)(`what codes hide ${reason}`, () => {
  test.each(Object.entries(HIDDEN_FAMILIES))("%s", async (_name, family) => {
    const problem = family();

    const { block } = await searched(problem);

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
  });
});

describe.skipIf(device === undefined)(`large tables on a GPU ${reason}`, () => {
  const excludedSome = (problem: SearchProblem, count: number, seed: number): SearchProblem => {
    const random = seededRandom(seed);
    const rows = problem.table.length / problem.dim;
    const best = bruteForce({ ...problem, k: 40 });
    const excludedRows = Array.from({ length: best.queries }, (_, query) => {
      const others = Array.from({ length: count }, () => Math.floor(random() * rows * 1.1));
      const popular = best.rows.slice(query * 40, query * 40 + 20);
      return query % 3 === 2 ? undefined : Uint32Array.from([...others, ...popular]).toSorted();
    });
    const half = Uint8Array.from({ length: rows / 8 }, () => Math.floor(random() * 256));
    const admittedRows = excludedRows.map((_, query) => (query % 4 === 1 ? undefined : half));
    return { ...problem, excludedRows, admittedRows };
  };

  test.each([
    ["many slabs", { slabBytesMax: 40_000 }],
    ["a slab per group", { slabBytesMax: 1 }],
    ["little working memory", { scratchBytesMax: 2_000_000 }],
    ["small uploads and small steps", { uploadBytesMax: 1, exactStepProducts: 1000 }],
  ])("are answered alike by %s", async (_name, options) => {
    const problem = excludedSome(normalProblem(1501, 24, { queries: 11, k: 30 }), 150, 3);

    const { block, cost } = await searched(problem, options, 3);

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
    expect(cost.filteredQueries).toBe(11);
  });

  test("the exact path answers alike in small steps over many slabs, with exclusions", async () => {
    const tied = EXACTNESS_FAMILIES["equal rows"]!();
    const problem = excludedSome(tied, 300, 4);
    const options = { slabBytesMax: 40_000, exactStepProducts: 1000 };

    const { block, cost } = await searched(problem, options, 3);

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
    expect(cost.exactQueries).toBeGreaterThan(0);
  });

  test("k up to 2,048 goes the fast path", async () => {
    const problem = normalProblem(20_000, 8, { queries: 2, k: 2048 });

    const { block, cost } = await searched(problem);

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
    expect(cost.filteredQueries).toBe(2);
  });

  test(
    "agree with the reference whatever the shapes, cuts, exclusions and masks",
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.record({
            rows: fc.integer({ min: 1, max: ROWS_MAX }),
            dim: fc.integer({ min: 1, max: 70 }),
            queries: fc.integer({ min: 1, max: 20 }),
            k: fc.integer({ min: 1, max: 60 }),
            parts: fc.integer({ min: 1, max: 5 }),
            slabBytesMax: fc.integer({ min: 1, max: 200_000 }),
            levels: fc.constantFrom(1, 2, 9, 1e6),
            spread: fc.constantFrom(0, 1, 20),
            isFiltered: fc.boolean(),
            seed: fc.integer(),
          }),
          async ({ rows, dim, queries, parts, slabBytesMax, ...of }) => {
            const random = seededRandom(of.seed);
            const value = (): number =>
              (Math.round(normalValues(random, 1)[0]! * of.levels) / of.levels) *
              2 ** Math.round(of.spread * (random() - 0.5));
            const filled = (count: number): Float32Array =>
              Float32Array.from({ length: count }, value);
            const plain = {
              dim,
              k: of.k,
              table: filled(rows * dim),
              vectors: filled(queries * dim),
            };
            const problem = of.isFiltered ? excludedSome(plain, rows / 4, of.seed) : plain;

            const { block } = await searched(problem, { slabBytesMax }, Math.min(parts, rows));

            expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
          },
        ),
        { numRuns: SEARCHES },
      );
    },
    SEARCHES_MS_MAX,
  );

  test("many batches at once each get their own answer", async () => {
    const problem = normalProblem(5000, 16, { queries: 40, k: 10 });
    const accelerator = createGpuAccelerator(device!, { capacityBytes: CAPACITY_BYTES, lanes: 3 });
    const residents = await loadParts(accelerator, problem, 2);
    const expected = bruteForce(problem);

    const blocks = await Promise.all(
      Array.from({ length: 20 }, (_, batch) =>
        accelerator.topK({
          residents,
          vectors: problem.vectors.slice(batch * 32, (batch + 1) * 32),
          k: 10,
        }),
      ),
    );

    for (const [batch, block] of blocks.entries()) {
      expect(block.rows).toEqual(expected.rows.slice(batch * 20, (batch + 1) * 20));
    }
    await accelerator.close();
  });

  test("I2: devices of several kinds give one answer together", async () => {
    const problem = normalProblem(6000, 20, { queries: 7, k: 25 });
    const gpu = createGpuAccelerator(device!, { capacityBytes: CAPACITY_BYTES });
    const others = [
      createReferenceAccelerator({ capacityBytes: CAPACITY_BYTES }),
      (await createAccelerator("cpu", { capacityBytes: CAPACITY_BYTES })).accelerator,
    ];
    const { vectors, k } = problem;

    const blocks = await Promise.all(
      [gpu, ...others].map(async (accelerator, part) => {
        const residents = await loadParts(accelerator, problem, 12);
        const own = residents.filter((_resident, index) => index % 3 === part);
        return accelerator.topK({ residents: own, vectors, k });
      }),
    );

    expect(firstDifference(mergeTopK(blocks, k), bruteForce(problem))).toBeUndefined();
    await Promise.all([gpu, ...others].map((accelerator) => accelerator.close()));
  });
});

test.skipIf(device === undefined)(
  "a timed device without subgroups answers alike and tells how long each stage took",
  async () => {
    const problem = normalProblem(4000, 16, { queries: 71, k: 10 });
    const how = { allowSoftware: true, isTimed: true, usesSubgroups: false };
    const timed = await openGpuDevice(resolveGpuOptions(how));
    const costs: GpuSearchCost[] = [];
    const accelerator = createGpuAccelerator(timed, {
      capacityBytes: CAPACITY_BYTES,
      ownsDevice: true,
      onSearch: (cost) => costs.push(cost),
    });

    const block = await answer(accelerator, problem, 2);
    const alone = { ...problem, vectors: problem.vectors.slice(0, 16) };
    const single = await answer(accelerator, alone, 2);

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
    expect(firstDifference(single, bruteForce(alone))).toBeUndefined();
    const stageNs: Readonly<Record<string, number>> = costs[0]!.stageNs ?? {};
    expect(Object.keys(stageNs)).toEqual(["scan", "select", "sift", "score", "order"]);
    expect(Math.min(...Object.values(stageNs))).toBeGreaterThan(0);
    await accelerator.close();
  },
);
