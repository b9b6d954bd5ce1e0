// Who reads model directories: the compute thread itself while it starts, a reader thread from then on. To start a thread
// and to load the code that reads is more work than to open a small version, and a worker that starts has no
// search that would wait for it. Once there are searches, the thread gives way to them.
//
//   compute thread reads ──(a version beyond the bytes that are left, or of an object store; the first search)──▶ reader thread
//
// What the compute thread has opened it goes on reading: those versions are small. A version that waits for the network
// would stop the thread that reads, and a Parquet file may hold many times its bytes.

import { readdirSync, statSync } from "node:fs";
import path from "node:path";

import { isObjectUrl } from "@winnow/core";

import type {
  ModelReader,
  OpenedModel,
  PartitionName,
  PartitionSource,
  ReaderHandle,
} from "./model-reader.ts";

/** Bytes of all files that the compute thread reads itself: some tenths of a second. @internal */
export const START_BYTES_MAX: number = 2 ** 23;
/** Of files and folders of one version. */
const ENTRIES_MAX = 256;
const PACKED_NAME = /\.parquet$/i;

/** Where versions are read. Both are called once at most, when a version is opened. */
export interface StartReaderParts {
  /** A reader on the thread that calls it. */
  readonly readHere: () => Promise<ModelReader>;
  readonly startThread: () => ModelReader;
}

/** An opened version, and who reads it. */
interface OpenedBy {
  readonly reader: ModelReader;
  readonly handle: ReaderHandle;
}

/** A reader that has no thread while it reads little, and before `beginsToServe`. */
export class StartReader implements ModelReader {
  readonly #parts: StartReaderParts;
  readonly #opened = new Map<ReaderHandle, OpenedBy>();
  #lastHandle = 0;
  #here: Promise<ModelReader> | undefined;
  #thread: ModelReader | undefined;
  #bytesLeft = START_BYTES_MAX;
  #isServing = false;

  constructor(parts: StartReaderParts) {
    this.#parts = parts;
  }

  async open(directory: string, updateBytes?: number): Promise<OpenedModel> {
    const reader = await this.#readerFor(directory);
    const opened = await reader.open(directory, updateBytes);
    this.#lastHandle += 1;
    const handle = this.#lastHandle as ReaderHandle;
    this.#opened.set(handle, { reader, handle: opened.handle });
    return { ...opened, handle };
  }

  async openPartition(name: PartitionName): Promise<PartitionSource> {
    const { reader, handle: version } = this.#openedAs(name.version);
    return reader.openPartition({ ...name, version });
  }

  async program(version: ReaderHandle, tableBytesMax: number): Promise<Uint8Array> {
    const { reader, handle } = this.#openedAs(version);
    return reader.program(handle, tableBytesMax);
  }

  async close(version: ReaderHandle): Promise<void> {
    const { reader, handle } = this.#openedAs(version);
    this.#opened.delete(version);
    await reader.close(handle);
  }

  beginsToServe(): void {
    this.#bytesLeft = 0;
    this.#isServing = true;
    this.#thread?.beginsToServe?.();
  }

  async shutdown(): Promise<void> {
    this.#opened.clear();
    await Promise.all([this.#here?.then((reader) => reader.shutdown()), this.#thread?.shutdown()]);
  }

  #readerFor(directory: string): Promise<ModelReader> | ModelReader {
    if (this.#thread === undefined && this.#bytesLeft > 0) {
      this.#bytesLeft -= bytesToRead(directory, this.#bytesLeft);
      if (this.#bytesLeft >= 0) return (this.#here ??= this.#parts.readHere());
    }
    this.#thread ??= this.#parts.startThread();
    if (this.#isServing) this.#thread.beginsToServe?.();
    return this.#thread;
  }

  #openedAs(handle: ReaderHandle): OpenedBy {
    const opened = this.#opened.get(handle);
    if (opened === undefined) throw new RangeError(`no version is open under handle ${handle}`);
    return opened;
  }
}

/** Bytes of the files below a directory; infinite if they are more than `bytesMax`, or cannot be told. */
function bytesToRead(directory: string, bytesMax: number): number {
  if (isObjectUrl(directory)) return Infinity;
  const folders = [directory];
  let bytes = 0;
  let entries = 0;
  try {
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      for (const name of readdirSync(folder)) {
        const found = statSync(path.join(folder, name));
        entries += 1;
        if (found.isDirectory()) folders.push(path.join(folder, name));
        else bytes += found.size;
        if (PACKED_NAME.test(name) || bytes > bytesMax || entries > ENTRIES_MAX) return Infinity;
      }
    }
  } catch {
    return Infinity;
  }
  return bytes;
}
