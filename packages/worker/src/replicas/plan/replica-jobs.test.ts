// Loads two at a time, or more of small ones, on a virtual clock: how many, of what, within which memory, and failures.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";

import { FakeCluster } from "../doubles/fake-cluster.ts";
import type { FakeWorker } from "../doubles/fake-cluster.ts";
import type { FakePlan } from "../../compute/doubles/fake-compute.ts";
import { fakeTable } from "../../compute/doubles/fake-compute.ts";

const broken = new WinnowError("DATA_LOSS", "a data file is cut short");

/** Runs a cluster; gives the most requests that a worker had under way when a load began. */
async function mostAtOnce(cluster: FakeCluster, worker: FakeWorker): Promise<number> {
  let most = 0;
  const { compute } = worker;
  const load = compute.load.bind(compute);
  compute.load = (name) => {
    const loaded = load(name);
    most = Math.max(most, compute.pending);
    return loaded;
  };
  await cluster.run(1000);
  return most;
}

/** Holds back the load of one partition until the returned function is called. */
function holdBack({ compute }: FakeWorker, partition: number): () => void {
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const load = compute.load.bind(compute);
  compute.load = async (name) => {
    if (name.partition === partition) await held;
    return load(name);
  };
  return release;
}

describe("what is begun beside a load", () => {
  test("one more load of the same version, and no third", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 8)] });
    const worker = cluster.add("w0");

    const most = await mostAtOnce(cluster, worker);

    expect(most).toBe(2);
    expect(cluster.coverage(1)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
  });

  test.each([
    { bytes: 20, most: 16 },
    { bytes: 100, most: 5 },
    { bytes: 251, most: 2 },
  ])("$most loads of $bytes bytes, where 500 bytes are few", async ({ bytes, most }) => {
    const cluster = new FakeCluster({ smallLoadsBytes: 500 });
    cluster.setVersions({ 1: [fakeTable("movies", 40, bytes)] });
    const worker = cluster.add("w0");

    expect(await mostAtOnce(cluster, worker)).toBe(most);
    expect(cluster.coverage(1)).toEqual(Array.from({ length: 40 }, () => 1));
  });

  test("(R1) none, while memory might not hold two that are not reserved yet", async () => {
    const cluster = new FakeCluster();
    cluster.setVersions({ 1: [fakeTable("movies", 8, 100)] });
    const worker = cluster.add("w0", { capacityBytes: 800 });

    const most = await mostAtOnce(cluster, worker);

    expect(most).toBe(1);
    expect(cluster.coverage(1)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
  });

  test("no load of another version, and no open", async () => {
    const cluster = new FakeCluster();
    cluster.policy = { kind: "latest", count: 2 };
    const tables = [fakeTable("movies", 3)];
    cluster.setVersions({ 1: tables, 2: tables });
    const worker = cluster.add("w0");
    const release = holdBack(worker, 2);

    await cluster.run(500);
    const requests = [...worker.compute.requests];
    release();
    await cluster.run(500);

    expect(requests).toEqual(["open /m/2", "load /m/2#0/0", "load /m/2#0/1"]);
    expect(cluster.coverage(1)).toEqual([1, 1, 1]);
  });
});

type RootedPlan = Partial<FakePlan> & { readonly root?: string };

/** A worker that finds so many models, `/m0/1` and so on below `root`, each with one partition of so many bytes. */
function workerOfModels(models: number, bytes: number, { root = "", ...plan }: RootedPlan) {
  const cluster = new FakeCluster({ smallLoadsBytes: 500 });
  const worker = cluster.add("w0", plan);
  const found = Array.from({ length: models }, (_, at) => ({
    model: `m${at}`,
    directory: `${root}/m${at}/1`,
  }));
  for (const { directory } of found) {
    cluster.plan.directories.set(directory, [fakeTable("items", 1, bytes)]);
  }
  worker.control.setModels(
    found.map(({ model, directory }) => ({
      model,
      policy: cluster.policy,
      versions: [{ version: 1, directory, stamp: "a" }],
      copying: [],
      problem: undefined,
    })),
  );
  return { cluster, worker };
}

/** What is asked of the compute side until that many models are loaded, and how many opens it has at once at most. */
async function workOfModels(models: number, plan: RootedPlan) {
  const { cluster, worker } = workerOfModels(models, 20, plan);
  const { compute } = worker;
  let opensAtOnce = 0;
  const open = compute.open.bind(compute);
  compute.open = (...of) => {
    const opened = open(...of);
    opensAtOnce = Math.max(opensAtOnce, compute.pending);
    return opened;
  };
  await cluster.run(30_000);
  expect(compute.held).toHaveLength(models);
  return { turns: turnsOf(compute.requests), opensAtOnce };
}

/** How many requests of one kind follow each other, in turns. */
function turnsOf(requests: readonly string[]): readonly string[] {
  const turns: { kind: string; count: number }[] = [];
  for (const request of requests) {
    const kind = request.split(" ", 1)[0]!;
    const last = turns.at(-1);
    if (last?.kind === kind) last.count += 1;
    else turns.push({ kind, count: 1 });
  }
  return turns.map(({ kind, count }) => `${kind} ${count}`);
}

describe("many models", () => {
  test.each([
    { loadMs: 10, turns: ["open 1", "load 1", "open 16", "load 16", "open 3", "load 3"] },
    { loadMs: 500, turns: ["open 1", "load 1", "open 4", "load 4", "open 4", "load 4"] },
    { loadMs: 2001, turns: ["open 1", "load 1", "open 1", "load 1", "open 1", "load 1"] },
  ])("that take $loadMs ms to open: $turns", async ({ loadMs, turns }) => {
    const models = turns.reduce((sum, turn) => sum + Number(turn.split(" ")[1]), 0) / 2;

    const work = await workOfModels(models, { loadMs });

    expect(work).toEqual({ turns, opensAtOnce: 1 });
  });

  test("in an object store: eight are opened beside each other, however long one takes", async () => {
    const work = await workOfModels(18, { loadMs: 2001, root: "s3://models" });

    const turns = ["open 8", "load 8", "open 8", "load 8", "open 2", "load 2"];
    expect(work).toEqual({ turns, opensAtOnce: 8 });
  });

  test.each([
    { how: "large", bytes: 300, capacityBytes: 100_000, most: 1 },
    { how: "small", bytes: 200, capacityBytes: 800, most: 2 },
    { how: "small, where memory may not hold both", bytes: 200, capacityBytes: 799, most: 1 },
  ])("$how: $most loaded at once", async ({ bytes, capacityBytes, most }) => {
    const { cluster, worker } = workerOfModels(3, bytes, { capacityBytes });

    expect(await mostAtOnce(cluster, worker)).toBe(most);
    expect(worker.compute.held).toHaveLength(3);
  });

  test("of which one takes far longer than the last one: what is open is loaded before others are opened", async () => {
    const { cluster, worker } = workerOfModels(4, 20, {});
    const { compute } = worker;
    const open = compute.open.bind(compute);
    compute.open = async (...of) => {
      const opened = await open(...of);
      cluster.plan.loadMs = 5000;
      return opened;
    };

    await cluster.run(60_000);

    expect(turnsOf(compute.requests)).toEqual(
      Array.from({ length: 4 }, () => ["open 1", "load 1"]).flat(),
    );
  });

  test("no small load of another version of the same model, whose rows may be the same", async () => {
    const cluster = new FakeCluster({ smallLoadsBytes: 500 });
    cluster.policy = { kind: "latest", count: 2 };
    const tables = [fakeTable("movies", 1, 20)];
    cluster.setVersions({ 1: tables, 2: tables });
    const worker = cluster.add("w0");

    expect(await mostAtOnce(cluster, worker)).toBe(1);
    expect(worker.compute.held).toHaveLength(2);
  });
});

describe("two loads that fail", () => {
  test("count as one attempt", async () => {
    const cluster = new FakeCluster({ maxLoadRetries: 2 });
    for (const partition of [0, 1]) cluster.plan.failures.set(`/m/1#0/${partition}`, broken);
    cluster.setVersions({ 1: [fakeTable("movies", 8)] });
    const worker = cluster.add("w0");

    await cluster.run(20_000);

    const opens = worker.compute.requests.filter((request) => request.startsWith("open"));
    expect(opens).toHaveLength(3);
    expect(worker.announcement().versions[0]?.error?.code).toBe("DATA_LOSS");
  });

  test("(S7) close the version when both have ended, and nothing stays held", async () => {
    const cluster = new FakeCluster({ maxLoadRetries: 0 });
    cluster.plan.failures.set("/m/1#0/0", broken);
    cluster.setVersions({ 1: [fakeTable("movies", 8)] });
    const worker = cluster.add("w0");
    const release = holdBack(worker, 1);

    await cluster.run(500);
    const requests = [...worker.compute.requests];
    release();
    await cluster.run(500);

    expect(requests).toEqual(["open /m/1", "load /m/1#0/0"]);
    expect(worker.compute.requests.slice(2)).toEqual(["load /m/1#0/1", "close /m/1"]);
    expect(worker.compute.held).toEqual([]);
    expect(worker.announcement().versions[0]?.state).toBe("failed");
  });

  test("a version that is wanted no more is closed only when its loads have ended", async () => {
    const cluster = new FakeCluster();
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const worker = cluster.add("w0");
    await cluster.run(1000);
    cluster.setVersions({ 1: tables, 2: tables });
    const release = holdBack(worker, 1);
    await cluster.run(100);

    cluster.setVersions({ 1: tables });
    await cluster.run(3000);
    const before = worker.compute.requests.includes("close /m/2");
    release();
    await cluster.run(3000);

    expect(before).toBe(false);
    expect(worker.compute.requests.at(-1)).toBe("close /m/2");
    expect(worker.compute.held.every((held) => held.startsWith("/m/1#"))).toBe(true);
  });
});
