// What is kept of objects: read once, by whoever shares the directory; never more bytes than allowed, the ones used
// last; and never a wrong byte, whatever befalls the disk.

import { mkdirSync, readFileSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryDirectory } from "../../../../test/temporary-directory.ts";
import { CacheCounts } from "./cache-counts.ts";
import { CachedStore, type CachedStoreParts, cacheBytes } from "./cached-store.ts";
import type { ByteRange, ObjectStore } from "./object-store.ts";

const OBJECT = { key: "movies/1/rows", etag: "a" };
const MIB = 2 ** 20;

/** Bytes that tell where they are and of which content. */
function bytesAt({ start, end }: ByteRange, etag: string): Uint8Array {
  return Uint8Array.from(
    { length: end - start },
    (_, at) => (start + at) * 31 + etag.charCodeAt(0),
  );
}

/** A store that notes what it is asked for. */
function askedStore(): { readonly store: ObjectStore; readonly asked: ByteRange[] } {
  const asked: ByteRange[] = [];
  const store: ObjectStore = {
    folders: async () => [],
    objects: async () => [],
    read: async (_bucket, { etag }, range) => {
      asked.push(range);
      return bytesAt(range, etag);
    },
  };
  return { store, asked };
}

function opened(directory: string, parts: Partial<CachedStoreParts> = {}) {
  const { store, asked } = askedStore();
  const told: string[] = [];
  const counts = new CacheCounts();
  const cache = { directory, bytesMax: 64 * MIB, counts: counts.buffer };
  const cached = new CachedStore({
    store,
    storeName: "here",
    cache,
    tell: (text) => void told.push(text),
    ...parts,
  });
  const read = (range: ByteRange, etag = "a"): Promise<Uint8Array> =>
    cached.read({ scheme: "s3", bucket: "models" }, { ...OBJECT, etag }, range);
  return { read, asked, told, counts };
}

const filesOf = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: "utf8" })
    .map((name) => path.join(directory, name))
    .filter((file) => statSync(file).isFile())
    .toSorted();

const named = (directory: string, name: string): string =>
  filesOf(directory).find((file) => path.basename(file) === name)!;

describe("what was read of an object", () => {
  test("is not asked for again, by a process that starts later", async () => {
    const directory = temporaryDirectory();
    const first = opened(directory);
    await first.read({ start: 100, end: 5000 });
    const second = opened(directory);

    const bytes = await second.read({ start: 100, end: 5000 });

    expect(bytes).toEqual(bytesAt({ start: 100, end: 5000 }, "a"));
    expect(first.asked).toEqual([{ start: 100, end: 5000 }]);
    expect(second.asked).toEqual([]);
  });

  test("is counted, as found or fetched, and so is what the directory holds", async () => {
    const directory = temporaryDirectory();
    const { read, counts } = opened(directory);
    await read({ start: 1000, end: 2000 });
    await read({ start: 500, end: 2000 });
    await read({ start: 500, end: 1500 });

    expect(counts.tallies).toEqual({
      fromCache: { reads: 3, bytes: 2000 },
      fromStore: { reads: 2, bytes: 1500 },
      heldBytes: await cacheBytes(directory),
    });
  });

  test("is put together with what is missing, wherever ranges begin", async () => {
    const directory = temporaryDirectory();
    const { read, asked } = opened(directory);
    await read({ start: 1000, end: 2000 });
    await read({ start: 3000, end: 4000 });
    asked.length = 0;

    for (const again of [false, true]) {
      const bytes = await read({ start: 500, end: 3500 });
      expect(bytes, `again: ${again}`).toEqual(bytesAt({ start: 500, end: 3500 }, "a"));
    }
    await expect(read({ start: 1500, end: 1600 })).resolves.toEqual(
      bytesAt({ start: 1500, end: 1600 }, "a"),
    );

    expect(asked).toEqual([
      { start: 500, end: 1000 },
      { start: 2000, end: 3000 },
    ]);
  });

  test("is of one content, one bucket and one store", async () => {
    const directory = temporaryDirectory();
    const range = { start: 0, end: 10 };
    await opened(directory).read(range);
    const replaced = opened(directory);
    const elsewhere = opened(directory, { storeName: "there" });

    await expect(replaced.read(range, "b")).resolves.toEqual(bytesAt(range, "b"));
    await elsewhere.read(range);

    expect(replaced.asked).toEqual([range]);
    expect(elsewhere.asked).toEqual([range]);
  });

  test.each([
    ["damaged", (bytes: Buffer) => bytes.fill(7, 3, 4)],
    ["cut", (bytes: Buffer) => bytes.subarray(0, 9)],
    ["emptied", () => Buffer.alloc(0)],
  ])("and is %s on disk is read from the store again", async (_, spoil) => {
    const directory = temporaryDirectory();
    const range = { start: 0, end: 1000 };
    await opened(directory).read(range);
    const [file] = filesOf(directory);
    writeFileSync(file!, spoil(readFileSync(file!)));
    const { read, asked } = opened(directory);

    await expect(read(range)).resolves.toEqual(bytesAt(range, "a"));
    await expect(read(range)).resolves.toEqual(bytesAt(range, "a"));

    expect(asked).toEqual([range]);
  });
});

describe("the limit in bytes", () => {
  const part = (index: number): ByteRange => ({ start: index * MIB, end: (index + 1) * MIB });

  test("is never passed, and what was used last stays", async () => {
    const directory = temporaryDirectory();
    const bytesMax = 10 * MIB;
    const { read, asked } = opened(directory, { cache: { directory, bytesMax } });
    const most: number[] = [];
    for (let index = 0; index < 9; index += 1) await read(part(index));
    // As old as they are many; then the oldest is used.
    for (let index = 0; index < 9; index += 1) {
      const file = named(directory, `${index * MIB}-${(index + 1) * MIB}`);
      utimesSync(file, 1000 + index, 1000 + index);
    }
    await read(part(0));
    for (let index = 9; index < 12; index += 1) {
      await read(part(index));
      most.push(await cacheBytes(directory));
    }
    asked.length = 0;
    for (const index of [0, 9, 10, 11]) await read(part(index));

    expect(Math.max(...most)).toBeLessThanOrEqual(bytesMax);
    expect(Math.max(...most)).toBeGreaterThan(bytesMax / 2);
    expect(asked).toEqual([]);
    await read(part(1));
    expect(asked).toEqual([part(1)]);
  });

  test("that is lower than before takes effect with the first thing that is kept", async () => {
    const directory = temporaryDirectory();
    const before = opened(directory);
    for (let index = 0; index < 8; index += 1) await before.read(part(index));
    const bytesMax = 4 * MIB;

    await opened(directory, { cache: { directory, bytesMax } }).read(part(9));

    expect(await cacheBytes(directory)).toBeLessThanOrEqual(bytesMax);
  });

  test("counts drafts of dead processes, and no file of anybody else's is touched", async () => {
    const directory = temporaryDirectory();
    const others = [
      "mine.txt",
      "winnow-model-cache/mine.txt",
      `winnow-model-cache/${"a".repeat(32)}/mine.txt`,
    ];
    for (const name of others) {
      mkdirSync(path.dirname(path.join(directory, name)), { recursive: true });
      writeFileSync(path.join(directory, name), Buffer.alloc(MIB));
      utimesSync(path.join(directory, name), 1, 1);
    }
    const draft = path.join(directory, "winnow-model-cache", "a".repeat(32), ".1-0-1");
    writeFileSync(draft, Buffer.alloc(2 * MIB));
    utimesSync(draft, 2, 2);

    const cache = { directory, bytesMax: 2 * MIB };
    await opened(directory, { cache }).read(part(0));

    const files = filesOf(directory).map((file) => path.relative(directory, file));
    expect(files).toEqual(expect.arrayContaining(others));
    expect(files).toHaveLength(others.length + 1);
    expect(files).not.toContain(path.relative(directory, draft));
  });
});

describe("a disk that fails", () => {
  const failing = (code: string) => async (): Promise<void> => {
    throw Object.assign(new Error(code), { code });
  };

  test("because it is full is told once, makes room, and costs no read", async () => {
    const directory = temporaryDirectory();
    const before = opened(directory);
    for (let start = 0; start < 8; start += 1) await before.read({ start, end: start + 1 });
    const bytesBefore = await cacheBytes(directory);
    const { read, told } = opened(directory, { writeFile: failing("ENOSPC") });

    for (const start of [100, 200]) {
      await expect(read({ start, end: start + 9 })).resolves.toEqual(
        bytesAt({ start, end: start + 9 }, "a"),
      );
    }

    expect(told).toEqual([expect.stringMatching(/disk is full.*lower --model-cache-bytes/)]);
    expect(await cacheBytes(directory)).toBeLessThan(bytesBefore);
  });

  test("for another reason is told once, and nothing more is written", async () => {
    const directory = temporaryDirectory();
    let writes = 0;
    const writeFile = async (): Promise<void> => {
      writes += 1;
      await failing("EROFS")();
    };
    const { read, told } = opened(directory, { writeFile });

    await read({ start: 0, end: 9 });
    await read({ start: 9, end: 18 });

    expect(told).toEqual([expect.stringContaining("EROFS; models are read from the store only")]);
    expect(writes).toBe(1);
  });
});

test("what the store cannot give is an error, and is not kept", async () => {
  const directory = temporaryDirectory();
  const store: ObjectStore = {
    ...askedStore().store,
    read: async () => Promise.reject(new Error("away")),
  };
  const { read } = opened(directory, { store });

  await expect(read({ start: 0, end: 9 })).rejects.toThrow("away");
  expect(await cacheBytes(directory)).toBe(0);
});
