// What every accelerator must do: each implementation runs this suite. This file has loading and
// memory; exact answers are in top-k.cases.ts, the rest in accelerator-life.cases.ts.

import { afterEach, describe, expect, test } from "vitest";
import type { Accelerator } from "../accelerator.ts";
import type { AcceleratorOptions } from "../accelerator-options.ts";
import { bruteForce, firstDifference } from "./exactness.cases.ts";
import { describeLife } from "./accelerator-life.cases.ts";
import { normalProblem, searchShape } from "../fixtures/search-problem.ts";
import type { OpenAccelerator } from "../fixtures/search-problem.ts";
import { describeExactness, describeExclusions } from "./top-k.cases.ts";

const CAPACITY_BYTES = 512 * 2 ** 20;

/** Runs the suite on the accelerator that `open` gives; a slow one is asked less. */
export function describeAccelerator(
  name: string,
  open: (options: AcceleratorOptions) => Accelerator,
  isSlow = false,
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
    describeExactness(openOne, isSlow);
  });
  describe(`${name}: exclusions and masks`, () => {
    describeExclusions(openOne);
  });
  describe(`${name}: loading and memory`, () => {
    describeLoading(openOne);
  });
  describe(`${name}: life`, () => {
    describeLife(openOne, isSlow);
  });
}

function describeLoading(open: OpenAccelerator): void {
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
    const { usedBytes, capacityBytes } = accelerator.memory();
    expect(usedBytes).toBe(0);
    expect(capacityBytes).toBeLessThanOrEqual(CAPACITY_BYTES);
    expect(capacityBytes).toBeGreaterThan(0.8 * CAPACITY_BYTES);

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

  test("rows that cannot be numbered are refused", async () => {
    const load = open().load(searchShape(2 ** 32 - 2048, 1), []);

    await expect(load).rejects.toThrow("a table has at most 4294965247");
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
