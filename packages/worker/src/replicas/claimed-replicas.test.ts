// What is announced of other workers may be forged, or left by a worker that has died. A replica is given up only
// for workers that have said themselves, when they were asked, that they hold it.

import { incarnation, workerId } from "@winnow/core";
import type { Announcement } from "@winnow/cluster";
import { expect, test, vi } from "vitest";

import { fakeTable } from "../compute/doubles/fake-compute.ts";
import { FakeCluster } from "./doubles/fake-cluster.ts";

const PARTITIONS = 8;
const WHOLE = Array.from({ length: PARTITIONS }, () => 2);

/** Two workers that hold everything. */
async function started(): Promise<FakeCluster> {
  const cluster = new FakeCluster();
  cluster.setVersions({ 1: [fakeTable("movies", PARTITIONS)] });
  cluster.add("w0");
  cluster.add("w1");
  await cluster.run(3000);
  return cluster;
}

/** A claim to hold all that `w0` holds. */
function claim(cluster: FakeCluster, name: string, address = name): Announcement {
  const whole = cluster.workers.get(workerId("w0"))!.announcement();
  return { ...whole, workerId: workerId(name), incarnation: incarnation(1), address };
}

/** The fewest replicas that any partition had at any time. */
async function fewest(cluster: FakeCluster, durationMs: number): Promise<number> {
  let found = Infinity;
  await cluster.run(durationMs, () => {
    found = Math.min(found, ...cluster.coverage(1));
  });
  return found;
}

test("(L1) workers that nobody meets take no replica from the real ones, whatever they claim", async () => {
  const cluster = await started();
  for (let count = 0; count < 20; count += 1) {
    // Every second one claims to be where a real worker is.
    cluster.claims.push(claim(cluster, `x${count}`, count % 2 === 0 ? undefined : "w0"));
  }

  const replicas = await fewest(cluster, 30_000);

  expect(replicas).toBe(2);
});

test("(L1) a worker that has died while its record still claims partitions takes none from the others", async () => {
  const cluster = await started();
  const dead = cluster.add("w2");
  cluster.mute.add(dead.id);
  await cluster.run(50);
  cluster.claims.push(claim(cluster, "w2"));
  cluster.kill(dead);

  const replicas = await fewest(cluster, 30_000);

  expect(replicas).toBe(2);
});

test("a replica is given up once a worker that did not answer for long confirms that it holds it", async () => {
  const cluster = await started();
  const { id } = cluster.add("w2");
  cluster.mute.add(id);
  await cluster.run(20_000);
  const kept = cluster.coverage(1);

  cluster.mute.clear();
  await cluster.run(31_000);

  expect(kept.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(2 * PARTITIONS);
  expect(cluster.coverage(1)).toEqual(WHOLE);
  for (const { compute } of cluster.workers.values()) {
    expect(compute.memory.usedBytes).toBeLessThan(PARTITIONS * 100);
  }
});

test("hundreds of names are asked seldom, and only those that placement gives what is held here", async () => {
  const cluster = await started();
  for (let count = 0; count < 200; count += 1) cluster.claims.push(claim(cluster, `x${count}`));

  await cluster.run(40_000);

  // Both workers ask the two owners of each partition: after 0, 1, 3, 7, 15, 31 s.
  expect(cluster.questions).toBeLessThanOrEqual(2 * 2 * PARTITIONS * 6);
  expect(cluster.coverage(1)).toEqual(WHOLE);
});

test("nobody is asked while nothing is to be given up", async () => {
  const cluster = await started();

  await cluster.run(10_000);

  expect(cluster.questions).toBe(0);
});

test("claims that nobody confirms are logged, once a minute", async () => {
  const cluster = new FakeCluster();
  cluster.setVersions({ 1: [fakeTable("movies", PARTITIONS)] });
  const warn = vi.fn();
  const log = { debug: vi.fn(), info: vi.fn(), warn, error: vi.fn() };
  cluster.add("w0", {}, log);
  cluster.add("w1");
  await cluster.run(3000);
  for (let count = 0; count < 20; count += 1) cluster.claims.push(claim(cluster, `x${count}`));

  await cluster.run(50_000);

  expect(warn.mock.calls).toEqual([
    [
      "keeps partitions that another worker is announced to hold and does not confirm",
      expect.objectContaining({ worker: expect.stringMatching(/^x/) }),
    ],
  ]);
});

test("(I5) a worker in drain waits for one that answers, not for one that is only announced to hold everything", async () => {
  const cluster = new FakeCluster();
  cluster.setVersions({ 1: [fakeTable("movies", PARTITIONS)] });
  const leaving = cluster.add("w0");
  await cluster.run(2000);
  cluster.claims.push(claim(cluster, "x0"));
  const taking = cluster.add("w1", { loadMs: 200 });
  const settings = { drainSettleMs: 100, drainAbsentMs: 100, drainHoldMsMax: 60_000 };
  const startedMs = cluster.clock.nowMs();
  let heldAtEnd: number | undefined;

  cluster.drain(leaving);
  await cluster.run(5000, () => {
    const { isOver } = leaving.control.drainHold(startedMs, settings);
    if (isOver) heldAtEnd ??= taking.compute.held.length;
  });

  expect(heldAtEnd).toBe(PARTITIONS);
});
