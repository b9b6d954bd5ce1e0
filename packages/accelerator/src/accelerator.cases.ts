// What every accelerator must do, whatever it is made of. Each implementation runs this suite; the
// answers are compared bit for bit with a sort of all canonical scores.

/* oxlint-disable max-lines -- one suite, read from top to bottom as the specification of a device */

import { afterEach, describe, expect, test } from "vitest";
import type { Accelerator, LoadShape, Resident } from "./accelerator.ts";
import type { AcceleratorOptions } from "./accelerator-options.ts";
import {
  EXACTNESS_FAMILIES,
  answer,
  bruteForce,
  firstDifference,
  loadParts,
  normalValues,
  seededRandom,
} from "./exactness.cases.ts";
import type { SearchProblem } from "./exactness.cases.ts";

const CAPACITY_BYTES = 512 * 2 ** 20;
const DIMS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 100, 127, 255, 300, 1000, 4096];

function normalProblem(rows: number, dim: number, queries: number): SearchProblem {
  const random = seededRandom(rows + dim * 1009 + queries);
  return {
    dim,
    k: 10,
    table: normalValues(random, rows * dim),
    vectors: normalValues(random, queries * dim),
  };
}

/** The rows named, as a bitmap. */
function bitmapOf(rows: number, admits: (row: number) => boolean): Uint8Array {
  const bitmap = new Uint8Array(Math.ceil(rows / 8));
  for (let row = 0; row < rows; row += 1) if (admits(row)) bitmap[row >> 3]! |= 1 << (row & 7);
  return bitmap;
}

function searchShape(rows: number, dim: number): LoadShape {
  return { rows, dim, firstRow: 0, use: "search" };
}

/** Runs the suite on the accelerator that `open` gives. */
export function describeAccelerator(
  name: string,
  open: (options: AcceleratorOptions) => Accelerator,
): void {
  const opened: Accelerator[] = [];
  const openOne = (options: Partial<AcceleratorOptions> = {}): Accelerator => {
    const accelerator = open({ capacityBytes: CAPACITY_BYTES, threads: 2, ...options });
    opened.push(accelerator);
    return accelerator;
  };
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((accelerator) => accelerator.close()));
  });

  describe(`${name}: exact top-k`, () => {
    describeExactness(openOne);
  });
  describe(`${name}: exclusions and masks`, () => {
    describeExclusions(openOne);
  });
  describe(`${name}: loading and memory`, () => {
    describeLoading(openOne);
  });
  describe(`${name}: life`, () => {
    describeLife(openOne);
  });
}

type Open = (options?: Partial<AcceleratorOptions>) => Accelerator;

function describeExactness(open: Open): void {
  test.each(Object.entries(EXACTNESS_FAMILIES))("I2: %s", async (_name, family) => {
    const problem = family();

    const whole = await answer(open(), problem, 1);
    const cut = await answer(open(), problem, 3);

    const expected = bruteForce(problem);
    expect(firstDifference(whole, expected)).toBeUndefined();
    expect(firstDifference(cut, expected)).toBeUndefined();
  });

  test.each(DIMS)("any dimension: %i", async (dim) => {
    const problem = normalProblem(dim > 500 ? 150 : 700, dim, 3);

    const block = await answer(open(), problem, 2);

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
  });

  test("queries of one batch do not influence each other", async () => {
    const problem = normalProblem(5000, 20, 33);
    const accelerator = open();
    const residents = await loadParts(accelerator, problem, 2);
    const { vectors, dim, k } = problem;

    const together = await accelerator.topK({ residents, vectors, k });

    for (let query = 0; query < 33; query += 1) {
      const vector = vectors.subarray(query * dim, (query + 1) * dim);
      const alone = await accelerator.topK({ residents, vectors: vector, k });
      expect(alone.scores).toEqual(together.scores.slice(query * k, (query + 1) * k));
      expect(alone.rows).toEqual(together.rows.slice(query * k, (query + 1) * k));
    }
  });

  test("the number of threads changes no bit", async () => {
    const problem = normalProblem(12_000, 33, 17);

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
    const admittedRows = bitmapOf(4000, (row) => row >= 2000);
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

function describeExclusions(open: Open): void {
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
    const admittedRows = bitmapOf(6000, (row) => row % step === 0 && step !== Infinity);
    const excludedRows = [Uint32Array.of(0, 3, 9, 3000), undefined, undefined];
    const masked = { ...problem, admittedRows, excludedRows };

    const block = await answer(open(), masked, 3);

    expect(firstDifference(block, bruteForce(masked))).toBeUndefined();
  });

  test("rows past the end of the bitmap are not admitted", async () => {
    const problem = normalProblem(600, 16, 2);
    const masked = { ...problem, admittedRows: new Uint8Array(10).fill(255) };

    const block = await answer(open(), masked, 2);

    expect(firstDifference(block, bruteForce(masked))).toBeUndefined();
  });

  test("ties are cut by row among the admitted", async () => {
    const table = new Float32Array(500 * 4).fill(1);
    const admittedRows = bitmapOf(500, (row) => row % 7 === 3);
    const problem = { dim: 4, table, vectors: new Float32Array(4).fill(1), k: 6, admittedRows };

    const block = await answer(open(), problem, 2);

    expect([...block.rows]).toEqual([3, 10, 17, 24, 31, 38]);
  });
}

function describeLoading(open: Open): void {
  test("rows may arrive in chunks of any size, at once or later", async () => {
    const problem = normalProblem(900, 12, 2);
    const chunks = [0, 1, 1, 400, 898, 900].map((row) => row * 12);
    async function* pieces(): AsyncGenerator<Float32Array> {
      for (const [index, from] of chunks.entries()) {
        await Promise.resolve();
        yield problem.table.slice(from, chunks[index + 1] ?? problem.table.length);
      }
    }
    const accelerator = open();

    const resident = await accelerator.load(searchShape(900, 12), pieces());

    const block = await accelerator.topK({ residents: [resident], ...problem });
    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
  });

  test("what was loaded does not follow later writes to the chunk", async () => {
    const problem = normalProblem(200, 12, 2);
    const chunk = problem.table.slice();
    const accelerator = open();
    const resident = await accelerator.load(searchShape(200, 12), [chunk]);
    chunk.fill(7);

    const block = await accelerator.topK({ residents: [resident], ...problem });

    expect(firstDifference(block, bruteForce(problem))).toBeUndefined();
  });

  test("gather copies rows in the order asked, also repeatedly", async () => {
    const problem = normalProblem(500, 9, 1);
    const accelerator = open();
    for (const use of ["search", "gather"] as const) {
      const resident = await accelerator.load({ ...searchShape(500, 9), use }, [problem.table]);

      const rows = await accelerator.gather(resident, Uint32Array.of(499, 0, 7, 7));

      for (const [index, row] of [499, 0, 7, 7].entries()) {
        const expected = problem.table.slice(row * 9, (row + 1) * 9);
        expect(rows.slice(index * 9, (index + 1) * 9)).toEqual(expected);
      }
      await expect(accelerator.gather(resident, Uint32Array.of(500))).rejects.toThrow(RangeError);
      expect(await accelerator.gather(resident, new Uint32Array(0))).toHaveLength(0);
    }
  });

  test("memory is counted while rows are resident and given back after", async () => {
    const accelerator = open();
    expect(accelerator.memory()).toEqual({ usedBytes: 0, capacityBytes: CAPACITY_BYTES });

    const resident = await accelerator.load(searchShape(1000, 16), [new Float32Array(16_000)]);

    expect(resident.bytes).toBeGreaterThanOrEqual(64_000);
    expect(accelerator.memory().usedBytes).toBe(resident.bytes);
    await accelerator.release(resident);
    expect(accelerator.memory().usedBytes).toBe(0);
  });

  test("what exceeds the capacity is refused before a chunk is taken", async () => {
    const accelerator = open({ capacityBytes: 100_000 });
    let taken = 0;
    function* chunks(): Generator<Float32Array> {
      taken += 1;
      yield new Float32Array(10_000 * 16);
    }

    const load = accelerator.load(searchShape(10_000, 16), chunks());

    await expect(load).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(taken).toBe(0);
    expect(accelerator.memory().usedBytes).toBe(0);
  });

  test.each([
    ["too few rows", [new Float32Array(32)]],
    ["too many rows", [new Float32Array(64), new Float32Array(16)]],
    ["half a row", [new Float32Array(40), new Float32Array(24)]],
    ["NaN", [new Float32Array(64).fill(NaN, 17, 18)]],
    ["an infinity", [new Float32Array(64).fill(-Infinity, 63, 64)]],
  ])("chunks with %s are refused and leave nothing behind", async (_name, chunks) => {
    const accelerator = open();

    const load = accelerator.load(searchShape(4, 16), chunks);

    await expect(load).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(accelerator.memory().usedBytes).toBe(0);
  });

  test("a value that is not finite is named by its row", async () => {
    const chunk = new Float32Array(64).fill(NaN, 17, 18);

    const load = open().load({ ...searchShape(4, 16), firstRow: 100 }, [chunk]);

    await expect(load).rejects.toThrow("Row 101 holds NaN");
  });

  test("a source of chunks that fails fails the load with its own error", async () => {
    const accelerator = open();
    function* chunks(): Generator<Float32Array> {
      yield new Float32Array(16);
      throw new Error("disk gone");
    }

    const load = accelerator.load(searchShape(4, 16), chunks());

    await expect(load).rejects.toThrow("disk gone");
    expect(accelerator.memory().usedBytes).toBe(0);
  });

  test.each([0, -1, 1.5, NaN, 40_000])("rows of dim %d are refused", async (dim) => {
    const load = open().load(searchShape(4, dim), []);

    await expect(load).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("an aborted load stops and leaves nothing behind", async () => {
    const accelerator = open();
    const controller = new AbortController();
    function* chunks(): Generator<Float32Array> {
      yield new Float32Array(16);
      controller.abort(new Error("enough"));
      yield new Float32Array(16);
    }

    const load = accelerator.load(searchShape(2, 16), chunks(), controller.signal);

    await expect(load).rejects.toThrow("enough");
    expect(accelerator.memory().usedBytes).toBe(0);
  });
}

function describeLife(open: Open): void {
  async function withResident(): Promise<[Accelerator, Resident]> {
    const accelerator = open();
    const { table } = normalProblem(100, 8, 1);
    return [accelerator, await accelerator.load(searchShape(100, 8), [table])];
  }

  test.each([
    ["half a query", { vectors: new Float32Array(12) }],
    ["k = 0", { k: 0 }],
    ["k = 1.5", { k: 1.5 }],
    ["too few exclusions", { excludedRows: [] }],
    ["unordered exclusions", { excludedRows: [Uint32Array.of(2, 1)] }],
  ])("%s is refused", async (_name, fault) => {
    const [accelerator, resident] = await withResident();
    const query = { residents: [resident], vectors: new Float32Array(8), k: 3, ...fault };

    await expect(accelerator.topK(query)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("no resident, the same one twice, or two dims are bugs of the caller", async () => {
    const [accelerator, resident] = await withResident();
    const other = await accelerator.load(searchShape(1, 9), [new Float32Array(9)]);
    const ask = (residents: Resident[]): Promise<unknown> =>
      accelerator.topK({ residents, vectors: new Float32Array(72), k: 1 });

    await expect(ask([])).rejects.toThrow(RangeError);
    await expect(ask([resident, resident])).rejects.toThrow(RangeError);
    await expect(ask([resident, other])).rejects.toThrow(RangeError);
  });

  test("rows loaded for gathering only cannot be searched", async () => {
    const accelerator = open();
    const shape = { ...searchShape(2, 8), use: "gather" } as const;
    const resident = await accelerator.load(shape, [new Float32Array(16)]);

    const search = accelerator.topK({ residents: [resident], vectors: new Float32Array(8), k: 1 });

    await expect(search).rejects.toThrow(RangeError);
  });

  test("a released resident is gone, and releasing it again is a bug of the caller", async () => {
    const [accelerator, resident] = await withResident();
    await accelerator.release(resident);

    const query = { residents: [resident], vectors: new Float32Array(8), k: 1 };
    await expect(accelerator.topK(query)).rejects.toThrow(RangeError);
    await expect(accelerator.gather(resident, Uint32Array.of(0))).rejects.toThrow(RangeError);
    await expect(accelerator.release(resident)).rejects.toThrow(RangeError);
    expect(accelerator.memory().usedBytes).toBe(0);
  });

  test("a release lets searches under way finish", async () => {
    const problem = normalProblem(20_000, 16, 40);
    const accelerator = open();
    const residents = await loadParts(accelerator, problem, 1);
    const search = accelerator.topK({ residents, ...problem });

    await accelerator.release(residents[0]!);

    expect(firstDifference(await search, bruteForce(problem))).toBeUndefined();
  });

  test("an abort rejects a running search with its reason and frees the device", async () => {
    const problem = normalProblem(40_000, 64, 300);
    const accelerator = open({ threads: 1 });
    const residents = await loadParts(accelerator, problem, 2);
    const controller = new AbortController();

    const search = accelerator.topK({ residents, ...problem }, controller.signal);
    const next = accelerator.topK({ residents, vectors: problem.vectors.slice(0, 64), k: 10 });
    setImmediate(() => controller.abort(new Error("client left")));

    await expect(search).rejects.toThrow("client left");
    const expected = bruteForce({ ...problem, vectors: problem.vectors.slice(0, 64) });
    expect(firstDifference(await next, expected)).toBeUndefined();
  });

  test("an abort takes a waiting search out of the queue", async () => {
    const problem = normalProblem(20_000, 64, 40);
    const accelerator = open({ threads: 1 });
    const residents = await loadParts(accelerator, problem, 1);
    const controller = new AbortController();

    const running = accelerator.topK({ residents, ...problem });
    const waiting = accelerator.topK({ residents, ...problem }, controller.signal);
    controller.abort(new Error("too late"));

    await expect(waiting).rejects.toThrow("too late");
    expect((await running).queries).toBe(40);
  });

  test("an aborted signal refuses at once", async () => {
    const [accelerator, resident] = await withResident();
    const query = { residents: [resident], vectors: new Float32Array(8), k: 1 };

    const search = accelerator.topK(query, AbortSignal.abort(new Error("never")));

    await expect(search).rejects.toThrow("never");
  });

  test("a closed accelerator finishes what runs, frees everything and takes nothing more", async () => {
    const [accelerator, resident] = await withResident();
    const query = { residents: [resident], vectors: new Float32Array(8), k: 1 };
    const running = accelerator.topK(query);

    await accelerator.close();

    expect((await running).queries).toBe(1);
    expect(accelerator.memory().usedBytes).toBe(0);
    await expect(accelerator.topK(query)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    const load = accelerator.load(searchShape(1, 1), [new Float32Array(1)]);
    await expect(load).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await accelerator.close();
  });

  test("it says what it is", () => {
    const accelerator = open();

    expect(accelerator.device).toMatch(/thread|GPU/);
    expect(() => open({ capacityBytes: NaN })).toThrow(RangeError);
    expect(() => open({ threads: 0 })).toThrow(RangeError);
  });
}
