// Who reads which version: small ones of a start are read here, everything else by the reader thread.

import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

import { createReferenceAccelerator } from "@winnow/accelerator";
import { systemClock } from "@winnow/core";
import { afterAll, expect, test } from "vitest";

import { ComputeHost } from "../compute-host.ts";
import { MemoryModel } from "../doubles/memory-model.ts";
import { candidates, everyPartition, searchBatch, strings } from "../fixtures/loaded-tables.ts";
import { ProgressCounter } from "../progress-counter.ts";
import { LocalModelReader } from "./model-reader.ts";
import type { ModelReader } from "./model-reader.ts";
import { START_BYTES_MAX, StartReader } from "./start-reader.ts";

const root = mkdtempSync(path.join(tmpdir(), "winnow-start-reader-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** A directory with one file, in a folder, of this size. */
function directoryOf(name: string, bytes: number, file = "assets/rows"): string {
  const directory = path.join(root, name);
  mkdirSync(path.dirname(path.join(directory, file)), { recursive: true });
  writeFileSync(path.join(directory, file), "");
  truncateSync(path.join(directory, file), bytes);
  return directory;
}

class LoggedReader extends LocalModelReader {
  onEnd: () => void = () => undefined;

  override async shutdown(): Promise<void> {
    this.onEnd();
    await super.shutdown();
  }
}

/** A reader, what it was asked to open by whom, and which of both was ended. */
function started() {
  const log: string[] = [];
  const readerCalled = (name: string): LocalModelReader => {
    log.push(`start ${name}`);
    const reader = new LoggedReader((directory) => {
      log.push(`${name}: ${path.basename(directory)}`);
      const ids = [0, 1, 2].map((row) => `${path.basename(directory)} ${row}`);
      return new MemoryModel([candidates(3, strings(ids))]);
    });
    reader.onEnd = () => log.push(`end ${name}`);
    return reader;
  };
  const reader = new StartReader({
    readHere: async () => readerCalled("here"),
    startThread: () => readerCalled("thread"),
  });
  return { reader, log };
}

test("small versions are read here, until the bytes of a start are read", async () => {
  const { reader, log } = started();

  await reader.open(directoryOf("a", START_BYTES_MAX - 10));
  await reader.open(directoryOf("b", 10));
  await reader.open(directoryOf("c", 1));

  expect(log).toEqual(["start here", "here: a", "here: b", "start thread", "thread: c"]);
});

test("the thread opens whatever comes after the first version that it has opened", async () => {
  const { reader, log } = started();

  await reader.open(directoryOf("large", START_BYTES_MAX + 1));
  await reader.open(directoryOf("small", 1));

  expect(log).toEqual(["start thread", "thread: large", "thread: small"]);
});

test("of two that are opened at the same time, each counts", async () => {
  const { reader, log } = started();
  const half = START_BYTES_MAX / 2 + 1;

  await Promise.all([reader.open(directoryOf("d", half)), reader.open(directoryOf("e", half))]);

  expect(log.toSorted()).toEqual(["here: d", "start here", "start thread", "thread: e"]);
});

test("a worker that searches opens no version here", async () => {
  const { reader, log } = started();

  reader.beginsToServe();
  await reader.open(directoryOf("f", 1));

  expect(log).toEqual(["start thread", "thread: f"]);
});

test("the compute side tells of its first search", async () => {
  const { reader, log } = started();
  const host = new ComputeHost({
    accelerator: createReferenceAccelerator({ capacityBytes: 2 ** 20 }),
    reader,
    progress: new ProgressCounter(),
    clock: systemClock,
    exclusionBytesMax: 0,
    filterBytesMax: 0,
  });
  const openOne = (name: string) =>
    host.open({ model: name, version: 1, directory: directoryOf(name, 1) }, []);

  const { handle, tables } = await openOne("g");
  for (const partition of everyPartition(tables[0]!.partitions)) {
    await host.load({ handle, table: 0, partition });
  }
  await openOne("h");
  await host.topK(searchBatch(everyPartition(tables[0]!.partitions), [{}]), AbortSignal.any([]));
  await openOne("i");
  await host.shutdown();

  expect(log.slice(0, 5)).toEqual([
    "start here",
    "here: g",
    "here: h",
    "start thread",
    "thread: i",
  ]);
});

test.each([
  ["of an object store", "s3://bucket/movies/1"],
  ["that is not there", path.join(root, "absent")],
  ["with a packed file", directoryOf("packed", 1, "assets.extra/items.parquet")],
])("a version %s is left to the thread", async (_title, location) => {
  const { reader, log } = started();

  await reader.open(location);

  expect(log).toEqual(["start thread", `thread: ${path.basename(location)}`]);
});

test("each version is read and closed by whoever has opened it, under a handle of its own", async () => {
  const { reader, log } = started();
  const first = await reader.open(directoryOf("first", 1));
  reader.beginsToServe();
  const second = await reader.open(directoryOf("second", 1));

  const ids = [];
  for (const { handle: version } of [second, first]) {
    const { ids: found } = await reader.openPartition({ version, table: 0, partition: 0 });
    ids.push(found?.dtype === "string" ? found.data.textAt(0) : undefined);
  }
  await reader.close(first.handle);

  expect(first.handle).not.toBe(second.handle);
  expect(ids).toEqual(["second 0", "first 0"]);
  await expect(reader.program(first.handle, 0)).rejects.toThrow("no version is open");
  await expect(reader.close(first.handle)).rejects.toThrow("no version is open");
  await reader.shutdown();
  expect(log.slice(-2).toSorted()).toEqual(["end here", "end thread"]);
});

test("the thread gives way from the first search on, whenever it is started", async () => {
  const told: string[] = [];
  const withThread = (name: string): StartReader => {
    const thread = new LoggedReader(() => new MemoryModel([candidates(1, strings(["id"]))]));
    const startThread = (): ModelReader => {
      const reader: ModelReader = thread;
      reader.beginsToServe = () => void told.push(name);
      return reader;
    };
    return new StartReader({ readHere: async () => thread, startThread });
  };
  const large = START_BYTES_MAX + 1;

  const early = withThread("early");
  await early.open(directoryOf("large", large));
  expect(told).toEqual([]);
  early.beginsToServe();
  expect(told).toEqual(["early"]);

  const late = withThread("late");
  late.beginsToServe();
  expect(told).toEqual(["early"]);
  await late.open(directoryOf("small", 1));
  expect(told).toEqual(["early", "late"]);
});
