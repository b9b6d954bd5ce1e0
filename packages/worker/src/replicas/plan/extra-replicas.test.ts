// Replicas beyond the intended ones: of tables that are not cut, on every worker with room, and
// never at the cost of intended ones.

import { placeTable } from "@winnow/cluster";
import { describe, expect, test } from "vitest";

import { fakeTable } from "../../compute/doubles/fake-compute.ts";
import { FakeCluster } from "../doubles/fake-cluster.ts";
import type { FakeWorker } from "../doubles/fake-cluster.ts";

const SMALL = fakeTable("users", 1, 100);
const LARGE = fakeTable("movies", 8, 100);

/** Partitions held of each table of version `version`, as announced. */
function heldOf(worker: FakeWorker, version = 1): number[] {
  const holding = worker.announcement().versions.find((each) => each.version === version);
  return (holding?.tables ?? []).map(({ held }) => held.length);
}

async function cluster(
  workers: number,
  settings = {},
  capacityBytes = 10_000,
): Promise<FakeCluster> {
  const made = new FakeCluster(settings);
  made.setVersions({ 1: [SMALL, LARGE] });
  for (let count = 0; count < workers; count += 1) made.add(`w${count}`, { capacityBytes });
  await made.run(3000);
  return made;
}

describe("a table that is not cut", () => {
  test("lies on every worker; one that is cut on as many as it is to", async () => {
    const { workers } = await cluster(5);

    const held = Array.from(workers.values(), (worker) => heldOf(worker));

    expect(held.map(([small]) => small)).toEqual([1, 1, 1, 1, 1]);
    expect(held.reduce((sum, [, large = 0]) => sum + large, 0)).toBe(2 * 8);
    expect(Array.from(workers.values(), (each) => each.announcement().versions[0]?.state)).toEqual(
      Array.from({ length: 5 }, () => "ready"),
    );
  });

  test("lies on as many workers as it is to where no memory is given for more", async () => {
    const { workers } = await cluster(5, { extraMemoryRatio: 0 });

    const held = Array.from(workers.values(), (worker) => heldOf(worker)[0] ?? 0);

    expect(held.reduce((sum, count) => sum + count, 0)).toBe(2);
  });

  test("lies on as many workers as its model was told to", async () => {
    const { workers } = await cluster(5, { modelReplication: new Map([["m", 3]]) });

    const held = Array.from(workers.values(), (worker) => heldOf(worker));

    expect(held.reduce((sum, [small = 0]) => sum + small, 0)).toBe(3);
    expect(held.reduce((sum, [, large = 0]) => sum + large, 0)).toBe(3 * 8);
  });

  test("is not read beyond that where the next version of everything would not fit any more", async () => {
    // Four partitions each: two versions of them take 800, and with the small table 900 bytes.
    const { workers } = await cluster(4, { extraMemoryRatio: 1 }, 899);

    const held = Array.from(workers.values(), (worker) => heldOf(worker)[0] ?? 0);

    expect(held.reduce((sum, count) => sum + count, 0)).toBe(2);
  });

  test("is let go where a version does not fit, and the version is loaded then", async () => {
    const made = await cluster(4, { extraMemoryRatio: 1 }, 1250);
    const ids = [...made.workers.keys()];
    const [owners = []] = placeTable({ model: "m", table: SMALL }, ids, { replication: 2 });
    const others = [...made.workers.values()].filter(({ id }) => !owners.includes(id));
    expect(others.map((worker) => heldOf(worker))).toEqual([
      [1, 4],
      [1, 4],
    ]);
    const large = { ...LARGE, partitionBytes: LARGE.partitionBytes.map((bytes) => 2 * bytes) };

    made.setVersions({ 1: [SMALL, LARGE], 2: [SMALL, large] });
    await made.run(5000);

    for (const worker of others) {
      expect(worker.announcement().versions.at(-1)).toMatchObject({ version: 2, state: "ready" });
    }
  });

  test("has extra replicas of what is added to it too", async () => {
    const { rows, partitions, partitionBytes } = SMALL;
    const grown = {
      ...SMALL,
      rows: rows + 1,
      partitions: partitions + 1,
      partitionBytes: [...partitionBytes, 5],
      original: { rows, partitions },
    };
    const made = new FakeCluster();
    made.setVersions({ 1: [grown, LARGE] });
    for (const id of ["w0", "w1", "w2"]) made.add(id, { capacityBytes: 10_000 });
    await made.run(5000);

    expect(Array.from(made.workers.values(), (worker) => heldOf(worker)[0])).toEqual([2, 2, 2]);
  });

  test("is read by a worker that joins, and moves nowhere else", async () => {
    const made = await cluster(3);
    const before = Array.from(made.workers.values(), ({ compute }) =>
      compute.requests.filter((request) => request === "load /m/1#0/0"),
    );

    made.add("w3", { capacityBytes: 10_000 });
    await made.run(5000);

    expect(Array.from(made.workers.values(), (worker) => heldOf(worker)[0])).toEqual([1, 1, 1, 1]);
    expect(
      Array.from(made.workers.values(), ({ compute }) =>
        compute.requests.filter((request) => request === "load /m/1#0/0"),
      ).slice(0, 3),
    ).toEqual(before);
  });

  test("is read again after a pause where this worker's copy is damaged, not at once", async () => {
    const ids = [...(await cluster(4)).workers.keys()];
    const made = new FakeCluster();
    made.setVersions({ 1: [SMALL, LARGE] });
    const [owners = []] = placeTable({ model: "m", table: SMALL }, ids, { replication: 2 });
    const joining = ids.find((id) => !owners.includes(id))!;
    for (const id of ids) if (id !== joining) made.add(id, { capacityBytes: 10_000 });
    await made.run(3000);
    const corrupt = new Set(["/m/1#0/0"]);
    const { compute } = made.add(joining, { capacityBytes: 10_000, corrupt });
    const reads = (): number =>
      compute.requests.filter((request) => request === "load /m/1#0/0").length;

    await made.run(5000);
    expect(reads()).toBeGreaterThan(1);
    expect(reads()).toBeLessThan(10);

    // The worker says so all the time, also while it reads again, and holds its assignment.
    const worker = made.workers.get(joining)!;
    await made.run(5000, () => {
      expect(worker.announcement().versions[0]).toMatchObject({
        state: "ready",
        error: { code: "DATA_LOSS" },
      });
    });
    expect(reads()).toBeLessThan(20);

    corrupt.clear();
    await made.run(5000);
    expect(heldOf(worker)[0]).toBe(1);
    expect(worker.announcement().versions[0]?.error).toBeUndefined();
  });

  test("is taken up for a new version once that is whole, and given up with the old one", async () => {
    const made = await cluster(3);

    made.setVersions({ 2: [SMALL, LARGE] });
    await made.run(5000);

    for (const worker of made.workers.values()) {
      expect(heldOf(worker, 2)[0]).toBe(1);
      expect(heldOf(worker, 1)).toEqual([]);
      expect(worker.compute.memory.usedBytes).toBe(
        heldOf(worker, 2).reduce((sum, count) => sum + 100 * count, 0),
      );
    }
  });
});
