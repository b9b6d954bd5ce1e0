// The limits of the fast path: the largest k and dims, odd dims, masks that admit a part, more
// excluded rows than a grid has threads. The tests check that the fast path gave the answer, and
// the answer.

import { describe, expect, test } from "vitest";
import {
  answer,
  bruteForce,
  firstDifference,
  normalValues,
  seededRandom,
} from "../../cases/exactness.cases.ts";
import type { SearchProblem } from "../../cases/exactness.cases.ts";
import { bitmapOf } from "../../fixtures/search-problem.ts";
import { createGpuAccelerator } from "../accelerator.ts";
import type { GpuAcceleratorOptions, GpuSearchCost } from "../gpu-settings.ts";
import { GRID_WIDTH, ROW_THREADS } from "../shaders/prelude.ts";
import { sharedSoftwareGpu } from "../fixtures/software-gpu.ts";

const { device, reason } = await sharedSoftwareGpu();
const isAskedAll = device?.isSoftware === false || "FUZZ_SEARCHES" in process.env;
const seed = Number(process.env["TEST_SEED"]);
/** One case on a device in software, which takes seconds for it: another TEST_SEED takes others, `npm run fuzz:gpu` all. */
const someOf = <Case>(cases: readonly Case[]): readonly Case[] =>
  cases.filter((_, index) => isAskedAll || (index + seed) % cases.length === 0);

function normalProblem(rows: number, dim: number, k: number): SearchProblem {
  const random = seededRandom(rows + dim);
  return {
    dim,
    k,
    table: normalValues(random, rows * dim),
    vectors: normalValues(random, 2 * dim),
  };
}

let kept: SearchProblem | undefined;

/** The widest table, which may be asked twice. */
function widestProblem(): SearchProblem {
  kept ??= normalProblem(2500, 1024, 2000);
  return kept;
}

/** What is wrong with the answer, or with the path that gave it. */
async function fault(
  problem: SearchProblem,
  options: Partial<GpuAcceleratorOptions> = {},
): Promise<string | undefined> {
  const costs: GpuSearchCost[] = [];
  const accelerator = createGpuAccelerator(device!, {
    capacityBytes: 2 ** 30,
    onSearch: (cost) => costs.push(cost),
    ...options,
  });
  const block = await answer(accelerator, problem, 2);
  await accelerator.close();
  const { queries = 0, filteredQueries = 0 } = costs[0] ?? {};
  return filteredQueries === queries && queries > 0
    ? firstDifference(block, bruteForce(problem))
    : `${filteredQueries} of ${queries} queries went the fast path`;
}

describe.skipIf(device === undefined)(`the GPU's fast path ${reason}`, () => {
  test.each(someOf([1, 7, 64, 127]))("answers k = 2,000 at dim %i", async (dim) => {
    expect(await fault(normalProblem(5000, dim, 2000))).toBeUndefined();
  });

  test.each(
    someOf([
      ["one slab", {}],
      ["many slabs in little working memory", { slabBytesMax: 2 ** 22, scratchBytesMax: 2 ** 25 }],
    ] as const),
  )("answers k = 2,000 at dim 1,024 over %s", async (_, options) => {
    expect(await fault(widestProblem(), options)).toBeUndefined();
  });

  test.each(
    someOf([
      [1, 50_000],
      [64, 20_000],
      [129, 20_000],
    ] as const),
  )("answers k = 2,000 under a mask that admits 11 %% at dim %i", async (dim, rows) => {
    const random = seededRandom(dim);
    const some = bitmapOf(rows, () => random() < 0.11);
    const problem = normalProblem(rows, dim, 2000);
    const admittedRows = Array.from({ length: problem.vectors.length / dim }, () => some);

    expect(await fault({ ...problem, admittedRows })).toBeUndefined();
  });

  // Eight million rows take a device in software a quarter of a minute.
  test.skipIf(!isAskedAll)(
    "leaves out more rows than one grid has threads",
    async () => {
      const rows = GRID_WIDTH * ROW_THREADS + 5000;
      const table = Float32Array.from({ length: rows }, (_, row) => row + 1);
      const excluded = Uint32Array.from({ length: rows - 30 }, (_, index) => index + 15);
      const accelerator = createGpuAccelerator(device!, { capacityBytes: 2 ** 31 });
      const resident = await accelerator.load({ rows, dim: 1, firstRow: 0, use: "search" }, [
        table,
      ]);

      const { rows: found } = await accelerator.topK({
        residents: [resident],
        vectors: Float32Array.of(1),
        k: 20,
        excludedRows: [excluded],
      });

      const last = Array.from({ length: 15 }, (_, place) => rows - 1 - place);
      expect([...found]).toEqual([...last, 14, 13, 12, 11, 10]);
      await accelerator.close();
    },
    240_000,
  );
});
