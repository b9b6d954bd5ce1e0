// The life cycle of every accelerator: queries that do not fit, released residents, aborted and
// concurrent work, closing.

import { expect, test } from "vitest";
import type { Accelerator, Resident } from "../accelerator.ts";
import { bruteForce, firstDifference, loadParts } from "./exactness.cases.ts";
import { normalProblem, searchShape } from "../fixtures/search-problem.ts";
import type { OpenAccelerator } from "../fixtures/search-problem.ts";

/** What is refused, and how searches, releases and closing work together; a slow accelerator searches for fewer queries. */
export function describeLife(open: OpenAccelerator, isSlow: boolean): void {
  const queriesOf = (queries: number): number => (isSlow ? queries / 10 : queries);

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
    const problem = normalProblem(20_000, 16, queriesOf(40));
    const accelerator = open();
    const residents = await loadParts(accelerator, problem, 1);
    const search = accelerator.topK({ residents, ...problem });

    await accelerator.release(residents[0]!);

    expect(firstDifference(await search, bruteForce(problem))).toBeUndefined();
  });

  test("an abort rejects a running search with its reason and frees the device", async () => {
    const problem = normalProblem(40_000, 64, isSlow ? 8 : 300);
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
    const problem = normalProblem(20_000, 64, queriesOf(40));
    const accelerator = open({ threads: 1 });
    const residents = await loadParts(accelerator, problem, 1);
    const controller = new AbortController();

    const running = accelerator.topK({ residents, ...problem });
    const waiting = accelerator.topK({ residents, ...problem }, controller.signal);
    controller.abort(new Error("too late"));

    await expect(waiting).rejects.toThrow("too late");
    expect((await running).queries).toBe(queriesOf(40));
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
