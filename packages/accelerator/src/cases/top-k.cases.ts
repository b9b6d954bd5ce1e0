// Exact top-k on every accelerator: the answers are compared bit for bit with a sort of all canonical
// scores, with and without excluded and masked rows.

import { expect, test } from "vitest";
import {
  EXACTNESS_FAMILIES,
  answer,
  bruteForce,
  firstDifference,
  loadParts,
} from "./exactness.cases.ts";
import { normalProblem, bitmapOf, searchShape } from "../fixtures/search-problem.ts";
import type { OpenAccelerator } from "../fixtures/search-problem.ts";

const seed = Number(process.env["TEST_SEED"]);
const DIMS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 100, 127, 255, 300, 1000, 4096];

/**
 * Answers are exact for every table, batch and division into partitions. On a slow accelerator each table is whole or cut,
 * by turns, and not both, and a third of the tables and of the dims is searched: another TEST_SEED takes the others.
 */
export function describeExactness(open: OpenAccelerator, isSlow: boolean): void {
  const families = Object.entries(EXACTNESS_FAMILIES).map(([name, family], index) => {
    const divisions = isSlow ? [index % 2 === 0 ? 3 : 1] : [1, 3];
    return { name, family, divisions };
  });
  // Pairs, so that there are whole tables and cut ones.
  const searched = families.filter((_, index) => !isSlow || (index + seed) % 6 < 2);
  test.each(searched)("I2: $name", async ({ family, divisions }) => {
    const problem = family();

    for (const parts of divisions) {
      const block = await answer(open(), problem, parts);

      expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
    }
  });

  test.each(DIMS.filter((_, index) => !isSlow || (index + seed) % 3 === 0))(
    "any dimension: %i",
    async (dim) => {
      const problem = normalProblem(dim > 500 ? 150 : 700, dim, 3);

      const block = await answer(open(), problem, 2);

      expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
    },
  );

  test("queries of one batch do not influence each other", async () => {
    const queries = isSlow ? 9 : 33;
    const problem = normalProblem(5000, 20, queries);
    const accelerator = open();
    const residents = await loadParts(accelerator, problem, 2);
    const { vectors, dim, k } = problem;

    const together = await accelerator.topK({ residents, vectors, k });

    for (let query = 0; query < queries; query += 1) {
      const vector = vectors.subarray(query * dim, (query + 1) * dim);
      const alone = await accelerator.topK({ residents, vectors: vector, k });
      expect(alone.scores).toEqual(together.scores.slice(query * k, (query + 1) * k));
      expect(alone.rows).toEqual(together.rows.slice(query * k, (query + 1) * k));
    }
  });

  test("the number of threads changes no bit", async () => {
    const problem = normalProblem(12_000, 33, isSlow ? 5 : 17);

    const one = await answer(open({ threads: 1 }), problem, 5);
    const five = await answer(open({ threads: 5 }), problem, 5);

    expect(firstDifference(one, bruteForce(problem))).toBeUndefined();
    expect(firstDifference(five, one)).toBeUndefined();
  });

  test("residents may be named in any order, and a part of them alone", async () => {
    const problem = normalProblem(4000, 12, 4);
    const accelerator = open();
    const residents = await loadParts(accelerator, problem, 4);
    const { vectors, k } = problem;

    const turned = await accelerator.topK({ residents: residents.toReversed(), vectors, k });
    const half = await accelerator.topK({ residents: residents.slice(2), vectors, k });

    expect(firstDifference(turned, bruteForce(problem))).toBeUndefined();
    const upper = bitmapOf(4000, (row) => row >= 2000);
    const admittedRows = [upper, upper, upper, upper];
    expect(firstDifference(half, bruteForce({ ...problem, admittedRows }))).toBeUndefined();
  });

  test("many searches at once each get their own answer", async () => {
    const problem = normalProblem(3000, 16, 12);
    const accelerator = open();
    const residents = await loadParts(accelerator, problem, 3);
    const expected = bruteForce(problem);

    const blocks = await Promise.all(
      Array.from({ length: 12 }, (_, query) =>
        accelerator.topK({
          residents,
          vectors: problem.vectors.slice(query * 16, (query + 1) * 16),
          k: 10,
        }),
      ),
    );

    for (const [query, block] of blocks.entries()) {
      expect(block.rows).toEqual(expected.rows.slice(query * 10, (query + 1) * 10));
    }
  });

  test("no query is answered by an empty block", async () => {
    const accelerator = open();
    const residents = await loadParts(accelerator, normalProblem(100, 8, 1), 1);

    const block = await accelerator.topK({ residents, vectors: new Float32Array(0), k: 5 });

    expect(block.queries).toBe(0);
    expect(block.counts).toHaveLength(0);
  });

  test("a table without rows gives no candidates", async () => {
    const accelerator = open();
    const resident = await accelerator.load(searchShape(0, 8), []);

    const block = await accelerator.topK({
      residents: [resident],
      vectors: new Float32Array(16),
      k: 5,
    });

    expect([...block.counts]).toEqual([0, 0]);
  });
}

/** Excluded and masked rows are never returned. */
export function describeExclusions(open: OpenAccelerator): void {
  test("excluded rows never come back, and others take their place", async () => {
    const problem = normalProblem(6000, 16, 4);
    const best = bruteForce({ ...problem, k: 500 });
    const excludedOf = (query: number, count: number): Uint32Array =>
      best.rows.slice(query * 500, query * 500 + count).toSorted();
    const excludedRows = [excludedOf(0, 3), undefined, excludedOf(2, 500), new Uint32Array(0)];

    const block = await answer(open(), { ...problem, excludedRows }, 3);

    expect(firstDifference(block, bruteForce({ ...problem, excludedRows }))).toBeUndefined();
  });

  test("excluding every row leaves no candidate", async () => {
    const problem = normalProblem(700, 16, 2);
    const excludedRows = [Uint32Array.from({ length: 700 }, (_, row) => row), undefined];

    const block = await answer(open(), { ...problem, excludedRows }, 2);

    expect([...block.counts]).toEqual([0, 10]);
  });

  test("excluded rows outside the table are harmless", async () => {
    const problem = normalProblem(700, 16, 1);
    const excludedRows = [Uint32Array.of(700, 5000, 2 ** 32 - 1)];

    const block = await answer(open(), { ...problem, excludedRows }, 2);

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
  });

  test.each([
    ["every third row", 3],
    ["one row in a thousand", 1000],
    ["no row", Infinity],
    ["every row", 1],
  ])("only admitted rows come back: %s", async (_name, step) => {
    const problem = normalProblem(6000, 16, 3);
    const some = bitmapOf(6000, (row) => row % step === 0 && step !== Infinity);
    const admittedRows = [some, some, some];
    const excludedRows = [Uint32Array.of(0, 3, 9, 3000), undefined, undefined];
    const masked = { ...problem, admittedRows, excludedRows };

    const block = await answer(open(), masked, 3);

    expect(firstDifference(block, bruteForce(masked))).toBeUndefined();
  });

  test("rows past the end of the bitmap are not admitted", async () => {
    const problem = normalProblem(600, 16, 2);
    const first = new Uint8Array(10).fill(255);
    const masked = { ...problem, admittedRows: [first, first] };

    const block = await answer(open(), masked, 2);

    expect(firstDifference(block, bruteForce(masked))).toBeUndefined();
  });

  test("ties are cut by row among the admitted", async () => {
    const table = new Float32Array(500 * 4).fill(1);
    const admittedRows = [bitmapOf(500, (row) => row % 7 === 3)];
    const problem = { dim: 4, table, vectors: new Float32Array(4).fill(1), k: 6, admittedRows };

    const block = await answer(open(), problem, 2);

    expect([...block.rows]).toEqual([3, 10, 17, 24, 31, 38]);
  });

  test("each query of a batch has its own filter, or none", async () => {
    // The rows that each query would like best are in nobody else's filter.
    const problem = { ...normalProblem(9000, 16, 12), k: 40 };
    const steps = [1, 2, 9, 70, 900, 9001];
    const filters = steps.map((step) => bitmapOf(9000, (row) => row % step === step - 1));
    const admittedRows = Array.from({ length: 12 }, (_, query) => filters[query % 7]);
    const excludedRows = admittedRows.map((_, query) =>
      query % 2 === 0 ? Uint32Array.of(8, 69, 899, 8999) : undefined,
    );
    const masked = { ...problem, admittedRows, excludedRows };

    const block = await answer(open(), masked, 3);

    expect(firstDifference(block, bruteForce(masked))).toBeUndefined();
  });

  test("a filter serves many searches, and no more once it or its rows are released", async () => {
    const problem = normalProblem(500, 8, 1);
    const accelerator = open();
    const [resident] = await loadParts(accelerator, problem, 1);
    const odd = bitmapOf(500, (row) => row % 2 === 1);
    const filter = accelerator.filter(resident!, odd);
    const query = { ...problem, residents: [resident!], filters: [[filter]] };
    odd.fill(255);

    const searches = [accelerator.topK(query), accelerator.topK(query)];
    accelerator.releaseFilter(filter);
    accelerator.releaseFilter(filter);

    expect(filter.admitted).toBe(250);
    for (const block of await Promise.all(searches)) {
      expect([...block.rows].every((row) => row % 2 === 1)).toBe(true);
    }
    await expect(accelerator.topK(query)).rejects.toThrow(RangeError);
    await accelerator.release(resident!);
    expect(() => accelerator.filter(resident!, odd)).toThrow(RangeError);
  });

  test("filters that do not fit the query are refused", async () => {
    const problem = normalProblem(600, 8, 2);
    const accelerator = open();
    const residents = await loadParts(accelerator, problem, 2);
    const [first, second] = residents.map((each) => accelerator.filter(each, new Uint8Array(40)));
    const query = { vectors: problem.vectors, k: 3, residents };

    const turned = accelerator.topK({ ...query, filters: [[second!, first!], undefined] });
    const few = accelerator.topK({ ...query, filters: [undefined] });

    await expect(turned).rejects.toThrow(RangeError);
    await expect(few).rejects.toThrow("1 lists of filters do not fit 2 queries");
  });
}
