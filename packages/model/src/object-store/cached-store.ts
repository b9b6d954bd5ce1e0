// Keeps ranges of objects that were read on this machine's disk, so that a restarted process asks the store
// for listings only. The ETag is part of an object's name here, so changed content is another object.
//
//   <directory>/winnow-model-cache/<digest of store, bucket, key, ETag>/<start>-<end>     bytes, and their CRC-32C
//
// Threads and processes share a directory without locks: a file appears complete, by a rename, and one that
// is gone or damaged is read from the store again. Above the limit of bytes, the files that were read longest
// ago are removed; the modification time of a file is the time of its last use. If the disk fails, nothing is
// cached, and reading goes on.

import { createHash } from "node:crypto";
import { open, readdir, rename, rm, rmdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { threadId } from "node:worker_threads";
import { crc32c, makeDirectory } from "@winnow/core";
import type { ObjectBucket, ObjectUrl } from "@winnow/core";
import { CacheCounts } from "./cache-counts.ts";
import type { ByteRange, ObjectStore, StoredObject } from "./object-store.ts";

/** Where ranges are kept, and up to how many bytes. */
export interface CacheSettings {
  readonly directory: string;
  readonly bytesMax: number;
  /** Memory of `CacheCounts`, if the counts are shown. */
  readonly counts?: SharedArrayBuffer;
}

/** What a cached store is made from. */
export interface CachedStoreParts {
  readonly store: ObjectStore;
  /** Distinguishes stores that have buckets of the same name. */
  readonly storeName: string;
  readonly cache: CacheSettings;
  /** Called once with the reason if nothing more can be cached. Default: a warning of the process. */
  readonly tell?: (text: string) => void;
  /** Writes a file. Default: to the file system. */
  readonly writeFile?: (file: string, bytes: Uint8Array) => Promise<void>;
}

const FOLDER = "winnow-model-cache";
const CHECKSUM_BYTES = 4;
/** Fraction of the limit that may be written between two looks at the directory, to which others write too. */
const UNSEEN_RATIO = 1 / 64;
/** Fraction of the limit (or, on a full disk, of what was there) that is kept when files are removed. */
const KEPT_RATIO = 7 / 8;
/** Objects whose kept ranges are remembered, at most. */
const OBJECTS_MAX = 1024;

/** Kept ranges of an object: end by start. */
type Ranges = Map<number, number>;
interface KeptFile {
  readonly file: string;
  readonly bytes: number;
  readonly usedMs: number;
}

/** A store that reads the bytes of each object once. */
export class CachedStore implements ObjectStore {
  readonly #parts: CachedStoreParts;
  readonly #root: string;
  readonly #counts: CacheCounts;
  readonly #objects = new Map<string, Promise<Ranges>>();
  /** The end of the last write; files are written one after the other. Never rejects. */
  #writing: Promise<void> = Promise.resolve();
  /** Bytes written since the last look at the directory; before the first look it may hold any number. */
  #unseenBytes = Infinity;
  #bytesThen = 0;
  #written = 0;
  #hasEnded = false;
  #hasTold = false;

  constructor(parts: CachedStoreParts) {
    this.#parts = parts;
    this.#root = path.join(parts.cache.directory, FOLDER);
    this.#counts = new CacheCounts(parts.cache.counts);
  }

  folders(url: ObjectUrl): Promise<readonly string[]> {
    return this.#parts.store.folders(url);
  }

  objects(url: ObjectUrl, most?: number): Promise<readonly StoredObject[]> {
    return this.#parts.store.objects(url, most);
  }

  async read(
    bucket: ObjectBucket,
    object: Pick<StoredObject, "key" | "etag">,
    { start, end }: ByteRange,
  ): Promise<Uint8Array> {
    const folder = this.#folderOf(bucket, object);
    const ranges = await this.#rangesOf(folder);
    const target = new Uint8Array(Math.max(0, end - start));
    for (let at = start; at < end;) {
      const range = covering(ranges, at);
      if (range === undefined) {
        const missing = { start: at, end: Math.min(end, nextStart(ranges, at)) };
        const bytes = await this.#parts.store.read(bucket, object, missing);
        target.set(bytes, at - start);
        this.#counts.addRead("store", bytes.length);
        await this.#keep({ folder, ranges, range: missing, bytes });
        at = missing.end;
        continue;
      }
      const bytes = await readKept(fileOf(folder, range), range.end - range.start);
      if (bytes === undefined) {
        ranges.delete(range.start);
        continue;
      }
      const to = Math.min(end, range.end);
      target.set(bytes.subarray(at - range.start, to - range.start), at - start);
      this.#counts.addRead("cache", to - at);
      at = to;
    }
    return target;
  }

  #folderOf({ bucket }: ObjectBucket, { key, etag }: Pick<StoredObject, "key" | "etag">): string {
    const name = JSON.stringify([this.#parts.storeName, bucket, key, etag]);
    const digest = createHash("sha256").update(name).digest("hex").slice(0, 32);
    return path.join(this.#root, digest);
  }

  #rangesOf(folder: string): Promise<Ranges> {
    const ranges = this.#objects.get(folder) ?? rangesIn(folder);
    this.#objects.delete(folder);
    this.#objects.set(folder, ranges);
    if (this.#objects.size > OBJECTS_MAX) {
      const [oldest] = this.#objects.keys();
      this.#objects.delete(oldest!);
    }
    return ranges;
  }

  /** Resolves once the bytes are written, so that no more of them wait than are read at a time. */
  async #keep(part: KeptPart): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write(part));
    await this.#writing;
  }

  async #write({ folder, ranges, range, bytes }: KeptPart): Promise<void> {
    const fileBytes = bytes.length + CHECKSUM_BYTES;
    if (this.#hasEnded || fileBytes > KEPT_RATIO * this.#parts.cache.bytesMax) return;
    const draft = path.join(folder, `.${process.pid}-${threadId}-${(this.#written += 1)}`);
    try {
      await this.#makeRoom(fileBytes);
      await makeDirectory(folder, 0o700);
      await (this.#parts.writeFile ?? writeFile)(draft, withChecksum(bytes));
      await rename(draft, fileOf(folder, range));
      this.#unseenBytes += fileBytes;
      this.#counts.addHeld(fileBytes);
      ranges.set(range.start, range.end);
    } catch (error) {
      await rm(draft, { force: true }).catch(() => undefined);
      await this.#failed(error as NodeJS.ErrnoException);
    }
  }

  async #makeRoom(bytes: number): Promise<void> {
    const { bytesMax } = this.#parts.cache;
    const known = this.#bytesThen + this.#unseenBytes + bytes;
    if (this.#unseenBytes <= UNSEEN_RATIO * bytesMax && known <= bytesMax) return;
    const files = await keptFiles(this.#root);
    const total = totalOf(files);
    const most = Math.min(KEPT_RATIO * bytesMax, bytesMax - bytes);
    this.#seen(total + bytes > bytesMax ? await leave(files, most) : total);
  }

  /** Notes the bytes that a look at the directory has found. */
  #seen(bytes: number): void {
    this.#bytesThen = bytes;
    this.#unseenBytes = 0;
    this.#counts.setHeld(bytes);
  }

  async #failed({ code = "unknown error" }: NodeJS.ErrnoException): Promise<void> {
    // Another process has removed the folder, because it was empty.
    if (code === "ENOENT") return;
    const isFull = code === "ENOSPC" || code === "EDQUOT";
    if (isFull) {
      const files = await keptFiles(this.#root);
      this.#seen(await leave(files, KEPT_RATIO * totalOf(files)));
    } else {
      this.#hasEnded = true;
    }
    if (this.#hasTold) return;
    this.#hasTold = true;
    const { directory, bytesMax } = this.#parts.cache;
    const why = isFull
      ? `its disk is full before it holds ${bytesMax} bytes: lower --model-cache-bytes`
      : `${code}; models are read from the store only`;
    const tell = this.#parts.tell ?? ((text) => process.emitWarning(text));
    tell(`The model cache in ${directory} cannot be written to: ${why}`);
  }
}

interface KeptPart {
  readonly folder: string;
  readonly ranges: Ranges;
  readonly range: ByteRange;
  readonly bytes: Uint8Array;
}

/** Bytes of a cache's files. */
export async function cacheBytes(directory: string): Promise<number> {
  return totalOf(await keptFiles(path.join(directory, FOLDER)));
}

const fileOf = (folder: string, { start, end }: ByteRange): string =>
  path.join(folder, `${start}-${end}`);

async function rangesIn(folder: string): Promise<Ranges> {
  const names = await readdir(folder).catch(() => []);
  const bounds = names
    .map((name) => /^(\d+)-(\d+)$/.exec(name))
    .filter((match) => match !== null)
    .map((match) => [Number(match[1]), Number(match[2])] as const);
  return new Map(bounds.filter(([start, end]) => start < end));
}

function covering(ranges: Ranges, at: number): ByteRange | undefined {
  // Repeated reads mostly ask for the same ranges.
  const exact = ranges.get(at);
  if (exact !== undefined) return { start: at, end: exact };
  for (const [start, end] of ranges) if (start < at && at < end) return { start, end };
  return undefined;
}

function nextStart(ranges: Ranges, at: number): number {
  let next = Infinity;
  for (const start of ranges.keys()) if (start > at && start < next) next = start;
  return next;
}

function withChecksum(bytes: Uint8Array): Uint8Array {
  const file = Buffer.alloc(bytes.length + CHECKSUM_BYTES);
  file.set(bytes);
  file.writeUInt32LE(crc32c(bytes), bytes.length);
  return file;
}

/** The bytes of a file, which counts as used now; `undefined` if it is gone or damaged. */
async function readKept(file: string, length: number): Promise<Uint8Array | undefined> {
  try {
    const handle = await open(file, "r+");
    try {
      const whole = await handle.readFile();
      const bytes = whole.subarray(0, length);
      if (
        whole.length === length + CHECKSUM_BYTES &&
        whole.readUInt32LE(length) === crc32c(bytes)
      ) {
        // Writes the same bytes again, so that the file system notes the time.
        await handle.write(whole, length, CHECKSUM_BYTES, length).catch(() => undefined);
        return bytes;
      }
    } finally {
      await handle.close();
    }
    await rm(file, { force: true });
  } catch {
    // Removed by another process, or unreadable: the store is asked.
  }
  return undefined;
}

/** Every file of the cache, including drafts left behind by dead processes. */
async function keptFiles(root: string): Promise<readonly KeptFile[]> {
  const found: KeptFile[] = [];
  for (const folder of await readdir(root).catch(() => [])) {
    if (!/^[0-9a-f]{32}$/.test(folder)) continue;
    const names = await readdir(path.join(root, folder)).catch(() => []);
    for (const name of names.filter((entry) => /^\d+-\d+$|^\.\d+-\d+-\d+$/.test(entry))) {
      const file = path.join(root, folder, name);
      const facts = await stat(file).catch(() => undefined);
      if (facts !== undefined) found.push({ file, bytes: facts.size, usedMs: facts.mtimeMs });
    }
  }
  return found;
}

const totalOf = (files: readonly KeptFile[]): number =>
  files.reduce((sum, { bytes }) => sum + bytes, 0);

/** Removes the files used longest ago until this many bytes are left; gives the bytes that are left. */
async function leave(files: readonly KeptFile[], bytesMax: number): Promise<number> {
  let left = totalOf(files);
  for (const { file, bytes } of files.toSorted((a, b) => a.usedMs - b.usedMs)) {
    if (left <= bytesMax) break;
    await rm(file, { force: true });
    left -= bytes;
    // Removes the folder of an object without files; it fails, as it should, if there are any.
    await rmdir(path.dirname(file)).catch(() => undefined);
  }
  return left;
}
