// Several workers' replica control on a virtual clock: what the cluster holds while workers come
// and go, versions appear, files are broken and memory is short.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { FakeCluster } from "./doubles/fake-cluster.ts";
import { fakeTable } from "../compute/doubles/fake-compute.ts";

const least = (counts: readonly number[]): number => Math.min(...counts);

describe("replica control", () => {
  test("a single worker holds every partition, one after the other, and is then settled", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 8)] });
    const worker = cluster.add("w0");

    expect(worker.control.isSettled).toBe(false);
    await cluster.run(200);

    expect(cluster.coverage(1)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
    expect(worker.control.isSettled).toBe(true);
    expect(worker.announcement().versions[0]?.state).toBe("ready");
    expect(worker.control.serving.get("m")?.version).toBe(1);
  });

  test("a version without tables is ready as soon as it is open", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [] });
    const worker = cluster.add("w0");

    await cluster.run(100);

    expect(worker.announcement().versions[0]?.state).toBe("ready");
  });

  test("a version that was seen while it was copied is loaded once its files are still, though nothing else happens", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 8)] });
    const worker = cluster.add("w0");
    await cluster.run(200);

    cluster.copy(2, "whole");
    expect(worker.announcement().versions.map(({ version }) => version)).toEqual([1, 2]);
    cluster.openCopy([fakeTable("movies", 8)], true);
    await cluster.clock.advanceSettled(100);

    expect(cluster.coverage(2)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
  });

  test("a directory without a model file is announced with what it waits for, keeps nothing back, and is loaded once it has one", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 8)] });
    const worker = cluster.add("w0");
    await cluster.run(200);
    const second = (): unknown => worker.announcement().versions[1];

    cluster.copy(2, "");
    await cluster.run(200);
    const empty = second();
    cluster.copy(2, "half");
    const copied = second();
    cluster.openCopy([fakeTable("movies", 8)], true);
    await cluster.run(500);

    expect(empty).toMatchObject({
      version: 2,
      state: "loading",
      error: {
        code: "UNAVAILABLE",
        message: expect.stringMatching(/version 2 of model "m" has no model file yet/) as string,
      },
    });
    expect(copied).toMatchObject({
      state: "loading",
      error: { message: expect.stringContaining("still change") as string },
    });
    const numbers = worker.announcement().versions.map(({ version }) => version);
    expect(numbers.filter((version) => version === 2)).toEqual([2]);
    expect(cluster.coverage(2)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
  });

  test("a version whose files change for too long is opened as they are, once", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 8)] });
    const worker = cluster.add("w0");
    await cluster.run(200);

    cluster.copy(2, "half");
    cluster.openCopy([fakeTable("movies", 8)], false);
    cluster.changeUnseen(2, "changed again");
    await cluster.run(500);

    expect(cluster.coverage(2)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
    const numbers = worker.announcement().versions.map(({ version }) => version);
    expect(numbers.filter((version) => version === 2)).toEqual([2]);
  });

  test("three workers hold two replicas of each partition, and cover all before doubling any", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 16)] });
    cluster.plan.loadMs = 50;
    for (const name of ["w0", "w1", "w2"]) cluster.add(name);
    let loadsAtCoverage = Infinity;

    await cluster.run(2000, () => {
      const counts = cluster.coverage(1);
      const loads = counts.reduce((sum, count) => sum + count, 0);
      if (counts.length > 0 && least(counts) > 0)
        loadsAtCoverage = Math.min(loadsAtCoverage, loads);
    });

    expect(cluster.coverage(1)).toEqual(Array.from({ length: 16 }, () => 2));
    expect(loadsAtCoverage).toBeLessThanOrEqual(20);
  });

  test("(I4) a joining worker takes partitions over without any moment of less than two replicas", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 16)] });
    const first = [cluster.add("w0"), cluster.add("w1"), cluster.add("w2")];
    await cluster.run(1000);
    const before = first.map((worker) => worker.compute.held.length);

    const joined = cluster.add("w3");
    await cluster.run(3000, () => expect(least(cluster.coverage(1))).toBeGreaterThanOrEqual(2));

    expect(cluster.coverage(1)).toEqual(Array.from({ length: 16 }, () => 2));
    expect(joined.compute.held.length).toBeGreaterThan(0);
    const after = first.map((worker) => worker.compute.held.length);
    expect(after.reduce((a, b) => a + b)).toBe(
      before.reduce((a, b) => a + b) - joined.compute.held.length,
    );
  });

  test("a replica that is given up still answers until no router can have it in its table", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 16)] });
    const worker = cluster.add("w0");
    await cluster.run(500);
    cluster.add("w1");
    cluster.add("w2");

    const unannouncedAtMs = new Map<string, number>();
    await cluster.run(3000, () => {
      const announced = new Set(
        worker
          .announcement()
          .versions[0]?.tables[0]?.held.map(({ partition }) => `/m/1#0/${partition}`),
      );
      for (const held of worker.compute.held) {
        if (!announced.has(held) && !unannouncedAtMs.has(held)) {
          unannouncedAtMs.set(held, cluster.clock.nowMs());
        }
      }
      const nowMs = cluster.clock.nowMs();
      for (const [held, sinceMs] of unannouncedAtMs) {
        // The grace is 500 ms; both of its ends are seen up to 50 ms late.
        expect(worker.compute.held.includes(held) || nowMs - sinceMs >= 400).toBe(true);
      }
    });

    expect(unannouncedAtMs.size).toBeGreaterThan(0);
    expect([...unannouncedAtMs.keys()].some((held) => worker.compute.held.includes(held))).toBe(
      false,
    );
  });

  test("a worker that dies is replaced on the others", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 16)] });
    const [first] = ["w0", "w1", "w2", "w3"].map((name) => cluster.add(name));
    await cluster.run(1000);

    if (first !== undefined) cluster.kill(first);
    await cluster.run(1000);

    expect(cluster.coverage(1)).toEqual(Array.from({ length: 16 }, () => 2));
  });

  test("a newer version loads beside the old one, serves once whole, and the old one is freed", async () => {
    const cluster = new FakeCluster();
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const workers = ["w0", "w1", "w2"].map((name) => cluster.add(name));
    await cluster.run(1000);

    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(2000, () => {
      const serving = workers[0]?.control.serving.get("m")?.version ?? 0;
      expect(least(cluster.coverage(serving))).toBe(2);
    });

    expect(workers.map((worker) => worker.control.serving.get("m")?.version)).toEqual([2, 2, 2]);
    await cluster.run(1000);
    const held = workers.flatMap((worker) => worker.compute.held);
    expect(held.some((each) => each.startsWith("/m/1"))).toBe(false);
    expect(workers.map((worker) => worker.announcement().versions.length)).toEqual([1, 1, 1]);
  });

  test("(R1) nothing is kept of a model that is gone", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 2)] });
    const worker = cluster.add("w0");
    await cluster.run(1000);

    worker.control.setModels([]);
    await cluster.run(5000);

    const { versions, serving, formerlyServing } = worker.control.set;
    expect([versions.size, serving.size, formerlyServing.size]).toEqual([0, 0, 0]);
  });

  test("a restarted worker loads the serving version before the target", async () => {
    const cluster = new FakeCluster();
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const [w0] = [cluster.add("w0"), cluster.add("w1")];
    await cluster.run(500);
    cluster.kill(w0);
    await cluster.run(100);

    cluster.setVersions({ 1: tables, 2: tables });
    const restarted = cluster.add("w0");
    await cluster.run(1000);

    const opened = restarted.compute.requests.find((request) => request.startsWith("open"));
    const loads = restarted.compute.requests.filter((request) => request.startsWith("load"));
    expect(opened).toBe("open /m/1");
    expect(loads.slice(0, 8).every((request) => request.startsWith("load /m/1#"))).toBe(true);
    expect(restarted.control.serving.get("m")?.version).toBe(2);
  });

  test("(S7) a version that cannot be loaded is announced as failed, frees its memory, and the old one serves", async () => {
    const cluster = new FakeCluster();
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const workers = ["w0", "w1"].map((name) => cluster.add(name));
    await cluster.run(500);
    const broken = new WinnowError("DATA_LOSS", "variables.data-00000-of-00001 is cut short");
    cluster.plan.failures.set("/m/2#0/5", broken);

    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(500);

    for (const worker of workers) {
      const [, failed] = worker.announcement().versions;
      expect(failed).toMatchObject({ state: "failed", error: { code: "DATA_LOSS" }, tables: [] });
      expect(worker.control.serving.get("m")?.version).toBe(1);
      expect(worker.compute.held.some((each) => each.startsWith("/m/2"))).toBe(false);
    }
  });

  test("a failed version is tried maxLoadRetries times, and again when its files change", async () => {
    const cluster = new FakeCluster();
    cluster.plan.failures.set("/m/1", new WinnowError("DATA_LOSS", "the index is cut short"));
    cluster.setVersions({ 1: [fakeTable("movies", 2)] });
    const worker = cluster.add("w0");

    await cluster.run(10_000);
    expect(worker.compute.requests).toEqual(["open /m/1", "open /m/1"]);
    expect(worker.control.isSettled).toBe(true);

    cluster.plan.failures.clear();
    cluster.setVersions({ 1: [fakeTable("movies", 2)] }, "mended");
    await cluster.run(200);
    expect(worker.announcement().versions[0]?.state).toBe("ready");
  });

  test("(L3) a version whose storage is away is tried until it is there, and older ones serve meanwhile", async () => {
    const cluster = new FakeCluster();
    const tables = [fakeTable("movies", 2)];
    cluster.plan.failures.set("/m/2", new WinnowError("UNAVAILABLE", "Cannot read it: ESTALE"));
    cluster.setVersions({ 1: tables, 2: tables });
    const workers = ["w0", "w1"].map((name) => cluster.add(name));
    const serving = () => workers.map((worker) => worker.control.serving.get("m")?.version);

    await cluster.run(60_000);
    expect(serving()).toEqual([1, 1]);
    cluster.plan.failures.clear();
    await cluster.run(3000);

    expect(serving()).toEqual([2, 2]);
  });

  test("a version that needs what is not implemented is tried once, until its files change", async () => {
    const cluster = new FakeCluster({ maxLoadRetries: 5 });
    cluster.plan.failures.set("/m/1", new WinnowError("UNIMPLEMENTED", "operation Frobnicate"));
    cluster.setVersions({ 1: [fakeTable("movies", 2)] });
    const worker = cluster.add("w0");

    await cluster.run(60_000);
    const tried = [...worker.compute.requests];
    const [failed] = worker.announcement().versions;
    cluster.plan.failures.clear();
    cluster.setVersions({ 1: [fakeTable("movies", 2)] }, "mended");
    await cluster.run(200);

    expect(tried).toEqual(["open /m/1"]);
    expect(failed).toMatchObject({ state: "failed", error: { code: "UNIMPLEMENTED" } });
    expect(worker.announcement().versions[0]?.state).toBe("ready");
  });

  test("a fresh cluster with a broken newest version serves the newest that loads", async () => {
    const cluster = new FakeCluster();
    cluster.plan.failures.set("/m/3", new WinnowError("INVALID_ARGUMENT", "NaN in row 7"));
    const tables = [fakeTable("movies", 4)];
    cluster.setVersions({ 1: tables, 2: tables, 3: tables });
    const workers = ["w0", "w1"].map((name) => cluster.add(name));

    await cluster.run(1000);

    expect(workers.map((worker) => worker.control.serving.get("m")?.version)).toEqual([2, 2]);
  });

  test("(I5) a worker in drain keeps everything until others hold it", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 16)] });
    const [leaving] = ["w0", "w1", "w2"].map((name) => cluster.add(name));
    await cluster.run(1000);
    if (leaving === undefined) throw new RangeError("no worker");
    const before = leaving.compute.held;
    const settings = { drainSettleMs: 100, drainAbsentMs: 100, drainHoldMsMax: 60_000 };
    const startedMs = cluster.clock.nowMs();
    cluster.plan.loadMs = 30;

    cluster.drain(leaving);
    expect(leaving.control.drainHold(startedMs, settings).isOver).toBe(false);
    await cluster.run(2000, () => {
      expect(leaving.compute.held).toEqual(before);
      leaving.control.drainHold(startedMs, settings);
    });

    const hold = leaving.control.drainHold(startedMs, settings);
    expect(hold).toMatchObject({ isOver: true, uncovered: 0 });
  });

  test("the last worker does not wait for successors that do not exist", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 2)] });
    const worker = cluster.add("w0");
    await cluster.run(200);

    cluster.drain(worker);

    const settings = { drainSettleMs: 1000, drainAbsentMs: 1000, drainHoldMsMax: 60_000 };
    expect(worker.control.drainHold(cluster.clock.nowMs(), settings).isOver).toBe(true);
  });
});
