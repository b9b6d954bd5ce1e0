// The border between the compute thread and the reader thread. Chunks are requested one by one, each while
// the device still takes the one before, so that reading and building overlap. Arrays are transferred; the
// array of a chunk goes back with a later request and is filled again. Both ends of the channel are in this
// file, so that they cannot drift apart.

import {
  StringColumn,
  ThreadCaller,
  answerCalls,
  decodeProgram,
  encodeProgram,
} from "@winnow/core";
import type {
  AttributeColumn,
  KeyedPartition,
  ModelProgram,
  ThreadAnswer,
  ThreadPort,
} from "@winnow/core";

import type { PackedKeys, PackedStrings } from "../compute.ts";
import type {
  ChunkStream,
  ModelReader,
  OpenedModel,
  PartitionEnd,
  PartitionName,
  PartitionSource,
  ReaderHandle,
} from "./model-reader.ts";
import { buffersOf, packKeys, unpackKeys } from "../packed-keys.ts";

/** What the reader thread can be asked. */
type ReaderRequest =
  | { readonly kind: "open"; readonly directory: string; readonly updateBytes: number | undefined }
  | { readonly kind: "openPartition"; readonly name: PartitionName }
  | { readonly kind: "chunk"; readonly handle: number; readonly spent: Float32Array | undefined }
  | { readonly kind: "abandon"; readonly handle: number }
  | { readonly kind: "program"; readonly version: ReaderHandle; readonly tableBytesMax: number }
  | { readonly kind: "close"; readonly version: ReaderHandle }
  | { readonly kind: "giveWay" };

/** What the reader thread does beside reading. */
interface ReaderThreadParts {
  /** Called when a version has been closed. */
  readonly onClosed?: (() => void) | undefined;
  /** Called once, when the worker answers searches: they go before what is read. */
  readonly giveWay?: (() => void) | undefined;
}

/** Chunks kept to be filled again: enough for two partitions that are read at the same time. */
const SPENT_CHUNKS_MAX = 4;

/**
 * A table of contents for the other thread. Specifications hold objects of classes, so they travel as an
 * encoded program.
 */
interface PackedModel extends Pick<
  OpenedModel,
  "handle" | "rowsFingerprint" | "changes" | "partitionBytes"
> {
  readonly program: Uint8Array;
}

interface PackedPartition extends Pick<PartitionSource, "rows" | "dim" | "firstRow"> {
  readonly handle: number;
  readonly ids: PackedKeys | undefined;
  readonly keyed: PackedKeyed | undefined;
  readonly attributes: readonly PackedColumn[] | undefined;
}

/** A column whose texts are plain arrays. */
interface PackedColumn extends Omit<AttributeColumn, "values"> {
  readonly values: Exclude<AttributeColumn["values"], StringColumn> | PackedStrings;
}

interface PackedKeyed extends Omit<KeyedPartition, "keys"> {
  readonly keys: PackedKeys | undefined;
}

type PackedChunk = { readonly chunk: Float32Array } | { readonly end: PartitionEnd };

interface OpenPartition {
  readonly source: PartitionSource;
  readonly chunks: ChunkStream;
}

/** Answers a compute thread's requests from a reader, for as long as the port is open. */
export function serveReader(
  port: ThreadPort,
  reader: ModelReader,
  parts: ReaderThreadParts = {},
): void {
  const server = new ReaderServer(reader, parts);
  answerCalls<ReaderRequest>(port, { perform: (request) => server.perform(request) });
}

class ReaderServer {
  readonly #reader: ModelReader;
  readonly #parts: ReaderThreadParts;
  readonly #partitions = new Map<number, OpenPartition>();
  #lastHandle = 0;

  constructor(reader: ModelReader, parts: ReaderThreadParts) {
    this.#reader = reader;
    this.#parts = parts;
  }

  async perform(request: ReaderRequest): Promise<ThreadAnswer> {
    switch (request.kind) {
      case "open":
        return packModel(await this.#reader.open(request.directory, request.updateBytes));
      case "openPartition":
        return this.#openPartition(request.name);
      case "chunk":
        return this.#nextChunk(request.handle, request.spent);
      case "abandon":
        this.#partitions.delete(request.handle);
        return { value: undefined };
      case "program": {
        const value = await this.#reader.program(request.version, request.tableBytesMax);
        return { value, transfer: [value.buffer as ArrayBuffer] };
      }
      case "close":
        await this.#reader.close(request.version);
        this.#parts.onClosed?.();
        return { value: undefined };
      case "giveWay":
        this.#parts.giveWay?.();
        return { value: undefined };
    }
  }

  async #openPartition(name: PartitionName): Promise<ThreadAnswer> {
    const source = await this.#reader.openPartition(name);
    this.#lastHandle += 1;
    const handle = this.#lastHandle;
    this.#partitions.set(handle, { source, chunks: source.chunks() });
    const { rows, dim, firstRow, keyed } = source;
    const attributes = source.attributes?.map(packColumn);
    const ids = source.ids === undefined ? undefined : packKeys(source.ids);
    const keys = keyed?.keys === undefined ? undefined : packKeys(keyed.keys);
    const packed: PackedPartition = {
      handle,
      rows,
      dim,
      firstRow,
      ids,
      keyed: keyed === undefined ? undefined : { ...keyed, keys },
      attributes,
    };
    const transfer = [ids, keys].flatMap((each) => (each === undefined ? [] : buffersOf(each)));
    return { value: packed, transfer };
  }

  async #nextChunk(handle: number, spent: Float32Array | undefined): Promise<ThreadAnswer> {
    const open = this.#partitions.get(handle);
    if (open === undefined) throw new RangeError(`partition ${handle} is not being read`);
    const next = await open.chunks.next(spent);
    if (next.done !== true) {
      const value: PackedChunk = { chunk: next.value };
      return { value, transfer: [next.value.buffer as ArrayBuffer] };
    }
    this.#partitions.delete(handle);
    const value: PackedChunk = { end: open.source.end() };
    return { value };
  }
}

function packModel({
  handle,
  fingerprint,
  rowsFingerprint,
  changes,
  tables,
  partitionBytes,
}: OpenedModel): ThreadAnswer {
  const contents = { fingerprint, tables, vocabularies: [], denseModels: [], signatures: [] };
  const value: PackedModel = {
    handle,
    rowsFingerprint,
    changes,
    program: encodeProgram(contents satisfies ModelProgram),
    partitionBytes,
  };
  return { value };
}

/** A partition that another thread reads for this one. */
interface RemoteReading {
  readonly handle: number;
  end: PartitionEnd | undefined;
  /** Whether the reader thread has dropped the partition: at its end, or because it was abandoned. */
  isOver: boolean;
}

/** A reader in another thread. */
export class RemoteModelReader implements ModelReader {
  readonly #calls: ThreadCaller<ReaderRequest>;
  readonly #end: () => Promise<void>;
  /** Chunks that may be filled again with rows of any partition. */
  readonly #spent: Float32Array[] = [];
  #givesWay = false;

  /** `end` ends the thread behind the port. */
  constructor(port: ThreadPort, end: () => Promise<void>) {
    this.#calls = new ThreadCaller(port);
    this.#end = end;
  }

  async open(directory: string, updateBytes?: number): Promise<OpenedModel> {
    const packed = await this.#calls.call<PackedModel>({ kind: "open", directory, updateBytes });
    const { handle, rowsFingerprint, changes, partitionBytes } = packed;
    const { fingerprint, tables } = decodeProgram(packed.program);
    return { handle, fingerprint, rowsFingerprint, changes, tables, partitionBytes };
  }

  async openPartition(name: PartitionName): Promise<PartitionSource> {
    const packed = await this.#calls.call<PackedPartition>({ kind: "openPartition", name });
    const { rows, dim, firstRow, ids, keyed } = packed;
    const keys = keyed?.keys === undefined ? undefined : unpackKeys(keyed.keys);
    const reading: RemoteReading = { handle: packed.handle, end: undefined, isOver: false };
    return {
      rows,
      dim,
      firstRow,
      ids: ids === undefined ? undefined : unpackKeys(ids),
      keyed: keyed === undefined ? undefined : { ...keyed, keys },
      attributes: packed.attributes?.map(unpackColumn),
      chunks: () => this.#chunks(packed, reading),
      end: () => {
        if (reading.end !== undefined) return reading.end;
        throw new RangeError("the partition has not been read to its end");
      },
      abandon: () => this.#abandon(reading),
    };
  }

  program(version: ReaderHandle, tableBytesMax: number): Promise<Uint8Array> {
    return this.#calls.call({ kind: "program", version, tableBytesMax });
  }

  close(version: ReaderHandle): Promise<void> {
    return this.#calls.call({ kind: "close", version });
  }

  beginsToServe(): void {
    if (this.#givesWay) return;
    this.#givesWay = true;
    // A thread that has ended reads nothing.
    this.#calls.call({ kind: "giveWay" }).catch(() => undefined);
  }

  shutdown(): Promise<void> {
    return this.#end();
  }

  async *#chunks({ handle, rows, dim }: PackedPartition, reading: RemoteReading): ChunkStream {
    let left = rows * dim;
    try {
      let ahead = this.#askChunk(handle, left);
      for (;;) {
        const packed = await ahead;
        if ("end" in packed) {
          reading.isOver = true;
          reading.end = packed.end;
          return;
        }
        left -= packed.chunk.length;
        ahead = this.#askChunk(handle, left);
        // Awaited in a later turn of the event loop. A failure before that must not count as unhandled.
        ahead.catch(() => undefined);
        yield packed.chunk;
        if (this.#spent.length < SPENT_CHUNKS_MAX) this.#spent.push(packed.chunk);
      }
    } finally {
      await this.#abandon(reading);
    }
  }

  async #abandon(reading: RemoteReading): Promise<void> {
    if (reading.isOver) return;
    reading.isOver = true;
    await this.#calls.call({ kind: "abandon", handle: reading.handle });
  }

  /** Asks for the next chunk if `left` values remain, else for the end. */
  #askChunk(handle: number, left: number): Promise<PackedChunk> {
    const spent = left > 0 ? this.#spent.pop() : undefined;
    const transfer = spent === undefined ? [] : [spent.buffer as ArrayBuffer];
    return this.#calls.call({ kind: "chunk", handle, spent }, { transfer });
  }
}

function packColumn({ values, ...column }: AttributeColumn): PackedColumn {
  if (!(values instanceof StringColumn)) return { ...column, values };
  const { offsets, bytes } = values;
  return { ...column, values: { offsets, bytes } };
}

function unpackColumn({ values, ...column }: PackedColumn): AttributeColumn {
  const isTexts = "offsets" in values;
  return { ...column, values: isTexts ? new StringColumn(values.offsets, values.bytes) : values };
}
