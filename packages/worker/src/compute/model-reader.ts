// Model directories as the compute side reads them: asynchronous, because the reading is done by a
// thread of its own (`reader-channel.ts`). Opening a version with a large vocabulary takes seconds of
// work that cannot be interrupted; a scan must not wait for it.

import type { Fingerprint, KeyedPartition, TableSpec, Tensor } from "@winnow/core";
import type { ModelVersion, PartitionReader } from "@winnow/model";

import type { ReplicaName, VersionName } from "./compute.ts";
import { packProgram } from "./program-package.ts";

/** The table of contents of an opened version. */
export interface OpenedModel {
  readonly fingerprint: Fingerprint;
  readonly tables: readonly TableSpec[];
  /** Bytes of each partition of each table, known before reading. */
  readonly partitionBytes: readonly (readonly number[])[];
}

/** What is known of a partition once its last chunk has been read. */
export interface PartitionEnd {
  /** Its share of the checksum of each of the table's sources. */
  readonly shares: readonly number[];
  /** Read from files for it. */
  readonly bytesRead: number;
}

/** Chunks from another thread; takes back those that nobody reads any more. */
export type ChunkStream = AsyncGenerator<Float32Array, void, Float32Array | undefined>;

/** One partition, being read. */
export interface PartitionSource {
  readonly rows: number;
  readonly dim: number;
  readonly firstRow: number;
  readonly ids: Tensor | undefined;
  readonly keyed: KeyedPartition | undefined;
  /**
   * Whole rows in order; to be read once. Leaving early lets go of the partition. A chunk is good until
   * the next one is asked for: its memory may be filled again then.
   */
  chunks(): ChunkStream;
  /** After the last chunk. */
  end(): PartitionEnd;
}

/** Reads model directories. Every method rejects with the WinnowError of the model package. */
export interface ModelReader {
  open(name: VersionName, directory: string): Promise<OpenedModel>;
  openPartition(name: ReplicaName): Promise<PartitionSource>;
  /** The program as bytes, with its keyed tables of at most `tableBytesMax` bytes. */
  program(name: VersionName, tableBytesMax: number): Promise<Uint8Array>;
  close(name: VersionName): Promise<void>;
  /** Closes every version and lets go of the thread. */
  shutdown(): Promise<void>;
}

/** Reads on the thread it is called on. */
export class LocalModelReader implements ModelReader {
  readonly #openModel: (directory: string) => ModelVersion;
  readonly #versions = new Map<string, ModelVersion>();

  constructor(openModel: (directory: string) => ModelVersion) {
    this.#openModel = openModel;
  }

  async open(name: VersionName, directory: string): Promise<OpenedModel> {
    const key = keyOf(name);
    if (this.#versions.has(key)) throw new RangeError(`${key} is open already`);
    const version = this.#openModel(directory);
    this.#versions.set(key, version);
    const { fingerprint, tables } = version.program;
    const partitionBytes = tables.map(({ partitions }, table) =>
      Array.from({ length: partitions }, (_, partition) =>
        version.partitionBytes(table, partition),
      ),
    );
    return { fingerprint, tables, partitionBytes };
  }

  async openPartition(name: ReplicaName): Promise<PartitionSource> {
    const version = this.#versionOf(name);
    const readBefore = version.bytesRead;
    const reader = version.openPartition(name.table, name.partition);
    const { rows, dim, firstRow, ids, keyed } = reader;
    return {
      rows,
      dim,
      firstRow,
      ids,
      keyed,
      chunks: () => chunksOf(reader),
      end: () => ({
        shares: reader.checksumShares(),
        bytesRead: version.bytesRead - readBefore,
      }),
    };
  }

  async program(name: VersionName, tableBytesMax: number): Promise<Uint8Array> {
    return packProgram(this.#versionOf(name), tableBytesMax);
  }

  async close(name: VersionName): Promise<void> {
    this.#versionOf(name).close();
    this.#versions.delete(keyOf(name));
  }

  async shutdown(): Promise<void> {
    for (const version of this.#versions.values()) version.close();
    this.#versions.clear();
  }

  #versionOf(name: VersionName): ModelVersion {
    const version = this.#versions.get(keyOf(name));
    if (version === undefined) throw new RangeError(`${keyOf(name)} is not open`);
    return version;
  }
}

const keyOf = (name: VersionName): string => `${name.model}/${name.version}`;

async function* chunksOf(reader: PartitionReader): ChunkStream {
  yield* reader.chunks();
}
