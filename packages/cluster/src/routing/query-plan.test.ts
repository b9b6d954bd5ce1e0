// The plan is clever; trying every choice is not. On small clusters they must agree.

import { workerId } from "@winnow/core";
import type { WorkerId } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { place } from "../placement/placement.ts";
import { planQueries } from "./query-plan.ts";

const replicaLists = fc.array(
  fc.uniqueArray(fc.integer({ min: 0, max: 3 }), { minLength: 0, maxLength: 3 }),
  { minLength: 1, maxLength: 7 },
);
const named = (lists: readonly (readonly number[])[]): WorkerId[][] =>
  lists.map((list) => list.map((number) => workerId(`w${number}`)));

describe("planQueries()", () => {
  test("loads the busiest worker as little as any choice of replicas can", () => {
    fc.assert(
      fc.property(replicaLists, (lists) => {
        const replicas = named(lists);

        const plan = planQueries(replicas);

        expect(busiest(plan)).toBe(leastBusiest(replicas, []));
      }),
      { numRuns: 500 },
    );
  });

  test("asks one replica of each partition that has any, and nobody else", () => {
    fc.assert(
      fc.property(replicaLists, (lists) => {
        const replicas = named(lists);

        const plan = planQueries(replicas);

        for (const [partition, of] of replicas.entries()) {
          const chosen = plan[partition];
          expect(of.length === 0 ? chosen === undefined : of.includes(chosen!)).toBe(true);
        }
      }),
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

  test("spreads 512 placed partitions evenly, also after the loss of a worker", () => {
    const workers = Array.from({ length: 8 }, (_, number) => workerId(`w${number}`));
    const names = Array.from({ length: 512 }, (_, partition) => `movies/candidates/p${partition}`);
    const placed = place(names, workers, { replication: 2 });

    const all = busiest(planQueries(placed));
    const afterLoss = busiest(
      planQueries(placed.map((owners) => owners.filter((owner) => owner !== "w3"))),
    );

    expect(all).toBe(64);
    expect(afterLoss / 64).toBeLessThan(1.25);
  });
});

function busiest(plan: readonly (WorkerId | undefined)[]): number {
  const loads = new Map<WorkerId, number>();
  for (const worker of plan) {
    if (worker !== undefined) loads.set(worker, (loads.get(worker) ?? 0) + 1);
  }
  return Math.max(0, ...loads.values());
}

/** Tries every choice. */
function leastBusiest(
  replicas: readonly (readonly WorkerId[])[],
  chosen: readonly (WorkerId | undefined)[],
): number {
  const options = replicas[chosen.length];
  if (options === undefined) return busiest(chosen);
  const choices = options.length === 0 ? [undefined] : options;
  return Math.min(...choices.map((worker) => leastBusiest(replicas, [...chosen, worker])));
}
