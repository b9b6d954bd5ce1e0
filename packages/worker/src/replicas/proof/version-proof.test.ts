// What becomes of versions whose files every worker can read, but whose shares do not add up.

import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";

import type { ContentHandle } from "../../compute/compute.ts";
import { contentPrint, fakeTable } from "../../compute/doubles/fake-compute.ts";
import { FakeCluster } from "../doubles/fake-cluster.ts";
import { applyEvent, emptyReplicaSet, verifiedOf, withFound, withVersion } from "../replica-set.ts";
import type { HeldVersion, ReplicaEvent } from "../replica-set.ts";

const least = (counts: readonly number[]): number => Math.min(...counts);

/** Partitions that some worker announces with their true share, which here is their own number. */
function soundPartitions(cluster: FakeCluster): number {
  const workers = [...cluster.workers.values()];
  const held = workers.flatMap(
    (worker) => worker.announcement().versions[0]?.tables[0]?.held ?? [],
  );
  const sound = held.filter(({ partition, shares }) => shares[0] === partition);
  return new Set(sound.map(({ partition }) => partition)).size;
}

/** A content after these events, and after a close that leaves it to be opened again. */
function after(...events: readonly (ReplicaEvent | { readonly kind: "close" })[]): HeldVersion {
  const found = { model: "m", version: 1, directory: "/m/1", stamp: "a" };
  const context = { nowMs: 7, settings: { maxLoadRetries: 1, loadRetryIntervalMs: 1000 } };
  let set = withFound(emptyReplicaSet, found);
  const [id] = set.versions.keys();
  for (const event of events) {
    if (event.kind === "close") {
      const closing = { phase: "closing", next: "failed" } as const;
      set = withVersion(set, { ...set.versions.get(id!)!, life: closing });
      set = applyEvent(set, { kind: "closed", id: id! }, context);
    } else set = applyEvent(set, event, context);
  }
  return set.versions.get(id!)!;
}

describe("what is proven of a content", () => {
  const id = "m/1#1";
  const handle = 1 as ContentHandle;
  const tables = [fakeTable("movies", 1)];
  const opened = { kind: "opened", id, opened: { handle, fingerprint: contentPrint("1"), tables } };
  const verified = [[[17]]];
  const error = new WinnowError("DATA_LOSS", "does not add up");

  test("lasts while it is open, whatever is misread, and ends with its close", () => {
    const open = [opened as ReplicaEvent, { kind: "proven", id, verified }] as const;
    const misread = { kind: "corruptReplicas", id, replicas: [0], error } as const;

    expect(verifiedOf(after(...open))).toEqual(verified);
    expect(verifiedOf(after(...open, misread))).toEqual(verified);
    expect(verifiedOf(after(...open, misread, { kind: "close" }))).toBeUndefined();
    expect(after(...open, { kind: "close" }).status.kind).toBe("incomplete");
  });

  test("takes the place of a doubt, which outlives a close", () => {
    const open = [opened as ReplicaEvent, { kind: "corrupt", id, error }] as const;

    expect(after(...open).status).toEqual({ kind: "doubted", corruptSinceMs: 7 });
    expect(after(...open, { kind: "close" }).status).toEqual({
      kind: "doubted",
      corruptSinceMs: undefined,
    });
    expect(after(...open, { kind: "close" }, opened as ReplicaEvent).status.kind).toBe("doubted");
    const proven = after(...open, { kind: "close" }, { kind: "proven", id, verified });
    expect(proven).toMatchObject({ status: { kind: "incomplete", verified } });
    expect(proven.trouble).toBeUndefined();
  });
});

describe("the proof of a version", () => {
  test("(S7) a version that does not add up over all workers never serves, says so, and is let go", async () => {
    const cluster = new FakeCluster({ versionGraceMs: 300 });
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const workers = ["w0", "w1", "w2"].map((name) => cluster.add(name));
    await cluster.run(500);
    cluster.plan.corrupt.add("/m/2#0/5");

    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(20_000, () => {
      for (const { control } of workers) expect(control.serving.get("m")?.version).toBe(1);
      expect(least(cluster.coverage(1))).toBe(2);
    });

    for (const worker of workers) {
      const [, failed] = worker.announcement().versions;
      expect(failed).toMatchObject({ state: "failed", error: { code: "DATA_LOSS" } });
      expect(failed?.error?.message).toMatch(/"movies".*variables.data-00000-of-00001/);
      expect(worker.compute.held.some((each) => each.startsWith("/m/2"))).toBe(false);
    }
  });

  test("(S7) a corrupt newest version leaves a fresh cluster the newest that adds up", async () => {
    const cluster = new FakeCluster();
    const tables = [fakeTable("movies", 8)];
    cluster.plan.corrupt.add("/m/2#0/0");
    cluster.setVersions({ 1: tables, 2: tables });
    const workers = ["w0", "w1"].map((name) => cluster.add(name));

    await cluster.run(1000);

    expect(workers.map((worker) => worker.control.serving.get("m")?.version)).toEqual([1, 1]);
  });

  test("(L1, S7) a joining worker with a damaged copy takes no partition away, and says so", async () => {
    const cluster = new FakeCluster({ replication: 1 });
    const partitions = 8;
    cluster.setVersions({ 1: [fakeTable("movies", partitions)] });
    for (const name of ["w0", "w1"]) cluster.add(name);
    await cluster.run(1000);
    const corrupt = new Set(Array.from({ length: partitions }, (_, at) => `/m/1#0/${at}`));

    const joining = cluster.add("w2", { corrupt, loadMs: 400 });
    await cluster.run(5000, () => expect(soundPartitions(cluster)).toBe(partitions));

    const [version] = joining.announcement().versions;
    expect(version).toMatchObject({ state: "loading", error: { code: "DATA_LOSS" } });
    expect(version?.error?.message).toMatch(
      /partitions? \d.*"movies".*variables.data-00000-of-00001/,
    );
    expect(joining.compute.held).toEqual([]);

    corrupt.clear();
    await cluster.run(5000, () => expect(soundPartitions(cluster)).toBe(partitions));
    expect(joining.announcement().versions[0]).toMatchObject({ state: "ready", error: undefined });
    expect(joining.compute.held.length).toBeGreaterThan(0);
    const held = [...cluster.workers.values()].flatMap(({ compute }) => compute.held);
    expect(held).toHaveLength(partitions);
  });

  test("a version that was read wrongly once takes over when another try adds up", async () => {
    const cluster = new FakeCluster({ maxLoadRetries: 3 });
    const tables = [fakeTable("movies", 8)];
    cluster.setVersions({ 1: tables });
    const workers = ["w0", "w1"].map((name) => cluster.add(name));
    await cluster.run(500);
    cluster.plan.corrupt.add("/m/2#0/5");
    cluster.setVersions({ 1: tables, 2: tables });
    await cluster.run(1000);
    expect(workers.map((worker) => worker.control.serving.get("m")?.version)).toEqual([1, 1]);

    cluster.plan.corrupt.clear();
    await cluster.run(15_000);

    expect(workers.map((worker) => worker.control.serving.get("m")?.version)).toEqual([2, 2]);
    expect(workers[0]?.announcement().versions.at(-1)?.error).toBeUndefined();
  });
});
