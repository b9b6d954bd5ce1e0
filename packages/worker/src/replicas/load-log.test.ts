// What the log says while an assignment is loaded.

import { FILE_DIGITS, WinnowError, workerId } from "@winnow/core";
import type { Fields } from "@winnow/core";
import { expect, test } from "vitest";

import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { OpenedVersion } from "../compute/compute.ts";
import { FakeCluster } from "./doubles/fake-cluster.ts";
import { LoadLog } from "./load-log.ts";
import { emptyReplicaSet, withFound } from "./replica-set.ts";
import { contentPrint, fakeTable } from "../compute/doubles/fake-compute.ts";

function logged() {
  const lines: [string, Fields][] = [];
  const note = (event: string, fields: Fields = {}): void => void lines.push([event, fields]);
  const log = { debug: note, info: note, warn: note, error: note };
  const of = (event: string): Fields[] =>
    lines.filter(([name]) => name === event).map(([, fields]) => fields);
  const events = (): string[] => lines.map(([name]) => name);
  return { log, of, events };
}

test("an assignment that does not fit is told once, with figures", async () => {
  const cluster = new FakeCluster();
  const { log, of } = logged();
  cluster.setVersions({ 1: [fakeTable("movies", 4, 1000)] });
  cluster.add("w0", { capacityBytes: 3999 }, log);

  await cluster.run(3000);

  const message = expect.stringMatching(/4000 bytes are still to load, 3999 are free/) as string;
  expect(of("version refused")).toEqual([
    { model: "m", version: 1, code: "RESOURCE_EXHAUSTED", message },
  ]);
});

test("a load is told in tenths, and its end with bytes, time and rate", async () => {
  const cluster = new FakeCluster();
  const { log, of } = logged();
  cluster.setVersions({ 1: [fakeTable("movies", 40, 1000)] });
  cluster.add("w0", {}, log);

  await cluster.run(1000);

  const percents = of("loading").map(({ loadedPercent }) => loadedPercent);
  expect(percents).toEqual([10, 20, 30, 40, 50, 60, 70, 80, 90]);
  expect(of("version opened")).toHaveLength(1);
  expect(of("assignment loaded")).toEqual([
    {
      model: "m",
      version: 1,
      partitions: 40,
      bytes: 40_000,
      bytesRead: 40_000,
      elapsedMs: 200,
      gigabytesPerSecond: 0,
    },
  ]);
  expect(of("serving version changed")).toEqual([{ model: "m", version: 1, before: undefined }]);
});

test("replicas that come after the assignment was complete are told with their own time", async () => {
  const cluster = new FakeCluster({ replication: 1 });
  const { log, of } = logged();
  cluster.setVersions({ 1: [fakeTable("movies", 40, 1000)] });
  cluster.add("w0", {}, log);
  const other = cluster.add("w1");
  await cluster.run(60_000);
  cluster.kill(other);

  await cluster.run(1000);

  const [first, second] = of("assignment loaded").map(({ elapsedMs }) => elapsedMs);
  expect(first).toBeLessThan(500);
  expect(second).toBeLessThan(500);
});

test("a version that is given up before it was loaded, for a newer one, is told", async () => {
  const cluster = new FakeCluster();
  const { log, of, events } = logged();
  const tables = [fakeTable("movies", 8)];
  cluster.setVersions({ 1: tables });
  cluster.add("w0", {}, log);
  await cluster.run(1000);
  cluster.plan.loadMs = 400;

  cluster.setVersions({ 1: tables, 2: tables });
  await cluster.run(1000);
  cluster.setVersions({ 1: tables, 2: tables, 3: tables });
  await cluster.run(5000);

  const givenUp = events().find((event) => event.startsWith("version given up")) ?? "";
  expect(of(givenUp)).toEqual([{ model: "m", version: 2 }]);
  expect(of("version unloaded")).toMatchObject([{ version: 1 }]);
});

test("a failure is told with code, message and when it is tried again", async () => {
  const cluster = new FakeCluster();
  const { log, of } = logged();
  cluster.plan.failures.set("/m/1", new WinnowError("DATA_LOSS", "variables.index is cut short"));
  cluster.setVersions({ 1: [fakeTable("movies", 4)] });
  cluster.add("w0", {}, log);

  await cluster.run(200);

  expect(of("version failed")).toEqual([
    {
      model: "m",
      version: 1,
      code: "DATA_LOSS",
      message: "variables.index is cut short",
      retryInMs: 1000,
    },
  ]);
});

test("a worker that no partition is placed on says so once", async () => {
  const cluster = new FakeCluster();
  const { log, of } = logged();
  cluster.setVersions({ 1: [fakeTable("movies", 4)] });
  const worker = cluster.add("w0", {}, log);
  worker.control.setView({ ...cluster.view(), placementWorkers: [] });

  await cluster.clock.advanceSettled(60_000);

  expect(
    of("no partitions are placed on this worker: --members must list its id, or Redis must answer"),
  ).toEqual([{ workerId: "w0" }]);
});

test("a worker that was told another size of partitions is named, once", async () => {
  const { log, of } = logged();
  const cluster = new FakeCluster();
  cluster.setVersions({ 1: [fakeTable("movies", 8, 100)] });
  cluster.add("w0", {}, log);
  cluster.add("w1", { directories: new Map([["/m/1", [fakeTable("movies", 4, 200)]]]) });

  await cluster.run(2000);

  expect(
    of("another worker cuts tables differently: give all workers the same --partition-bytes"),
  ).toMatchObject([{ worker: "w1", table: "movies", partitions: 4, ownPartitions: 8 }]);
});

test("S7: a worker that makes other tables of the same files holds another content, and is named, once", async () => {
  const { log, of } = logged();
  const cluster = new FakeCluster();
  const files = "the same files".padEnd(FILE_DIGITS, ".");
  cluster.setVersions({ 1: [fakeTable("movies", 1, 100)] });
  cluster.plan.contents.set("/m/1", `${files} in one way`);
  cluster.add("w0", {}, log);
  cluster.add("w1", { contents: new Map([["/m/1", `${files} in another way`]]) });

  await cluster.run(2000);

  expect(
    of(
      "another worker makes other tables of the same files: finish the upgrade, or give all workers one release",
    ),
  ).toMatchObject([{ worker: "w1", model: "m", version: 1 }]);
  expect(cluster.workers.get(workerId("w0"))!.announcement().versions).toMatchObject([
    { version: 1, state: "ready", fingerprint: contentPrint(`${files} in one way`) },
  ]);
});

test("(R1) files that look otherwise and hold the same leave nothing behind", () => {
  const { log } = logged();
  const load = new LoadLog({ clock: new ManualClock(), random: () => 0.5, log }, undefined);
  const found = { model: "m", version: 1, directory: "/m/1", stamp: "touched" };
  const [held] = withFound(emptyReplicaSet, found, { phase: "opening" }).versions.values();
  const opened = { tables: [] } as unknown as OpenedVersion;

  load.note({ kind: "opened", id: held!.id, opened }, held!, undefined);
  const ofTwin = load.courses;
  load.note(
    { kind: "opened", id: held!.id, opened },
    { ...held!, life: { phase: "open", opened } },
    undefined,
  );

  expect([ofTwin, load.courses]).toEqual([0, 1]);
});
