// What becomes of a version whose directory disappears: it answers as long as it is needed, no
// worker loads more of it, and a directory that comes back under its number is read anew.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { FakeCluster } from "./doubles/fake-cluster.ts";
import { fakeTable } from "../compute/doubles/fake-compute.ts";

const least = (counts: readonly number[]): number => Math.min(...counts);

describe("a version whose directory is gone", () => {
  test("a directory that disappears is unloaded after a grace", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 2)] });
    const worker = cluster.add("w0");
    await cluster.run(200);

    cluster.setVersions({});
    await cluster.run(400);
    expect(worker.announcement().versions[0]?.state).toBe("unloading");
    expect(worker.compute.held).toHaveLength(2);

    await cluster.run(600);
    expect(worker.compute.held).toHaveLength(0);
    expect(worker.announcement().versions).toEqual([]);
  });

  test("a serving version whose directory is gone answers until its successor is whole", async () => {
    const cluster = new FakeCluster();
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables, 2: tables });
    const workers = ["w0", "w1"].map((name) => cluster.add(name));
    await cluster.run(1500);
    expect(workers[0]?.control.serving.get("m")?.version).toBe(2);
    cluster.plan.loadMs = 400;

    cluster.setVersions({ 1: tables });
    await cluster.run(8000, () => {
      const serving = workers[0]?.control.serving.get("m")?.version ?? 0;
      expect(least(cluster.coverage(serving))).toBe(2);
    });

    expect(workers.map((worker) => worker.control.serving.get("m")?.version)).toEqual([1, 1]);
    expect(workers[0]?.compute.held.some((each) => each.startsWith("/m/2"))).toBe(false);
  });

  test("a serving version whose directory is gone answers while the load of its successor is tried again", async () => {
    const cluster = new FakeCluster({ maxLoadRetries: 5 });
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const workers = ["w0", "w1"].map((name) => cluster.add(name));
    await cluster.run(1500);
    const serving = (): number => workers[0]?.control.serving.get("m")?.version ?? 0;
    expect(serving()).toBe(1);

    cluster.plan.failures.set("/m/2", new WinnowError("UNAVAILABLE", "the store is busy"));
    cluster.setVersions({ 2: tables });
    const isAnswered = (): void => expect(least(cluster.coverage(serving()))).toBe(2);
    await cluster.run(3500, isAnswered);
    cluster.plan.failures.clear();
    await cluster.run(5000, isAnswered);

    expect(workers.map((worker) => worker.control.serving.get("m")?.version)).toEqual([2, 2]);
    expect(workers[0]?.compute.held.some((each) => each.startsWith("/m/1"))).toBe(false);
  });

  test("a serving version whose directory is gone gives way to a successor that lacks its memory", async () => {
    const cluster = new FakeCluster();
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const worker = cluster.add("w0");
    await cluster.run(1500);
    expect(worker.control.serving.get("m")?.version).toBe(1);

    cluster.plan.failures.set("/m/2", new WinnowError("RESOURCE_EXHAUSTED", "no memory"));
    cluster.setVersions({ 2: tables });
    await cluster.run(2000);
    expect(worker.compute.held).toEqual([]);
    cluster.plan.failures.clear();
    await cluster.run(2000);

    expect(worker.control.serving.get("m")?.version).toBe(2);
  });

  test("a serving version whose directory is gone answers while its successor is still being copied", async () => {
    const cluster = new FakeCluster();
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const workers = ["w0", "w1"].map((name) => cluster.add(name));
    await cluster.run(1500);
    const serving = (): number => workers[0]?.control.serving.get("m")?.version ?? 0;
    const isAnswered = (): void => expect(least(cluster.coverage(serving()))).toBe(2);

    cluster.setVersions({});
    cluster.copy(2, "half");
    await cluster.run(3000, isAnswered);
    cluster.openCopy(tables, true);
    await cluster.run(3000, isAnswered);

    expect(workers.map((worker) => worker.control.serving.get("m")?.version)).toEqual([2, 2]);
    expect(workers[0]?.compute.held.some((each) => each.startsWith("/m/1"))).toBe(false);
  });

  test("(S4) a directory that comes back with other files is not the version that was there", async () => {
    const cluster = new FakeCluster({ versionGraceMs: 2000 });
    const tables = [fakeTable("movies", 4)];
    cluster.setVersions({ 1: tables, 2: tables });
    const workers = ["w0", "w1"].map((name) => cluster.add(name));
    await cluster.run(1500);
    cluster.setVersions({ 1: tables });
    await cluster.run(1000);
    const serving = () => workers.map((worker) => worker.control.serving.get("m")?.version);
    expect(serving()).toEqual([1, 1]);
    expect(workers[0]?.announcement().versions[1]?.state).toBe("unloading");

    cluster.plan.failures.set("/m/2", new WinnowError("INVALID_ARGUMENT", "NaN in row 7"));
    cluster.setVersions({ 1: tables, 2: tables }, "written anew");
    await cluster.run(4000, () => expect(serving()).toEqual([1, 1]));

    const [, second] = workers[0]?.announcement().versions ?? [];
    expect(second).toMatchObject({ version: 2, state: "failed", tables: [] });
  });

  test("(I5) a worker in drain does not wait for replicas of a version whose directory is gone", async () => {
    const cluster = new FakeCluster();
    cluster.isListed = true;
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const [leaving, other] = ["w0", "w1", "w2"].map((name) => cluster.add(name));
    await cluster.run(1000);

    cluster.drain(leaving!);
    cluster.setVersions({ 2: tables });
    const settings = { drainSettleMs: 100, drainAbsentMs: 100, drainHoldMsMax: 60_000 };
    const startedMs = cluster.clock.nowMs();
    await cluster.run(2000, () => leaving!.control.drainHold(startedMs, settings));

    expect(other?.control.serving.get("m")?.version).toBe(1);
    const hold = leaving!.control.drainHold(startedMs, settings);
    expect(hold).toMatchObject({ isOver: true, uncovered: 0 });
  });
});
