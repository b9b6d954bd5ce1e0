// An open, a load or a replacement that fails half-way leaves nothing open, and a handle always
// stands for the same content.

import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setImmediate } from "node:timers/promises";

import { createReferenceAccelerator } from "@winnow/accelerator";
import { StringColumn, WinnowError, fingerprint } from "@winnow/core";
import { openModelVersion } from "@winnow/model";
import { writeRetrievalModel } from "@winnow/model-writer";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";

import type { OpenedVersion } from "../compute.ts";
import { computeInProcess } from "../doubles/compute-in-process.ts";
import { MemoryModel } from "../doubles/memory-model.ts";
import type { ComputeClient } from "../compute-client.ts";
import { DIM, candidates, everyPartition, strings, valuesOf } from "../fixtures/loaded-tables.ts";
import { LocalModelReader } from "./model-reader.ts";

const root = mkdtempSync(path.join(tmpdir(), "winnow-opened-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const directory = path.join(root, "7");
const DATA_FILE = path.join(directory, "variables/variables.data-00000-of-00001");
const from = { model: "movies", version: 7, directory };

beforeEach(() => {
  rmSync(directory, { recursive: true, force: true });
  writeRetrievalModel(directory, {
    users: {
      vocabulary: StringColumn.fromText(["ann", "bob"]),
      embedding: { rows: 3, dim: DIM, pieces: () => [valuesOf(3)] },
      place: "asset",
    },
    candidates: { rows: 40, dim: DIM, pieces: () => [valuesOf(40)] },
    identifiers: StringColumn.fromText(Array.from({ length: 40 }, (_, row) => `movie ${row}`)),
    k: 5,
  });
});

const clients: ComputeClient[] = [];
afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.shutdown()));
  if (!existsSync(directory)) return;
  rmSync(directory, { recursive: true, force: true });
});

function started(
  openModel: (directory: string) => MemoryModel | ReturnType<typeof openModelVersion>,
  accelerator = createReferenceAccelerator({ capacityBytes: 2 ** 26 }),
): ComputeClient {
  const client = computeInProcess({ openModel, accelerator });
  clients.push(client);
  return client;
}

/** Files below the version directory that this process has open, where the system lists them. */
function openFiles(): string[] {
  if (!existsSync("/proc/self/fd")) return [];
  const links = readdirSync("/proc/self/fd").flatMap((handle) => {
    try {
      return [readlinkSync(path.join("/proc/self/fd", handle))];
    } catch {
      return []; // Closed between the listing and now.
    }
  });
  return links.filter((link) => link.startsWith(directory));
}

test("versions that are waited for are found beside each other, and read one after the other", async () => {
  const log: string[] = [];
  const reader = new LocalModelReader(
    (at) => openModelVersion(at),
    async () => {
      log.push("check");
      await setImmediate();
      log.push("checked");
    },
    async (at) => {
      log.push("find");
      await setImmediate();
      return { directory: at, release: () => undefined };
    },
  );

  await Promise.all([reader.open(directory), reader.open(directory)]);

  expect(log).toEqual(["find", "find", "check", "checked", "check", "checked"]);
  await reader.shutdown();
});

describe("a directory that is opened while it is being copied", () => {
  test.each([0, 0.2, 0.5, 0.9])(
    "is opened as soon as its data file is whole: %f of it were written, the rest was cut off or zero",
    async (ratio) => {
      const content = readFileSync(DATA_FILE);
      const written = Math.floor(content.length * ratio);
      const reader = new LocalModelReader((at) => openModelVersion(at));
      const preallocated = new Uint8Array(content.length);
      preallocated.set(content.subarray(0, written));

      for (const unfinished of [content.subarray(0, written), preallocated]) {
        writeFileSync(DATA_FILE, unfinished);
        // Files in which only rows are zero can be opened: the checksum shows it on reading them.
        const code = await reader.open(directory).then(
          ({ handle }) => reader.close(handle),
          (error: WinnowError) => error.code,
        );
        expect(["DATA_LOSS", undefined]).toContain(code);
        expect(openFiles()).toEqual([]);
      }
      writeFileSync(DATA_FILE, content);
      const opened = await reader.open(directory);

      expect(opened.tables).toHaveLength(2);
      await reader.close(opened.handle);
    },
  );

  test("leaves no file open, whichever file is missing or cut short", async () => {
    const files = ["saved_model.pb", "variables/variables.index", "assets/user_vocab.txt"];
    const reader = new LocalModelReader((at) => openModelVersion(at));
    for (const file of [...files, "variables/variables.data-00000-of-00001"]) {
      const name = path.join(directory, file);
      if (!existsSync(name)) continue;
      const content = readFileSync(name);
      for (const length of [0, 1, Math.floor(content.length / 2), content.length - 1]) {
        writeFileSync(name, content.subarray(0, length));
        const opened = await reader.open(directory).catch(() => undefined);
        if (opened !== undefined) await reader.close(opened.handle);
      }
      rmSync(name);
      await reader.open(directory).catch(() => undefined);
      writeFileSync(name, content);
    }

    expect(openFiles()).toEqual([]);
  });
});

/** A model that notes whether it was closed, and fails where a test wants it to. */
class CountedModel extends MemoryModel {
  failsToMeasure = false;

  override partitionBytes(table: number, partition: number): number {
    if (this.failsToMeasure) throw new WinnowError("DATA_LOSS", "variables.data is cut short");
    return super.partitionBytes(table, partition);
  }
}

const model = (): CountedModel => new CountedModel([candidates(40, strings(ids(40)))]);
const ids = (count: number): string[] => Array.from({ length: count }, (_, row) => `m${row}`);

describe("the compute side", () => {
  test("gives each opening a handle of its own, and lets each be closed alone", async () => {
    const models = [model(), model()];
    const client = started(() => models.shift()!);
    const [first, second] = models;

    const a = await client.open(from, []);
    const b = await client.open(from, []);
    expect(a.handle).not.toBe(b.handle);
    await client.close(a.handle);

    expect([first?.isClosed, second?.isClosed]).toEqual([true, false]);
    await expect(client.load({ handle: a.handle, table: 0, partition: 0 })).rejects.toMatchObject({
      code: "NOT_FOUND",
    });
    expect((await client.load({ handle: b.handle, table: 0, partition: 0 })).bytes).toBeGreaterThan(
      0,
    );
  });

  test("closes what it opened when its partitions cannot be measured", async () => {
    const broken = model();
    broken.failsToMeasure = true;
    const models = [broken, model()];
    const client = started(() => models.shift()!);

    await expect(client.open(from, [])).rejects.toMatchObject({ code: "DATA_LOSS" });
    const opened = await client.open(from, []);

    expect(broken.isClosed).toBe(true);
    expect(opened.tables).toHaveLength(1);
  });

  test("keeps what is loaded when the same content is found in other files", async () => {
    const models = [model(), model()];
    const [first, second] = models;
    const client = started(() => models.shift()!);
    const before = await client.open(from, []);
    for (let partition = 0; partition < before.tables[0]!.partitions; partition += 1) {
      await client.load({ handle: before.handle, table: 0, partition });
    }
    const usedBytes = client.memory.usedBytes;

    const after = await client.open(from, [before.handle]);

    expect(after.handle).toBe(before.handle);
    expect([first?.isClosed, second?.isClosed]).toEqual([true, false]);
    expect(client.memory.usedBytes).toBe(usedBytes);
    const scan = await client.topK({
      target: {
        handle: after.handle,
        table: 0,
        partitions: everyPartition(before.tables[0]!.partitions),
      },
      asks: [{ queries: 1, k: 3, excluded: [], rowsOnly: true }],
      vectors: new Float32Array(DIM).fill(1),
    });
    expect(scan.answers[0]!.block.counts[0]).toBe(3);
    await client.release({ handle: after.handle, table: 0, partition: 0 });
    await client.load({ handle: after.handle, table: 0, partition: 0 });
    await client.close(after.handle);
    expect([first?.isClosed, second?.isClosed]).toEqual([true, true]);
  });

  test("(S7) does not take another content for one that is open", async () => {
    const other = model();
    Object.assign(other.program, { fingerprint: fingerprint("0dd") });
    const models = [model(), other];
    const client = started(() => models.shift()!);
    const before = await client.open(from, []);

    const after = await client.open(from, [before.handle]);

    expect(after.handle).not.toBe(before.handle);
    await client.close(before.handle);
    await client.load({ handle: after.handle, table: 0, partition: 0 });
  });

  test("loads a content of the same rows without reading them, and frees them with the last one", async () => {
    const models = [model(), model()];
    const [first, second] = models;
    Object.assign(first!, { rowsFingerprint: fingerprint("4035") });
    Object.assign(second!, { rowsFingerprint: fingerprint("4035") });
    Object.assign(second!.program, { fingerprint: fingerprint("0dd") });
    const client = started(() => models.shift()!);
    const before = await client.open(from, []);
    const { partitions } = before.tables[0]!;
    for (let partition = 0; partition < partitions; partition += 1) {
      await client.load({ handle: before.handle, table: 0, partition });
    }
    const { bytesRead } = first!;
    const scanOf = async ({ handle }: typeof before) =>
      await client.topK({
        target: { handle, table: 0, partitions: everyPartition(partitions) },
        asks: [{ queries: 1, k: 3, excluded: [], rowsOnly: false }],
        vectors: new Float32Array(DIM).fill(1),
      });
    const expected = await scanOf(before);

    const after = await client.open(from, [before.handle]);
    const loads = [];
    for (let partition = 0; partition < partitions; partition += 1) {
      const name = { handle: after.handle, table: 0, partition };
      loads.push(await client.load(name, before.handle));
    }
    await client.release({ handle: before.handle, table: 0, partition: 0 });
    await client.close(before.handle);
    const found = await scanOf(after);

    expect([after.rowsFingerprint, first!.bytesRead]).toEqual([before.rowsFingerprint, bytesRead]);
    expect([second!.bytesRead, ...loads.map((each) => each.bytesRead)]).toEqual([
      0,
      ...loads.map(() => 0),
    ]);
    expect(found.answers).toEqual(expected.answers);
    await client.close(after.handle);
    expect(client.memory.usedBytes).toBe(0);
  });

  test("loads a model with other changes to its items without reading its rows", async () => {
    const file = path.join(directory, "assets.extra/item-updates.jsonl");
    mkdirSync(path.dirname(file));
    const change = (id: string, first: number): string =>
      `${JSON.stringify({ id, vector: Array.from({ length: DIM }, (_, at) => first + at) })}\n`;
    writeFileSync(file, change("new", 5) + change("movie 7", 9));
    const client = started((at) => openModelVersion(at, { partitionBytes: DIM * 4 * 8 }));
    const loaded = async (siblings: readonly OpenedVersion[]) => {
      const handles = siblings.map(({ handle }) => handle);
      const opened = await client.open(from, handles);
      const table = opened.tables.findIndex(({ kind }) => kind === "candidate");
      const { partitions, original } = opened.tables[table]!;
      const reads: number[] = [];
      for (let partition = 0; partition < partitions; partition += 1) {
        const rowsOf = partition < original!.partitions ? handles[0] : undefined;
        const name = { handle: opened.handle, table, partition };
        const { bytesRead } = await client.load(name, rowsOf);
        if (partition < original!.partitions) reads.push(bytesRead);
      }
      const { answers } = await client.topK({
        target: { handle: opened.handle, table, partitions: everyPartition(partitions) },
        asks: [{ queries: 1, k: 50, excluded: [], rowsOnly: false }],
        vectors: new Float32Array(DIM).fill(1),
      });
      return { opened, reads, answers };
    };
    const before = await loaded([]);

    appendFileSync(file, change("newer", 7) + change("new", 6));
    const after = await loaded([before.opened]);
    await client.close(before.opened.handle);

    expect(before.reads.every((bytes) => bytes > 0)).toBe(true);
    expect(after.reads).toEqual(before.reads.map(() => 0));
    expect([before.opened.changes, after.opened.changes]).toMatchObject([
      { vectors: 2, removed: 0 },
      { vectors: 3, removed: 0 },
    ]);
    const anew = await loaded([]);
    expect(anew.opened.fingerprint).toBe(after.opened.fingerprint);
    expect(after.answers).toEqual(anew.answers);
    expect(before.answers).not.toEqual(anew.answers);
  });

  test("(S7) reads rows whose ids it finds otherwise than the other content", async () => {
    const other = new CountedModel([candidates(40, strings(ids(40).toReversed()))]);
    Object.assign(other.program, { fingerprint: fingerprint("0dd") });
    const models = [model(), other];
    const client = started(() => models.shift()!);
    const before = await client.open(from, []);
    await client.load({ handle: before.handle, table: 0, partition: 0 });
    const after = await client.open(from, [before.handle]);

    await client.load({ handle: after.handle, table: 0, partition: 0 }, before.handle);

    expect(other.bytesRead).toBeGreaterThan(0);
  });

  test("reads rows whose other content is gone", async () => {
    const models = [model(), model()];
    const [, second] = models;
    Object.assign(second!.program, { fingerprint: fingerprint("0dd") });
    const client = started(() => models.shift()!);
    const before = await client.open(from, []);
    await client.load({ handle: before.handle, table: 0, partition: 0 });
    const after = await client.open(from, [before.handle]);
    await client.close(before.handle);

    await client.load({ handle: after.handle, table: 0, partition: 0 }, before.handle);

    expect(second!.bytesRead).toBeGreaterThan(0);
  });

  test("(R5) lets go of a partition that the device has no room for", async () => {
    const client = started(model, createReferenceAccelerator({ capacityBytes: 8 }));
    const { handle } = await client.open(from, []);

    for (let tries = 0; tries < 3; tries += 1) {
      await expect(client.load({ handle, table: 0, partition: 0 })).rejects.toMatchObject({
        code: "RESOURCE_EXHAUSTED",
      });
    }

    expect(client.memory.usedBytes).toBe(0);
  });
});
