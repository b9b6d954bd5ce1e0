// Diversity against plain readings of what each way means, and that lists alone decide.

import type { DiversifyStage } from "@winnow/core";
import { stringTensor, tensor } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Candidates } from "./candidates.ts";
import { atMost, byTurns, marginallyRelevant } from "./diverse-choice.ts";
import { diversified } from "./diversity.ts";

const valueLists = fc.array(fc.subarray(["a", "b", "c"]), { maxLength: 12 });

describe("a list", () => {
  test("has at most so many candidates of each value, the first ones", () => {
    fc.assert(
      fc.property(valueLists, fc.integer({ min: 1, max: 3 }), (values, count) => {
        const kept: number[] = [];
        for (const [at, own] of values.entries()) {
          const isFull = (value: string) =>
            kept.filter((before) => values[before]!.includes(value)).length >= count;
          if (!own.some((value) => isFull(value))) kept.push(at);
        }

        expect(atMost(values, count)).toEqual(kept);
      }),
    );
  });

  test("takes one candidate of each value in turn, values in the order in which they come", () => {
    const values = ["a", "a", "b", undefined, "a", "b", undefined, "c"];

    const places = byTurns(values.map((value) => (value === undefined ? [] : [value])));

    expect(places).toEqual([0, 2, 3, 7, 1, 5, 6, 4]);
    expect(byTurns([])).toEqual([]);
  });

  test("by marginal relevance takes the next best of all that are open, by its definition", () => {
    const vector = fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 3, maxLength: 3 });
    const item = fc.record({
      score: fc.oneof(fc.integer({ min: -2, max: 2 }), fc.constantFrom(NaN, Infinity, -Infinity)),
      vector: fc.option(vector, { nil: undefined }),
    });
    fc.assert(
      fc.property(
        fc.array(item, { maxLength: 9 }),
        fc.constantFrom(0, 0.3, 0.5, 1),
        fc.integer({ min: 1, max: 9 }),
        (items, balance, count) => {
          const scores = items.map(({ score }) => score);
          const vectors = items.map((each) => each.vector && Float32Array.from(each.vector));

          const isTurnOver = (products: number): boolean => products > 0;
          const steps = marginallyRelevant({ scores, vectors }, { balance, count, isTurnOver });
          let step = steps.next();
          while (step.done !== true) step = steps.next();
          const places = step.value;

          const expected: number[] = [];
          const finite = scores.filter(Number.isFinite);
          const [least, most] = [Math.min(...finite), Math.max(...finite)];
          const relevance = (score: number): number => {
            if (score === Infinity) return 1;
            if (!Number.isFinite(score)) return 0;
            return most > least ? (score - least) / (most - least) : 1;
          };
          const cosine = (a: number, b: number): number => {
            const [one = [], other = []] = [items[a]!.vector, items[b]!.vector];
            const sum = one.reduce((total, each, at) => total + each * (other[at] ?? 0), 0);
            const norms =
              Math.sqrt(one.reduce((total, each) => total + each * each, 0)) *
              Math.sqrt(other.reduce((total, each) => total + each * each, 0));
            return norms > 0 ? sum / norms : 0;
          };
          while (expected.length < Math.min(count, items.length)) {
            const values = items.map(({ score }, at) => {
              const alike = Math.max(...expected.map((other) => cosine(at, other)));
              const unlike = expected.length === 0 ? 0 : (1 - balance) * alike;
              return expected.includes(at) ? -Infinity : balance * relevance(score) - unlike;
            });
            expected.push(values.indexOf(Math.max(...values)));
          }
          expect(places).toEqual(expected);
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("a stage", () => {
  const candidates = (lists: Candidates["lists"], count: number, dim = 1): Candidates => ({
    ids: tensor("int32", [count], new Int32Array(count)),
    lists,
    named: new Map(),
    attributes: stringTensor(Array.from({ length: count }, (_, at) => `{"genres":["g${at % 2}"]}`)),
    vectors: new Map(Array.from({ length: count }, (_, at) => [at, new Float32Array(dim).fill(1)])),
  });
  const ongoing = new AbortController().signal;
  const mmr: DiversifyStage = { kind: "diversify", by: "mmr", balance: 1, count: 4096 };

  test("keeps candidates' scores, each list by itself", async () => {
    const lists = [
      { positions: [4, 2, 1], scores: [9, 8, 7] },
      { positions: [0], scores: [6] },
      { positions: [], scores: [] },
    ];
    const stage = { kind: "diversify", by: "at-most", attribute: "genres", count: 1 } as const;

    const { lists: kept } = await diversified(candidates(lists, 5), stage, ongoing);

    expect(kept).toEqual([
      { positions: [4, 1], scores: [9, 7] },
      { positions: [0], scores: [6] },
      { positions: [], scores: [] },
    ]);
  });

  test("lets others have their turn within one list, and ends with its request", async () => {
    const positions = Array.from({ length: 2048 }, (_, at) => at);
    const lists = [{ positions, scores: positions }];
    const ending = new AbortController();
    const all = { ...mmr, count: 2048 };
    let isOver = false;
    const running = diversified(candidates(lists, 2048, 15), all, ending.signal).finally(() => {
      isOver = true;
    });
    await new Promise((resolve) => void setImmediate(resolve));
    expect(isOver).toBe(false);
    ending.abort(new Error("the client has gone"));

    await expect(running).rejects.toThrow("the client has gone");
  });

  test("refuses to compare more vectors than one thread should", async () => {
    const positions = Array.from({ length: 4096 }, (_, at) => at);
    const lists = [{ positions, scores: positions }];

    await expect(diversified(candidates(lists, 4096, 5), mmr, ongoing)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining(
        "takes 83886080 multiplications, at most 67108864",
      ) as string,
    });
  });
});
