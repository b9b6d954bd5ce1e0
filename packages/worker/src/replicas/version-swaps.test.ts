// Swaps during which a version and the one that replaces it have fewer replicas than at rest: what memory that takes,
// and what becomes of it when workers see different things, fail or go.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { fakeTable } from "../compute/doubles/fake-compute.ts";
import type { FoundModel } from "../models/version-watch.ts";
import { FakeCluster } from "./doubles/fake-cluster.ts";
import type { FakeWorker } from "./doubles/fake-cluster.ts";
import type { ReplicaSettings } from "./replica-control.ts";

const tables = [fakeTable("movies", 12)];
const least = (counts: readonly number[]): number => Math.min(...counts);
const defaultOf = ({ control }: FakeWorker): number | undefined =>
  control.serving.get("m")?.version;

/** Three workers with version 1, of whose 24 replicas each holds eight or nine: room for one more. */
async function begin(
  settings: Partial<ReplicaSettings> = {},
  capacityBytes = 1000,
): Promise<{ readonly cluster: FakeCluster; readonly workers: readonly FakeWorker[] }> {
  const cluster = new FakeCluster({ swapReplicas: 1, loadRetryIntervalMs: 2000, ...settings });
  cluster.plan.loadMs = 20;
  cluster.setVersions({ 1: tables });
  const workers = ["w0", "w1", "w2"].map((name) => cluster.add(name, { capacityBytes }));
  await cluster.run(1500);
  expect(least(cluster.coverage(1))).toBe(2);
  return { cluster, workers };
}

/** Time passes, and this worker is placed on though it is not announced. */
async function runWithout(
  cluster: FakeCluster,
  absent: FakeWorker,
  durationMs: number,
): Promise<void> {
  for (let passedMs = 0; passedMs < durationMs; passedMs += 50) {
    const view = cluster.view();
    const placementWorkers = [...view.placementWorkers, absent.id].toSorted();
    for (const { control } of cluster.workers.values())
      control.setView({ ...view, placementWorkers });
    await cluster.clock.advanceSettled(50);
  }
}

describe("a swap with one replica of each version", () => {
  test("(L1, L4) goes on in the memory of one version, and the default always has a replica of each partition", async () => {
    const { cluster, workers } = await begin();

    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(5000, () => {
      for (const worker of workers) {
        expect(least(cluster.coverage(defaultOf(worker) ?? 0))).toBeGreaterThanOrEqual(1);
      }
    });

    expect(workers.map(defaultOf)).toEqual([2, 2, 2]);
    expect(cluster.coverage(2)).toEqual(tables[0]!.partitionBytes.map(() => 2));
    expect(cluster.coverage(1)).toEqual([]);
  });

  test("would be refused with all replicas", async () => {
    const { cluster, workers } = await begin({ swapReplicas: undefined });

    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(3000);

    expect(workers.map(defaultOf)).toEqual([1, 1, 1]);
    const errors = workers.map((worker) => worker.announcement().versions[1]?.error?.code);
    expect(errors).toEqual(["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED"]);
  });

  test("is as any other where one replica is all that there is", async () => {
    const course = async (swapReplicas: number | undefined): Promise<readonly string[][]> => {
      const cluster = new FakeCluster({ swapReplicas, replication: 1 });
      cluster.setVersions({ 1: tables });
      const workers = ["w0", "w1"].map((name) => cluster.add(name));
      await cluster.run(1000);
      cluster.setVersions({ 1: tables, 2: tables });
      await cluster.run(2000);
      return workers.map(({ compute }) => compute.requests);
    };

    expect(await course(1)).toEqual(await course(undefined));
  });

  test.each([{ kind: "all" } as const, { kind: "latest", count: 2 } as const])(
    "takes no replica from versions that stay side by side: %j",
    async (policy) => {
      const { cluster } = await begin({}, 10_000);
      cluster.policy = policy;

      cluster.setVersions({ 1: tables, 2: tables });
      await cluster.run(3000, () => expect(least(cluster.coverage(1))).toBe(2));

      expect(least(cluster.coverage(2))).toBe(2);
    },
  );

  test("waits for a worker that has not seen the new version, which keeps all that it holds", async () => {
    const { cluster, workers } = await begin();
    const [late, ...others] = workers as [FakeWorker, ...FakeWorker[]];
    const found = { version: 1, directory: "/m/1", stamp: "a" };
    const seen: FoundModel = {
      model: "m",
      policy: cluster.policy,
      versions: [found],
      copying: [],
      problem: undefined,
    };
    const heldOf = ({ compute }: FakeWorker): readonly string[] =>
      compute.held.filter((replica) => replica.startsWith("/m/1"));
    const before = heldOf(late);

    cluster.setVersions({ 1: tables, 2: tables });
    late.control.setModels([seen]);
    await cluster.run(3000, () => expect(least(cluster.coverage(1))).toBeGreaterThanOrEqual(1));

    expect(heldOf(late)).toEqual(before);
    expect(workers.map(defaultOf)).toEqual([1, 1, 1]);
    for (const { control } of others) {
      const second = control.holdings().find(({ version }) => version === 2);
      expect(second?.state).toBe("ready");
    }

    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(5000);
    expect(workers.map(defaultOf)).toEqual([2, 2, 2]);
    expect(least(cluster.coverage(2))).toBe(2);
  });

  test("gives way while a listed worker is absent: the old version has all its replicas again", async () => {
    const { cluster, workers } = await begin();
    const absent = workers[2]!;
    cluster.plan.loadMs = 200;
    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(800);
    expect(least(cluster.coverage(1))).toBe(1);
    expect(least(cluster.coverage(2))).toBeLessThan(1);

    cluster.kill(absent);
    await runWithout(cluster, absent, 5000);

    const owned = cluster.coverage(1);
    expect(owned.filter((count) => count === 0)).toEqual([]);
    const states = [...cluster.workers.values()].map(({ control }) => control.holdings()[1]?.error);
    expect(states).toMatchObject([{ code: "UNAVAILABLE" }, { code: "UNAVAILABLE" }]);
    cluster.add("w2", { capacityBytes: 1000 });
    await cluster.run(9000);
    expect(workers.slice(0, 2).map(defaultOf)).toEqual([2, 2]);
    expect(least(cluster.coverage(2))).toBe(2);
  });

  test("(I5) a worker that drains meanwhile leaves once others hold the old version", async () => {
    const { cluster, workers } = await begin({}, 1300);
    cluster.isListed = true;
    const leaving = workers[0]!;
    cluster.plan.loadMs = 200;
    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(800);
    expect(least(cluster.coverage(1))).toBe(1);

    const sinceMs = cluster.clock.nowMs();
    cluster.drain(leaving);
    const settings = { drainSettleMs: 100, drainAbsentMs: 100, drainHoldMsMax: 60_000 };
    await cluster.run(5000, () => {
      const { isOver } = leaving.control.drainHold(sinceMs, settings);
      if (isOver && cluster.workers.has(leaving.id)) cluster.kill(leaving);
      expect(least(cluster.coverage(1))).toBeGreaterThanOrEqual(1);
    });

    expect(cluster.workers.has(leaving.id)).toBe(false);
  });

  test("whose new version has not enough memory even so is refused, and the old version has all its replicas", async () => {
    const { cluster, workers } = await begin();

    cluster.setVersions({ 1: tables, 2: [fakeTable("movies", 12, 200)] });
    await cluster.run(3000, () => expect(least(cluster.coverage(1))).toBe(2));

    expect(workers.map(defaultOf)).toEqual([1, 1, 1]);
    const second = workers.map((worker) => worker.announcement().versions[1]);
    expect(second[0]).toMatchObject({ state: "failed", error: { code: "RESOURCE_EXHAUSTED" } });
  });

  test("whose new version fails for good gives the old one its replicas back, and goes on once it is mended", async () => {
    const { cluster, workers } = await begin({ loadRetryIntervalMs: 300 });
    cluster.plan.failures.set("/m/2#0/3", new WinnowError("DATA_LOSS", "cut short"));
    cluster.setVersions({ 1: tables, 2: tables });

    await cluster.run(1000);
    expect(least(cluster.coverage(1))).toBe(1);
    await cluster.run(8000, () => expect(least(cluster.coverage(1))).toBeGreaterThanOrEqual(1));

    expect(workers.map(defaultOf)).toEqual([1, 1, 1]);
    expect(least(cluster.coverage(1))).toBe(2);

    cluster.plan.failures.clear();
    cluster.setVersions({ 1: tables, 2: tables }, "mended");
    await cluster.run(6000);
    expect(workers.map(defaultOf)).toEqual([2, 2, 2]);
    expect(least(cluster.coverage(2))).toBe(2);
  });

  test("a version that was never the default gives way without the time for rollbacks", async () => {
    const { cluster } = await begin({ loadRetryIntervalMs: 60_000, versionGraceMs: 60_000 });
    cluster.plan.failures.set("/m/2#0/3", new WinnowError("DATA_LOSS", "cut short"));

    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(4000);

    expect(least(cluster.coverage(1))).toBe(2);
  });

  test("after which the old version is kept for rollbacks leaves the new one with one replica until that ends", async () => {
    const { cluster, workers } = await begin({ versionGraceMs: 4000 });

    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(3000);

    expect(workers.map(defaultOf)).toEqual([2, 2, 2]);
    expect(least(cluster.coverage(2))).toBe(1);
    await cluster.run(4000);
    expect(least(cluster.coverage(2))).toBe(2);
  });
});
