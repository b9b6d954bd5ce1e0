// Plans compared with a search that tries every choice: on small clusters they must agree.

import { workerId } from "@winnow/core";
import type { WorkerId } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { place } from "../placement/placement.ts";
import { planQueries } from "./query-plan.ts";
import type { Machines, QueryPlan } from "./query-plan.ts";

const replicaLists = fc.array(
  fc.uniqueArray(fc.integer({ min: 0, max: 3 }), { minLength: 0, maxLength: 3 }),
  { minLength: 1, maxLength: 7 },
);
const named = (lists: readonly (readonly number[])[]): WorkerId[][] =>
  lists.map((list) => list.map((number) => workerId(`w${number}`)));

describe("each plan", () => {
  test("loads the busiest worker as little as any choice of replicas can", () => {
    fc.assert(
      fc.property(replicaLists, (lists) => {
        const replicas = named(lists);

        for (const plan of planQueries(replicas)) {
          expect(busiest(plan)).toBe(Math.max(0, ...leastBusiest(replicas, [])));
        }
      }),
      { numRuns: 500 },
    );
  });

  test("asks one replica of each partition that has any, and nobody else", () => {
    fc.assert(
      fc.property(replicaLists, (lists) => {
        const replicas = named(lists);

        for (const plan of planQueries(replicas)) {
          for (const [partition, of] of replicas.entries()) {
            const chosen = plan[partition];
            expect(of.length === 0 ? chosen === undefined : of.includes(chosen!)).toBe(true);
          }
        }
      }),
    );
  });

  test("asks at most one worker more than any choice that loads the busiest as little", () => {
    fc.assert(
      fc.property(replicaLists, (lists) => {
        const replicas = named(lists);

        for (const plan of planQueries(replicas)) {
          const fewest = leastBusiest(replicas, []).length;
          expect(loadsOf([plan]).size).toBeLessThanOrEqual(fewest + 1);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("does not depend on the order in which replicas are listed", () => {
    fc.assert(
      fc.property(replicaLists, (lists) => {
        const replicas = named(lists);

        const reversed = planQueries(replicas.map((of) => of.toReversed()));

        expect(reversed).toEqual(planQueries(replicas));
      }),
    );
  });
});

describe("the plans of a table", () => {
  const workersOf = (count: number): WorkerId[] =>
    Array.from({ length: count }, (_, number) => workerId(`w${number}`));

  test("ask the workers of a table that is not cut one after the other", () => {
    const plans = planQueries([workersOf(16)]);

    expect(plans.map((plan) => plan.length)).toEqual(Array.from({ length: 16 }, () => 1));
    expect(new Set(plans.flat()).size).toBe(16);
  });

  test("ask two of three workers in turn where each holds all four partitions", () => {
    const plans = planQueries(Array.from({ length: 4 }, () => workersOf(3)));

    expect(new Set(plans.map((plan) => new Set(plan).size))).toEqual(new Set([2]));
    expect(new Set(loadsOf(plans).values()).size).toBe(1);
  });

  test.each([
    [1, 8],
    [2, 3],
    [4, 3],
    [4, 16],
    [8, 5],
    [16, 7],
    [128, 16],
    [512, 8],
    [1024, 64],
  ])(
    "load the workers of %i placed partitions on %i within 5 %, also after a loss",
    (count, of) => {
      const workers = workersOf(of);
      const names = Array.from(
        { length: count },
        (_, partition) => `movies/candidates/p${partition}`,
      );
      const placed = place(names, workers, { replication: 2 });

      for (const lost of [undefined, workers[1]]) {
        const replicas = placed.map((owners) => owners.filter((owner) => owner !== lost));
        const loads = loadsOf(planQueries(replicas));
        const most = Math.max(...loads.values());

        expect(most / fairestLoad(replicas, planQueries(replicas).length)).toBeLessThan(1.05);
      }
    },
  );
});

describe("workers that share a machine", () => {
  const onMachines = (words: Readonly<Record<string, string>>): Machines =>
    new Map(Object.entries(words).map(([id, machine]) => [workerId(id), machine]));

  test("are planned as one worker: the same one scans in every plan", () => {
    const machines = onMachines({ w0: "m", w1: "m", w2: "m" });

    expect(planQueries(named([[0, 1, 2]]), machines)).toEqual([["w0"]]);
    expect(
      new Set(
        planQueries(
          named([
            [1, 2],
            [1, 2],
            [2, 3],
          ]),
          machines,
        ).flat(),
      ),
    ).toEqual(new Set(["w1", "w3"]));
  });

  test("share the load with other machines evenly", () => {
    const machines = onMachines({ w0: "m", w1: "m", w2: "n" });

    const plans = planQueries(
      named([
        [0, 1, 2],
        [0, 1, 2],
        [0, 1, 2],
        [0, 1, 2],
      ]),
      machines,
    );

    expect(loadsOf(plans)).toEqual(
      new Map([
        ["w0", 2 * plans.length],
        ["w2", 2 * plans.length],
      ]),
    );
  });

  test("are asked as few as a search that tries every choice needs, or few more", () => {
    fc.assert(
      fc.property(replicaLists, (lists) => {
        const replicas = named(lists);
        const all = [...new Set(replicas.flat())];
        const machines = new Map(all.map((worker) => [worker, "m"]));

        const [plan, ...others] = planQueries(replicas, machines);

        expect(others.every((other) => JSON.stringify(other) === JSON.stringify(plan))).toBe(true);
        for (const [partition, of] of replicas.entries()) {
          const chosen = plan[partition];
          expect(of.length === 0 ? chosen === undefined : of.includes(chosen!)).toBe(true);
        }
        // Four workers at most: the greedy cover is larger than the least by one at most.
        const asked = new Set(plan.filter((worker) => worker !== undefined)).size;
        expect(asked).toBeLessThanOrEqual(leastCover(replicas, all) + 1);
      }),
      { numRuns: 300 },
    );
  });
});

/** The fewest workers that hold every partition that anybody holds. Tries all. */
function leastCover(replicas: readonly (readonly WorkerId[])[], all: readonly WorkerId[]): number {
  const held = replicas.filter((of) => of.length > 0);
  let least = all.length;
  for (let choice = 0; choice < 2 ** all.length; choice += 1) {
    const chosen = new Set(all.filter((_, at) => ((choice >> at) & 1) === 1));
    if (held.every((of) => of.some((worker) => chosen.has(worker)))) {
      least = Math.min(least, chosen.size);
    }
  }
  return least;
}

function loadsOf(plans: readonly QueryPlan[]): Map<WorkerId, number> {
  const loads = new Map<WorkerId, number>();
  for (const worker of plans.flat()) {
    if (worker !== undefined) loads.set(worker, (loads.get(worker) ?? 0) + 1);
  }
  return loads;
}

function busiest(plan: QueryPlan): number {
  return Math.max(0, ...loadsOf([plan]).values());
}

/** Loads of the best choice: the lowest maximum, then the fewest workers. Tries all. */
function leastBusiest(
  replicas: readonly (readonly WorkerId[])[],
  chosen: QueryPlan,
): readonly number[] {
  const options = replicas[chosen.length];
  if (options === undefined) return [...loadsOf([chosen]).values()];
  const choices = options.length === 0 ? [undefined] : options;
  return choices
    .map((worker) => leastBusiest(replicas, [...chosen, worker]))
    .toSorted((a, b) => Math.max(0, ...a) - Math.max(0, ...b) || a.length - b.length)[0]!;
}

/**
 * The least load of the busiest worker when each partition may be split among its replicas: a
 * fractional assignment, found by letting partitions flow to their less loaded workers.
 */
function fairestLoad(replicas: readonly (readonly WorkerId[])[], plans: number): number {
  const loads = new Map<WorkerId, number>();
  const parts = replicas.map((of) => new Map(of.map((worker) => [worker, plans / of.length])));
  const add = (worker: WorkerId, amount: number): void => {
    loads.set(worker, (loads.get(worker) ?? 0) + amount);
  };
  for (const part of parts) for (const [worker, amount] of part) add(worker, amount);
  for (let round = 0; round < 300; round += 1) {
    for (const part of parts) {
      for (const [worker, amount] of part) add(worker, -amount);
      // Assigns the partition again like water: the least loaded worker first.
      const byLoad = [...part.keys()].toSorted((a, b) => (loads.get(a) ?? 0) - (loads.get(b) ?? 0));
      const level = levelOf(
        byLoad.map((worker) => loads.get(worker) ?? 0),
        plans,
      );
      for (const worker of byLoad) {
        const amount = Math.max(0, level - (loads.get(worker) ?? 0));
        part.set(worker, amount);
        add(worker, amount);
      }
    }
  }
  return Math.max(...loads.values());
}

/** The level of `volume` poured over columns of these ascending heights, as of water. */
function levelOf(heights: readonly number[], volume: number): number {
  let sum = volume;
  for (const [index, height] of heights.entries()) {
    sum += height;
    const level = sum / (index + 1);
    if (level <= (heights[index + 1] ?? Infinity)) return level;
  }
  return 0;
}
