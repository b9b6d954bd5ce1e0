// What becomes of a version whose directory is replaced in place: the same number, other files. The
// old content lives in memory alone and answers until the new one can; no request is answered from
// both.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { FakeCluster } from "./doubles/fake-cluster.ts";
import type { FakeWorker } from "./doubles/fake-cluster.ts";
import { contentPrint, fakeTable } from "../compute/doubles/fake-compute.ts";

const TABLES = [fakeTable("movies", 8)];
const NAMES = ["w0", "w1", "w2"];
const OLD = "/m/1";
const NEW = "/m/1 written anew";

const least = (counts: readonly number[]): number =>
  counts.length === 0 ? 0 : Math.min(...counts);

/** Fewest replicas of any partition of the content that a worker takes for the serving one. */
function servingReplicas(cluster: FakeCluster, worker: FakeWorker): number {
  const print = worker.control.serving.get("m")?.fingerprint;
  const content = [OLD, NEW, "/m/2"].find((each) => contentPrint(each) === print);
  return content === undefined ? 0 : least(cluster.coverage(content));
}

const isServing = (worker: FakeWorker, content: string): boolean =>
  worker.control.serving.get("m")?.fingerprint === contentPrint(content);

async function started(isListed = false): Promise<{ cluster: FakeCluster; workers: FakeWorker[] }> {
  const cluster = new FakeCluster();
  cluster.isListed = isListed;
  cluster.setVersions({ 1: TABLES });
  const workers = NAMES.map((name) => cluster.add(name));
  await cluster.run(1500);
  return { cluster, workers };
}

describe("a version directory that is replaced in place", () => {
  test("(L4) loads beside the old content, serves once it is whole, and the old one is freed", async () => {
    const { cluster, workers } = await started();
    const [worker] = workers;

    cluster.replace(1, NEW);
    await cluster.run(2500, () => expect(servingReplicas(cluster, worker!)).toBe(2));

    for (const { control, compute } of workers) {
      expect(control.serving.get("m")).toMatchObject({
        version: 1,
        fingerprint: contentPrint(NEW),
      });
      expect(compute.openContents).toEqual([NEW]);
      expect(compute.held.every((held) => held.startsWith(`${NEW}#`))).toBe(true);
    }
    expect(cluster.coverage(NEW)).toEqual(TABLES[0]!.partitionBytes.map(() => 2));
  });

  test("(L1) the old content is kept for a grace that begins when the new one serves", async () => {
    const { cluster, workers } = await started();
    const [worker] = workers;
    cluster.plan.loadMs = 300;
    cluster.replace(1, NEW);
    let servesSinceMs = Infinity;
    let freedAtMs = Infinity;

    await cluster.run(8000, () => {
      const nowMs = cluster.clock.nowMs();
      if (isServing(worker!, NEW)) servesSinceMs = Math.min(servesSinceMs, nowMs);
      if (!worker!.compute.openContents.includes(OLD)) freedAtMs = Math.min(freedAtMs, nowMs);
    });

    // The grace is 700 ms; both times are seen up to 50 ms late.
    expect(freedAtMs - servesSinceMs).toBeGreaterThanOrEqual(650);
    expect(freedAtMs - servesSinceMs).toBeLessThan(1000);
  });

  test("files that look otherwise and hold the same change nothing: no row is read again", async () => {
    const { cluster, workers } = await started();
    const [worker] = workers;
    const before = worker!.compute.requests.length;

    cluster.touch(1, "touched");
    await cluster.run(2000, () => expect(least(cluster.coverage(OLD))).toBe(2));

    expect(worker!.compute.requests.slice(before)).toEqual([`open ${OLD}`]);
    expect(worker!.announcement().versions).toMatchObject([{ version: 1, state: "ready" }]);
    expect(worker!.compute.openContents).toEqual([OLD]);
  });

  test("(S7) a replacement that cannot be opened leaves the old content as it is, and is told of", async () => {
    const { cluster, workers } = await started();
    cluster.plan.failures.set(NEW, new WinnowError("DATA_LOSS", "saved_model.pb is cut short"));

    cluster.replace(1, NEW);
    await cluster.run(4000, () => expect(least(cluster.coverage(OLD))).toBe(2));

    for (const worker of workers) {
      expect(worker.announcement().versions).toMatchObject([
        { state: "ready", fingerprint: contentPrint(OLD), serving: true },
        { state: "failed", error: { code: "DATA_LOSS" }, tables: [] },
      ]);
      expect(worker.compute.openContents).toEqual([OLD]);
    }
  });

  test("(S7) a replacement whose rows cannot be read never serves; the old content goes on", async () => {
    const { cluster, workers } = await started();
    const broken = new WinnowError("DATA_LOSS", "a data file is cut short");
    cluster.plan.failures.set(`${NEW}#0/3`, broken);

    cluster.replace(1, NEW);
    await cluster.run(8000, () => {
      expect(least(cluster.coverage(OLD))).toBe(2);
      for (const worker of workers) expect(isServing(worker, OLD)).toBe(true);
    });

    cluster.plan.failures.clear();
    cluster.touch(1, "mended");
    await cluster.run(3000, () => expect(servingReplicas(cluster, workers[0]!)).toBe(2));
    for (const worker of workers) expect(worker.compute.openContents).toEqual([NEW]);
  });

  test("(R1) a replacement that does not fit beside the old content is refused with figures", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: TABLES });
    const worker = cluster.add("w0", { capacityBytes: 1000 });
    await cluster.run(1000);

    cluster.replace(1, NEW);
    await cluster.run(3000, () => expect(least(cluster.coverage(OLD))).toBe(1));

    expect(worker.announcement().versions).toMatchObject([
      { state: "unloading", serving: true },
      { state: "failed", error: { code: "RESOURCE_EXHAUSTED" } },
    ]);
  });

  test("with other attributes alone takes the rows that are loaded, and room for the attributes", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: TABLES });
    const worker = cluster.add("w0", { capacityBytes: 1000 });
    await cluster.run(1000);
    cluster.plan.describedAnew.set(NEW, OLD);
    worker.compute.requests.splice(0);

    cluster.replace(1, NEW);
    await cluster.run(3000, () => expect(servingReplicas(cluster, worker)).toBe(1));

    const loads = TABLES[0]!.partitionBytes.map((_, at) => `load ${NEW}#0/${at} as ${OLD}`);
    expect(worker.compute.requests.filter((each) => each.startsWith("load")).toSorted()).toEqual(
      loads,
    );
    expect(isServing(worker, NEW)).toBe(true);
    expect(worker.compute.openContents).toEqual([NEW]);
  });

  test("with added items takes the rows of the model's own partitions, which stay where they are", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: TABLES });
    const workers = ["w0", "w1", "w2"].map((name) => cluster.add(name));
    await cluster.run(1000);
    const loadsOf = (content: string): string[][] =>
      workers.map(({ compute }) => compute.held.filter((each) => each.startsWith(content)));
    const before = loadsOf(OLD);
    cluster.plan.describedAnew.set(NEW, OLD);
    const [table] = TABLES;
    const { rows, partitions, partitionBytes } = table!;
    const grown = {
      ...table!,
      rows: rows + 3,
      partitions: partitions + 2,
      partitionBytes: [...partitionBytes, 10, 10],
      original: { rows, partitions },
    };

    for (const { compute } of workers) compute.requests.splice(0);
    cluster.setVersions({ 1: [grown] });
    cluster.replace(1, NEW);
    await cluster.run(3000, () => {
      for (const worker of workers)
        expect(isServing(worker, NEW) || isServing(worker, OLD)).toBe(true);
    });

    for (const [at, { compute }] of workers.entries()) {
      const loads = compute.requests.filter((each) => each.startsWith("load"));
      const own = before[at]!.map((each) => `load ${each.replace(OLD, NEW)} as ${OLD}`);
      const isAdded = (each: string): boolean => /\/[89]$/.test(each);
      expect(loads.filter((each) => !isAdded(each)).toSorted()).toEqual(own.toSorted());
      // Added partitions lie where the first ones of the model do.
      const beside = before[at]!.filter((each) => /\/[01]$/.test(each));
      expect(loads.filter(isAdded)).toHaveLength(beside.length);
    }
    expect(loadsOf(NEW).flat()).toHaveLength(before.flat().length + 4);
    expect(workers.every((worker) => isServing(worker, NEW))).toBe(true);
  });

  test("(S7) with other attributes reads rows again that were never proven", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: TABLES });
    const worker = cluster.add("w0");
    cluster.plan.corrupt.add(`${OLD}#0/3`);
    await cluster.run(1000);
    cluster.plan.describedAnew.set(NEW, OLD);

    cluster.replace(1, NEW);
    await cluster.run(9000);

    const loads = worker.compute.requests.filter((each) => each.startsWith(`load ${NEW}`));
    expect(loads.filter((each) => each.includes(" as "))).toEqual([]);
    expect(isServing(worker, NEW)).toBe(true);
  });

  test("(S4) replaced again before the first replacement is whole: the last one serves in the end", async () => {
    const { cluster, workers } = await started();
    cluster.plan.loadMs = 300;
    cluster.replace(1, NEW);
    await cluster.run(500);

    cluster.replace(1, "/m/2");
    await cluster.run(6000, () => {
      expect(servingReplicas(cluster, workers[0]!)).toBe(2);
      for (const worker of workers) expect(isServing(worker, NEW)).toBe(false);
    });

    for (const worker of workers) expect(worker.compute.openContents).toEqual(["/m/2"]);
  });

  test("(R1) replaced again and again before it is loaded: those between the default and the last one are freed", async () => {
    const { cluster, workers } = await started();
    cluster.plan.loadMs = 400;
    const held: number[] = [];

    for (const content of ["b", "c", "d", "e", "f"]) {
      cluster.replace(1, content);
      await cluster.run(1500, () => held.push(workers[0]!.compute.held.length));
    }
    await cluster.run(5000);

    // Beside the default and the one that is being loaded, one is in its grace.
    const own = workers[0]!.compute.held.length;
    expect(Math.max(...held)).toBeLessThanOrEqual(3 * own);
    expect(isServing(workers[0]!, "f")).toBe(true);
  });

  test("put back as it was, the old content goes on and the other one is let go", async () => {
    const { cluster, workers } = await started();
    cluster.plan.loadMs = 300;
    cluster.replace(1, NEW);
    await cluster.run(500);

    cluster.plan.contents.delete("/m/1");
    cluster.touch(1, "a");
    await cluster.run(3000, () => {
      for (const worker of workers) expect(isServing(worker, OLD)).toBe(true);
      expect(least(cluster.coverage(OLD))).toBe(2);
    });

    for (const worker of workers) {
      expect(worker.compute.openContents).toEqual([OLD]);
      expect(worker.announcement().versions).toMatchObject([{ state: "ready", serving: true }]);
    }
  });

  test("an older version that is whole does not serve meanwhile", async () => {
    const cluster = new FakeCluster();
    cluster.policy = { kind: "latest", count: 2 };
    cluster.setVersions({ 1: TABLES, 2: TABLES });
    const workers = NAMES.map((name) => cluster.add(name));
    await cluster.run(2000);
    cluster.plan.loadMs = 100;

    cluster.replace(2, NEW);
    const served = new Set<number | undefined>();
    await cluster.run(5000, () => served.add(workers[0]!.control.serving.get("m")?.version));

    expect([...served]).toEqual([2]);
    expect(isServing(workers[0]!, NEW)).toBe(true);
  });

  test("(L1) an older version that is replaced answers where it is pinned until its replacement is whole", async () => {
    const cluster = new FakeCluster();
    cluster.policy = { kind: "all" };
    cluster.setVersions({ 1: TABLES, 2: TABLES });
    const workers = NAMES.map((name) => cluster.add(name));
    await cluster.run(2000);
    cluster.plan.loadMs = 400;

    cluster.replace(1, NEW);
    await cluster.run(8000, () => {
      const replicas = Math.max(least(cluster.coverage(OLD)), least(cluster.coverage(NEW)));
      expect(replicas).toBe(2);
    });

    for (const worker of workers)
      expect(worker.compute.openContents).toEqual([NEW, "/m/2"].toSorted());
  });
});

describe.each([
  ["workers that keep their place in a list", true],
  ["workers whose partitions move at once", false],
])("a rolling restart of %s", (_, isListed) => {
  test.each([0, 100, 1200])(
    "(I5, L4) that begins %i ms after a replacement takes no partition of what serves away",
    async (delayMs) => {
      const { cluster } = await started(isListed);
      cluster.plan.loadMs = 300;
      cluster.replace(1, NEW);
      const replicas: number[] = [];
      const look = (): void => {
        const first = [...cluster.workers.values()].find(({ isDraining }) => !isDraining);
        replicas.push(servingReplicas(cluster, first!));
      };
      await cluster.run(delayMs, look);

      for (const name of NAMES) {
        const worker = [...cluster.workers.values()].find(({ id }) => id === name)!;
        await drained(cluster, worker, look);
        cluster.kill(worker);
        await cluster.run(100, look);
        cluster.add(name);
        await cluster.run(500, look);
      }
      await cluster.run(9000, look);

      expect(Math.min(...replicas)).toBeGreaterThanOrEqual(1);
      for (const worker of cluster.workers.values()) {
        expect(worker.compute.openContents).toEqual([NEW]);
        expect(isServing(worker, NEW)).toBe(true);
      }
    },
  );
});

describe.each([
  ["workers that keep their place in a list", true],
  ["workers whose partitions move at once", false],
])("a rolling upgrade of %s", (_, isListed) => {
  test("(S7, L1) to a release that makes other tables of the same files takes no partition of what serves away", async () => {
    const { cluster } = await started(isListed);
    cluster.plan.loadMs = 300;
    const replicas: number[] = [];
    const look = (): void => {
      const first = [...cluster.workers.values()].find(({ isDraining }) => !isDraining);
      replicas.push(servingReplicas(cluster, first!));
    };

    for (const name of NAMES) {
      const worker = [...cluster.workers.values()].find(({ id }) => id === name)!;
      await drained(cluster, worker, look);
      cluster.kill(worker);
      await cluster.run(100, look);
      cluster.add(name, { contents: new Map([["/m/1", NEW]]) });
      await cluster.run(4000, look);
    }

    expect(Math.min(...replicas)).toBeGreaterThanOrEqual(1);
    for (const worker of cluster.workers.values()) {
      expect(worker.compute.openContents).toEqual([NEW]);
      expect(isServing(worker, NEW)).toBe(true);
    }
  });
});

/** Drains a worker until it may leave. */
async function drained(cluster: FakeCluster, worker: FakeWorker, look: () => void): Promise<void> {
  const startedMs = cluster.clock.nowMs();
  const settings = { drainSettleMs: 200, drainAbsentMs: 200, drainHoldMsMax: 60_000 };
  cluster.drain(worker);
  while (!worker.control.drainHold(startedMs, settings).isOver) await cluster.run(50, look);
  expect(cluster.clock.nowMs() - startedMs).toBeLessThan(30_000);
}
