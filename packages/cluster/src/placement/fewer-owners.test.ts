// Fewer owners are some of the owners, spread as evenly as all of them.

import fc from "fast-check";
import { expect, test } from "vitest";
import { workerId } from "@winnow/core";
import { fewerOwners } from "./fewer-owners.ts";
import { placeTable } from "./placement.ts";

const placed = (partitions: number, workers: number, replication: number) =>
  placeTable(
    { model: "m", table: { name: "t", partitions } },
    Array.from({ length: workers }, (_, at) => workerId(`w${at}`)),
    { replication },
  );

test("of each partition some owners are left, in their order, and no worker keeps more than its part of what it owns", () => {
  fc.assert(
    fc.property(
      fc.record({
        partitions: fc.integer({ min: 1, max: 60 }),
        workers: fc.integer({ min: 1, max: 9 }),
        replication: fc.integer({ min: 1, max: 5 }),
        replicas: fc.integer({ min: 1, max: 5 }),
      }),
      ({ partitions, workers, replication, replicas }) => {
        const owners = placed(partitions, workers, replication);

        const fewer = fewerOwners(owners, replicas);

        const all = Math.min(replication, workers);
        const wanted = Math.min(replicas, all);
        for (const [partition, chosen] of fewer.entries()) {
          expect(chosen).toEqual(owners[partition]!.filter((owner) => chosen.includes(owner)));
          expect(chosen.length).toBe(wanted);
        }
        for (const worker of new Set(owners.flat())) {
          const owned = owners.filter((each) => each.includes(worker)).length;
          const kept = fewer.filter((each) => each.includes(worker)).length;
          expect(kept).toBeLessThanOrEqual(Math.ceil((owned * wanted) / all));
        }
      },
    ),
  );
});

test("all owners are left where they are no more", () => {
  const owners = placed(7, 2, 3);

  expect(fewerOwners(owners, 2)).toBe(owners);
  expect(fewerOwners([], 1)).toEqual([]);
});

test("a worker that would keep too many hands one on over others", () => {
  const [a, b, c] = ["a", "b", "c"].map(workerId) as [never, never, never];
  const owners = [
    [c, b],
    [b, a],
    [a, b],
    [b, c],
  ];

  const fewer = fewerOwners(owners, 1).flat();

  expect(fewer.toSorted()).toEqual([a, b, b, c]);
});
