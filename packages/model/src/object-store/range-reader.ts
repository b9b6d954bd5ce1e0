// Ranges of objects for a thread that reads synchronously, as all reading of models does: another thread asks
// the store, and this thread blocks until the answer is there, as it would for a disk.

import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { MessageChannel, Worker, receiveMessageOnPort } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import { type ErrorCode, type ObjectBucket, WinnowError, entryBeside } from "@winnow/core";
import { type FileStore, type OpenFile, localFiles } from "../storage/file-store.ts";
import type { ByteRange, StoredObject } from "./object-store.ts";
import type { CacheSettings } from "./cached-store.ts";
import { diskError } from "./disk-error.ts";
import type { PartsQuestion } from "./range-parts.ts";
import type { StoreEnvironment } from "./store-settings.ts";

/** Given to a new thread. */
export interface RangeThreadData {
  readonly port: MessagePort;
  /** One int32, which becomes 1 once the answer is in the port. */
  readonly signal: SharedArrayBuffer;
  readonly environment: StoreEnvironment;
  readonly cache: CacheSettings | undefined;
}

/** A request for bytes of an object. */
export interface RangeQuestion extends PartsQuestion {
  /** The memory to fill. */
  readonly target: SharedArrayBuffer;
}

/** Tells that the bytes are there, or why not. */
export interface RangeAnswer {
  readonly error?: { readonly code: ErrorCode; readonly message: string };
}

/** An object in place of a local file. */
export interface RemoteFile {
  readonly bucket: ObjectBucket;
  readonly object: StoredObject;
}

/** Longer than all attempts of a request with their pauses. */
const WAIT_MS = 300_000;
/** Announced stretches of a file that are remembered, at most. */
const EXPECTED_MAX = 8;
/** Bytes fetched at least where no stretch was announced, and blocks at most. */
const BLOCK_BYTES = 2 ** 18;
const WINDOW_BLOCKS_MAX = 32;
const ENTRY = entryBeside(import.meta.url, "range-thread");

interface ReadFile extends RemoteFile {
  readonly path: string;
  /** Announced stretches, the newest last. */
  readonly expected: ByteRange[];
  /** For each block, 1 if it is in the local file. */
  readonly present: Uint8Array;
  /** The block after those that were fetched last, and their number. */
  next: number;
  window: number;
  handle: number | undefined;
}

/**
 * The local file system, in which some files are only names and sizes: their bytes are read from objects.
 * Announced stretches go directly to the reader. Everything else is fetched in blocks that are kept in the
 * local file, because ids are read repeatedly and the rows of keys are scattered.
 */
export class RangeReader implements FileStore {
  readonly #environment: StoreEnvironment;
  readonly #cache: CacheSettings | undefined;
  /** By the path of the local file. */
  readonly #files = new Map<string, ReadFile>();
  #thread: Thread | undefined;

  constructor(environment: StoreEnvironment, cache?: CacheSettings) {
    this.#environment = environment;
    this.#cache = cache;
  }

  /** From now on `path`, a file of the object's size, is read from the object. */
  add(path: string, file: RemoteFile): void {
    const present = new Uint8Array(Math.ceil(file.object.bytes / BLOCK_BYTES));
    const read = { path, expected: [], present, next: -1, window: 1, handle: undefined };
    this.#files.set(path, { ...file, ...read });
  }

  delete(path: string): void {
    const handle = this.#files.get(path)?.handle;
    if (handle !== undefined) closeSync(handle);
    this.#files.delete(path);
  }

  join(directory: string, name: string): string {
    return localFiles.join(directory, name);
  }

  exists(location: string): boolean {
    return localFiles.exists(location);
  }

  filesBelow(location: string): string[] {
    return localFiles.filesBelow(location);
  }

  open(path: string): OpenFile {
    const file = this.#files.get(path);
    if (file === undefined) return localFiles.open(path);
    return {
      size: file.object.bytes,
      read: (position, target) => this.#read(file, position, target),
      expect: (start, end) => {
        file.expected.push({ start, end });
        if (file.expected.length > EXPECTED_MAX) file.expected.shift();
      },
      close: () => undefined,
    };
  }

  #read(file: ReadFile, position: number, target: Uint8Array): number {
    const end = Math.min(file.object.bytes, position + target.length);
    if (position >= end) return 0;
    const expected = file.expected.findLast((range) => range.start <= position && end <= range.end);
    if (expected === undefined) {
      this.#makePresent(file, { start: position, end });
      return readSync(openHole(file), target, 0, end - position, position);
    }
    target.set(this.#fetch(file, { start: position, end }, expected));
    return end - position;
  }

  /** Fetches the blocks of a range that the local file lacks, and more at a time while reads continue. */
  #makePresent(file: ReadFile, { start, end }: ByteRange): void {
    const { present, object } = file;
    const endBlock = Math.ceil(end / BLOCK_BYTES);
    for (let block = Math.floor(start / BLOCK_BYTES); block < endBlock; block += 1) {
      if (present[block] !== 0) continue;
      file.window = block === file.next ? Math.min(2 * file.window, WINDOW_BLOCKS_MAX) : 1;
      let after = block + 1;
      const most = Math.max(block + file.window, endBlock);
      while (after < most && present[after] === 0) after += 1;
      const bytes = {
        start: block * BLOCK_BYTES,
        end: Math.min(object.bytes, after * BLOCK_BYTES),
      };
      this.#keep(file, { block, bytes: this.#fetch(file, bytes, bytes) });
      present.fill(1, block, after);
      file.next = after;
    }
  }

  /** Writes fetched blocks to the local file. @throws WinnowError RESOURCE_EXHAUSTED if the disk is full */
  #keep(
    file: ReadFile,
    { block, bytes }: { readonly block: number; readonly bytes: Uint8Array },
  ): void {
    try {
      const handle = openHole(file);
      for (let done = 0; done < bytes.length;) {
        done += writeSync(handle, bytes, done, bytes.length - done, block * BLOCK_BYTES + done);
      }
    } catch (error) {
      // Of the whole file: more of its blocks will be read.
      const write = { folder: dirname(file.path), neededBytes: file.object.bytes };
      throw diskError(file.object.key, error, write);
    }
  }

  #fetch(file: ReadFile, { start, end }: ByteRange, expected: ByteRange): Uint8Array {
    const target = new SharedArrayBuffer(end - start);
    const { bucket, object } = file;
    this.#ask({ bucket, object: { key: object.key, etag: object.etag }, start, expected, target });
    return new Uint8Array(target);
  }

  /** Asks the thread and waits. @throws WinnowError as the store does; UNAVAILABLE without an answer */
  #ask(question: RangeQuestion): void {
    this.#thread ??= startThread(this.#environment, this.#cache);
    const { port, signal } = this.#thread;
    Atomics.store(signal, 0, 0);
    port.postMessage(question);
    const outcome = Atomics.wait(signal, 0, 0, WAIT_MS);
    const answer = receiveMessageOnPort(port)?.message as RangeAnswer | undefined;
    if (answer?.error !== undefined) throw new WinnowError(answer.error.code, answer.error.message);
    if (answer !== undefined) return;
    // A late answer must not be taken for the next one.
    void this.close();
    const text = `no answer within ${WAIT_MS / 1000} s (${outcome})`;
    throw new WinnowError("UNAVAILABLE", `Cannot read ${question.object.key}: ${text}`);
  }

  async close(): Promise<void> {
    const thread = this.#thread;
    this.#thread = undefined;
    thread?.port.close();
    await thread?.worker.terminate();
  }
}

/** The handle of the local file, which stays open until the file is deleted. */
function openHole(file: ReadFile): number {
  file.handle ??= openSync(file.path, "r+");
  return file.handle;
}

interface Thread {
  readonly worker: Worker;
  readonly port: MessagePort;
  readonly signal: Int32Array;
}

function startThread(environment: StoreEnvironment, cache: CacheSettings | undefined): Thread {
  const { port1, port2 } = new MessageChannel();
  const signal = new SharedArrayBuffer(4);
  const workerData: RangeThreadData = { port: port2, signal, environment, cache };
  const worker = new Worker(ENTRY, {
    workerData,
    transferList: [port2],
    name: "winnow-ranges",
    execArgv: [],
  });
  worker.unref();
  port1.unref();
  return { worker, port: port1, signal: new Int32Array(signal) };
}
