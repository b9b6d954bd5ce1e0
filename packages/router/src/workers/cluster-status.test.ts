// The numbers people watch, of a whole router whose workers come and go.

import { expect, test } from "vitest";
import { RouterBench } from "../fixtures/router-bench.ts";

const twice = [
  [0, 1, 2],
  [1, 2, 3],
  [0, 3],
];
const THREE_MINUTES_MS = 180_000;

test("a whole cluster covers every partition of both tables", async () => {
  const bench = await RouterBench.started({ held: twice });

  expect(bench.router.clusterStatus().models).toEqual([
    {
      model: "movies",
      version: 7,
      coverage: 1,
      partitions: { covered: 8, underreplicated: 0, lost: 0 },
    },
  ]);
});

test("a dead worker leaves partitions with one replica, a second one partitions with none", async () => {
  const bench = await RouterBench.started({ held: twice });
  const before = bench.router.clusterStatus().generation;

  bench.network.kill(bench.workers[2]!);
  await bench.clock.advanceSettled(100);
  const oneGone = bench.router.clusterStatus();
  bench.network.kill(bench.workers[0]!);
  await bench.clock.advanceSettled(100);
  const twoGone = bench.router.clusterStatus();

  expect(oneGone.models[0]).toMatchObject({
    coverage: 1,
    partitions: { covered: 4, underreplicated: 4, lost: 0 },
  });
  expect(twoGone.models[0]).toMatchObject({
    coverage: 0.75,
    partitions: { covered: 0, underreplicated: 6, lost: 2 },
  });
  expect(oneGone.generation).toBeGreaterThan(before);
  expect(twoGone.generation).toBeGreaterThan(oneGone.generation);
});

test("a cluster of one worker cannot have two replicas, and lacks none", async () => {
  const bench = await RouterBench.started({ held: [[0, 1, 2, 3]] });

  const { partitions } = bench.router.clusterStatus().models[0]!;

  expect(partitions).toEqual({ covered: 8, underreplicated: 0, lost: 0 });
});

test("tells how old the membership view is", async () => {
  const bench = await RouterBench.started({ held: twice });

  await bench.clock.advanceSettled(THREE_MINUTES_MS);

  expect(bench.router.clusterStatus().membershipAgeMs).toBe(bench.clock.nowMs());
});

test("knows of no model and no age before anything was heard", () => {
  const bench = new RouterBench({ held: twice });
  bench.membership.silence();

  expect(bench.router.clusterStatus()).toEqual({
    generation: 1,
    membershipAgeMs: undefined,
    models: [],
  });
});
