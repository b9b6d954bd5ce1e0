// Placement must be the same function in every process, and move little when membership changes.

import { workerId } from "@winnow/core";
import type { WorkerId } from "@winnow/core";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { partitionName, place } from "./placement.ts";

const workersNamed = (count: number): WorkerId[] =>
  Array.from({ length: count }, (_, index) => workerId(`w${index}`));
const movielens = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `movielens/p${index}`);

describe("place()", () => {
  test("gives the golden vector, whatever the order of the workers", () => {
    const golden = "w0w1 w2w1 w0w1 w0w2 w0w2 w1w2 w2w1 w0w2";
    const workers = workersNamed(3);

    for (const loadRatioMax of [1.1, 1.25]) {
      for (const order of [workers, workers.toReversed(), [...workers, workers[1]!]]) {
        const owners = place(movielens(8), order, { replication: 2, loadRatioMax });
        expect(owners.map((pair) => pair.join("")).join(" ")).toBe(golden);
      }
    }
  });

  test("places tables one after the other on one list as it places each alone", () => {
    const workers = workersNamed(5);
    const names = ["movies", "books", "movies"].map((table) =>
      movielens(16).map((name) => `${table}/${name}`),
    );

    const inTurn = names.map((table) => place(table, workers, { replication: 2 }));
    const alone = names.map((table) => place(table, [...workers], { replication: 2 }));

    expect(inTurn).toEqual(alone);
  });

  test("gives every partition min(R, N) distinct owners and keeps every load within the bound", () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.string({ minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 1, max: 64 }),
        fc.integer({ min: 1, max: 4 }),
        (ids, partitions, replication) => {
          const workers = ids.map(workerId);
          const owners = place(movielens(partitions), workers, { replication });

          const expected = Math.min(replication, workers.length);
          expect(owners.every((each) => new Set(each).size === expected)).toBe(true);
          const mean = (partitions * expected) / workers.length;
          expect(Math.max(...loadsOf(owners).values())).toBeLessThanOrEqual(
            Math.max(Math.ceil(mean), Math.floor(1.1 * mean)),
          );
        },
      ),
      { numRuns: 150, examples: [[["  ", " p", "&v"], 20, 2]] },
    );
  });

  test("moves little when a worker joins or leaves", () => {
    for (const count of [3, 4, 8, 16]) {
      const names = movielens(256);
      const before = place(names, workersNamed(count), { replication: 2 });
      const after = place(names, workersNamed(count + 1), { replication: 2 });

      const moved = after.flatMap((owners, partition) =>
        owners.filter((owner) => !before[partition]!.includes(owner)),
      ).length;
      const ideal = (256 * 2) / (count + 1);

      expect(moved / ideal).toBeLessThan(1.6);
    }
  });

  test("gives each of 2, 4 and 8 workers an equal share of a table of 16 partitions", () => {
    for (const count of [2, 4, 8]) {
      const owners = place(movielens(16), workersNamed(count), { replication: 1 });

      expect([...loadsOf(owners).values()]).toEqual(
        Array.from({ length: count }, () => 16 / count),
      );
    }
  });

  test("does not depend on the version, but tells models and tables apart", () => {
    expect(partitionName("movies", "candidates", 3)).toBe("movies/candidates/p3");
    expect(place(movielens(4), [], { replication: 2 })).toEqual([[], [], [], []]);
  });
});

function loadsOf(owners: readonly (readonly WorkerId[])[]): Map<WorkerId, number> {
  const loads = new Map<WorkerId, number>();
  for (const worker of owners.flat()) loads.set(worker, (loads.get(worker) ?? 0) + 1);
  return loads;
}
