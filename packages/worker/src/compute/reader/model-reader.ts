// Model directories as the compute side reads them. The interface is asynchronous because another thread does
// the reading (`reader-channel.ts`), but for little ones of a start (`start-reader.ts`): opening a version with a
// large vocabulary takes seconds of work that cannot be interrupted, and a scan must not wait for it.
//
// Opening a version gives a handle, which alone can read and close it. An open that fails at any step has
// closed everything that it opened, so that nothing hinders the next open.

import { TaskSlots } from "@winnow/core";
import type {
  AttributeColumn,
  Fingerprint,
  KeyedPartition,
  ModelProgram,
  TableSpec,
  Tensor,
} from "@winnow/core";
import type { ItemChanges, ModelVersion, PartitionReader } from "@winnow/model";

import { packProgram } from "./program-package.ts";

/** One opening of a version directory; never given twice. */
export type ReaderHandle = number & { readonly brand: "ReaderHandle" };

/** The table of contents of an opened version. */
export interface OpenedModel {
  readonly handle: ReaderHandle;
  readonly fingerprint: Fingerprint;
  /** The fingerprint of all but the attributes of items. */
  readonly rowsFingerprint: Fingerprint;
  /** The changes to its items; absent where the version brings none. */
  readonly changes?: ItemChanges | undefined;
  readonly tables: readonly TableSpec[];
  /** Bytes of each partition of each table, known before reading. */
  readonly partitionBytes: readonly (readonly number[])[];
}

/** Names one partition of an opened version. */
export interface PartitionName {
  readonly version: ReaderHandle;
  readonly table: number;
  readonly partition: number;
}

/** What is known of a partition only after its last chunk has been read. */
export interface PartitionEnd {
  /** The partition's share of the checksum of each of the table's sources. */
  readonly shares: readonly number[];
  /** Bytes read from files for the partition. */
  readonly bytesRead: number;
}

/** Chunks of rows; `next` takes back a chunk that was read, to be filled again. */
export type ChunkStream = AsyncGenerator<Float32Array, void, Float32Array | undefined>;

/** One partition that is being read. */
export interface PartitionSource {
  readonly rows: number;
  readonly dim: number;
  readonly firstRow: number;
  readonly ids: Tensor | undefined;
  readonly keyed: KeyedPartition | undefined;
  readonly attributes: readonly AttributeColumn[] | undefined;
  /**
   * Chunks of whole rows, in order; can be read once. Ending the iteration early abandons the partition. A
   * chunk is valid until the next one is asked for, because its memory may be filled again.
   */
  chunks(): ChunkStream;
  /** Gives the checksum shares. To be called after the last chunk. */
  end(): PartitionEnd;
  /** Ends the reading, whether or not a chunk was read. Does nothing after the last chunk. */
  abandon(): Promise<void>;
}

/** Reads model directories. Every method rejects with the WinnowError of the model package. */
export interface ModelReader {
  /** `updateBytes`: as many bytes of its file of item updates belong to it; `undefined`: all. */
  open(directory: string, updateBytes?: number): Promise<OpenedModel>;
  openPartition(name: PartitionName): Promise<PartitionSource>;
  /** The program as bytes, with its keyed tables of at most `tableBytesMax` bytes. */
  program(version: ReaderHandle, tableBytesMax: number): Promise<Uint8Array>;
  close(version: ReaderHandle): Promise<void>;
  /** Told of searches: from now on versions are read by another thread, which gives way to them. Absent where nothing changes. */
  beginsToServe?(): void;
  /** Closes every version, and ends the reader's thread if it has one. */
  shutdown(): Promise<void>;
}

/** A version directory on this machine, which may be removed once it is released. */
export interface LocalVersion {
  readonly directory: string;
  release(): void;
}

/** Finds the local directory of a version, or makes one for a version in an object store. @throws WinnowError */
export type FindVersion = (location: string) => Promise<LocalVersion>;

const found: FindVersion = async (directory) => ({ directory, release: () => undefined });

/** Refuses a program that routers could not run. @throws WinnowError */
export type CheckProgram = (program: ModelProgram, directory: string) => Promise<void>;

/** Opens a version directory with so many bytes of its file of item updates. @throws WinnowError */
export type OpenModel = (directory: string, updateBytes: number | undefined) => ModelVersion;

/** A reader that reads on the thread that calls it. */
export class LocalModelReader implements ModelReader {
  readonly #openModel: OpenModel;
  readonly #check: CheckProgram;
  readonly #find: FindVersion;
  readonly #versions = new Map<ReaderHandle, OpenVersion>();
  /** Versions are found beside each other, which for a store is a wait, and then read one after the other. */
  readonly #turn = new TaskSlots(1);
  #lastHandle = 0;

  constructor(
    openModel: OpenModel,
    check: CheckProgram = async () => undefined,
    find: FindVersion = found,
  ) {
    this.#openModel = openModel;
    this.#check = check;
    this.#find = find;
  }

  async open(location: string, updateBytes?: number): Promise<OpenedModel> {
    const local = await this.#find(location);
    try {
      return await this.#turn.run(() => this.#openLocal(local, updateBytes));
    } catch (error) {
      local.release();
      throw error;
    }
  }

  async #openLocal(local: LocalVersion, updateBytes: number | undefined): Promise<OpenedModel> {
    const { directory } = local;
    const version = this.#openModel(directory, updateBytes);
    try {
      await this.#check(version.program, directory);
      const { fingerprint, tables } = version.program;
      // This may read files: the positions of strings, and the row that each key leads to.
      const partitionBytes = tables.map(({ partitions }, table) =>
        Array.from({ length: partitions }, (_, partition) =>
          version.partitionBytes(table, partition),
        ),
      );
      this.#lastHandle += 1;
      const handle = this.#lastHandle as ReaderHandle;
      this.#versions.set(handle, { version, local });
      const { rowsFingerprint = fingerprint, changes } = version;
      return { handle, fingerprint, rowsFingerprint, changes, tables, partitionBytes };
    } catch (error) {
      version.close();
      throw error;
    }
  }

  async openPartition(name: PartitionName): Promise<PartitionSource> {
    const version = this.#versionOf(name.version);
    const readBefore = version.bytesRead;
    const reader = version.openPartition(name.table, name.partition);
    const { rows, dim, firstRow, ids, keyed, attributes } = reader;
    return {
      rows,
      dim,
      firstRow,
      ids,
      keyed,
      attributes,
      chunks: () => chunksOf(reader),
      end: () => ({
        shares: reader.checksumShares(),
        bytesRead: version.bytesRead - readBefore,
      }),
      abandon: async () => undefined,
    };
  }

  async program(version: ReaderHandle, tableBytesMax: number): Promise<Uint8Array> {
    return packProgram(this.#versionOf(version), tableBytesMax);
  }

  async close(version: ReaderHandle): Promise<void> {
    const open = this.#openOf(version);
    this.#versions.delete(version);
    closeVersion(open);
  }

  async shutdown(): Promise<void> {
    for (const open of this.#versions.values()) closeVersion(open);
    this.#versions.clear();
  }

  #versionOf(handle: ReaderHandle): ModelVersion {
    return this.#openOf(handle).version;
  }

  #openOf(handle: ReaderHandle): OpenVersion {
    const open = this.#versions.get(handle);
    if (open === undefined) throw new RangeError(`no version is open under handle ${handle}`);
    return open;
  }
}

interface OpenVersion {
  readonly version: ModelVersion;
  readonly local: LocalVersion;
}

function closeVersion({ version, local }: OpenVersion): void {
  try {
    version.close();
  } finally {
    local.release();
  }
}

async function* chunksOf(reader: PartitionReader): ChunkStream {
  yield* reader.chunks();
}
