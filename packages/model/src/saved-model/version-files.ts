// Reads the files of a SavedModel directory: graph bytes, tensors and vocabularies for the graph,
// rows for the worker's partitions. One account counts every byte that is read, and every file that
// determines answers enters the fingerprint with the bytes that were read.

import { PARTITION_BYTES, WinnowError, excerpt, plainRowChecks } from "@winnow/core";
import type { Fingerprint, RowChecks, TableSource, Tensor } from "@winnow/core";
import type {
  BoundFile,
  MoreRows,
  MoreRowsShape,
  PartitionReader,
  TableReading,
} from "../model-version.ts";
import {
  type ChecksumManifest,
  type FileDigest,
  MANIFEST_FILE,
  assertAsListed,
  assertListed,
} from "./checksum-manifest.ts";
import { moreRowsShape, readMoreRows } from "./partitions/more-rows.ts";
import type { ExtendableTable } from "./partitions/more-rows.ts";
import { readTable } from "./partitions/partition-reading.ts";
import type { FileStore } from "../storage/file-store.ts";
import { StoredDirectory } from "../storage/stored-directory.ts";
import { joinedTensors, takenRows } from "./bundle/joined-tensors.ts";
import { type StoredRegion, storedRegionOf } from "./partitions/stored-region.ts";
import type { StoredTable, StoredTensor, TextVocabulary } from "./partitions/stored-table.ts";
import { tensorsBeside } from "./partitions/stored-table.ts";
import { type BundleEntry, TensorBundle } from "./bundle/tensor-bundle.ts";
import { parseTextVocabulary } from "./text-vocabulary.ts";
import {
  GRAPH_FILE,
  INDEX_FILE,
  assetName,
  assetNames,
  digestOf,
  digestOfFile,
  fingerprintOf,
  hasVariables,
  noVariables,
  readAsset,
  readGraphFile,
  readManifest,
} from "./version-directory.ts";

/** How a directory is read. */
export interface ReadingOptions {
  /** Computes checksums of rows and finds infinite values in them. Default `plainRowChecks`. */
  readonly checks?: RowChecks;
  /** Bytes of values in one partition, at most (`partitionCountOf`). Default `PARTITION_BYTES`. */
  readonly partitionBytes?: number | undefined;
  /** Where the files are. Default: the local file system. */
  readonly store?: FileStore | undefined;
}

/** An opened SavedModel directory. Owns file handles until `close()`. */
export class VersionFiles {
  readonly directory: string;
  /** Counts the bytes read from the directory's files. */
  readonly stored: StoredDirectory;
  /** Bytes of values in one partition of a table, at most. */
  readonly partitionBytesMax: number;
  readonly #bundle: TensorBundle | undefined;
  readonly #constants = new Map<Tensor, StoredRegion>();
  readonly #tables = new Map<StoredTable, TableReading>();
  readonly #checks: RowChecks;
  readonly #manifest: ChecksumManifest | undefined;
  /** Digests of the files that determine answers, by path, over the bytes that were read. */
  readonly #digests = new Map<string, FileDigest>();
  /** Number of entries of each vocabulary that was read, by path. */
  readonly #vocabularies = new Map<string, number>();
  #graphBytes: Uint8Array | undefined;
  #fingerprint: Fingerprint | undefined;

  /** Opens a directory. @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED */
  constructor(directory: string, options: ReadingOptions = {}) {
    this.directory = directory;
    this.stored = new StoredDirectory(directory, options.store);
    this.#checks = options.checks ?? plainRowChecks;
    this.partitionBytesMax = options.partitionBytes ?? PARTITION_BYTES;
    this.#graphBytes = readGraphFile(this.stored);
    this.#manifest = readManifest(this.stored);
    this.#bind(GRAPH_FILE, digestOf(this.#graphBytes), true);
    if (!hasVariables(this.stored)) return;
    this.#bundle = new TensorBundle(this.stored, (index) =>
      this.#bind(INDEX_FILE, digestOf(index), true),
    );
  }

  /**
   * Fingerprint over saved_model.pb, variables.index and the assets, from the bytes that were read.
   * The first call reads the assets that were not read yet, and checks the rest of the manifest if
   * there is one. @throws WinnowError DATA_LOSS
   */
  get fingerprint(): Fingerprint {
    if (this.#fingerprint !== undefined) return this.#fingerprint;
    for (const name of assetNames(this.stored)) {
      if (!this.#digests.has(name)) {
        this.#bind(name, digestOfFile(this.stored, name), false);
      }
    }
    if (this.#manifest !== undefined) this.#checkRest(this.#manifest);
    this.#fingerprint = fingerprintOf(this.#digests);
    return this.#fingerprint;
  }

  /**
   * Whether a manifest lists this asset of the graph; reading a listed asset checks its checksum.
   */
  isVouchedFor(asset: string): boolean {
    return this.#manifest?.has(assetName(asset)) === true;
  }

  /**
   * The files that determine answers, with digest, vocabulary entries and whether they are listed.
   */
  get boundFiles(): readonly BoundFile[] {
    return Array.from(this.#digests, ([name, digest]) => ({
      name,
      ...digest,
      entries: this.#vocabularies.get(name),
      isListed: this.#manifest?.has(name) === true,
    }));
  }

  /** Content of saved_model.pb; read again after `releaseGraph`. */
  get graphBytes(): Uint8Array {
    return (this.#graphBytes ??= readGraphFile(this.stored));
  }

  /** Bytes read from files so far. */
  get bytesRead(): number {
    return this.stored.bytesRead;
  }

  /** Frees the graph's bytes; called once the program is made. */
  releaseGraph(): void {
    this.#graphBytes = undefined;
  }

  /** Dtype and shape of a checkpoint key; `undefined` if there is none. Reads nothing. */
  entryOf(key: string): BundleEntry | undefined {
    return this.#bundle?.entryOf(key);
  }

  /** All checkpoint keys, ascending. */
  keys(): readonly string[] {
    return this.#bundle?.keys() ?? [];
  }

  /**
   * A whole tensor, checksum verified, half and bfloat16 values as float32.
   * @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED
   */
  readTensor(key: string): Tensor {
    return this.#variables().readTensor(key);
  }

  /** The content of a stored tensor, as `readTensor` reads it. @throws WinnowError */
  contentOf(stored: StoredTensor): Tensor {
    switch (stored.kind) {
      case "bundle":
        return this.#variables().readTensor(stored.key, stored.slice);
      case "constant":
        return stored.tensor;
      case "concatenated":
        return joinedTensors(stored.parts.map((part) => this.contentOf(part)));
      case "rows":
        return takenRows(this.contentOf(stored.of), stored);
    }
  }

  /** Keys and values of an asset vocabulary, as `[entries]` tensors. @throws WinnowError */
  readTextVocabulary(vocabulary: TextVocabulary): {
    readonly keys: Tensor;
    readonly values: Tensor;
  } {
    const content = readAsset(this.stored, vocabulary.file);
    const name = assetName(vocabulary.file);
    this.#bind(name, digestOf(content), true);
    const entries = parseTextVocabulary(content, vocabulary);
    this.#vocabularies.set(name, entries.keys.data.length);
    return entries;
  }

  /**
   * The entry of `TableSpec.sources` for a stored tensor. @throws WinnowError NOT_FOUND, DATA_LOSS
   */
  sourceOf(stored: StoredTensor): TableSource {
    return this.#regionOf(stored).source;
  }

  /** Bytes one partition will occupy in memory as rows, ids and keys; reads no rows. */
  partitionBytes(table: StoredTable, partition: number): number {
    return this.#readingOf(table, partition).partitionBytes(partition);
  }

  /** Prepares to read one partition. @throws WinnowError DATA_LOSS, NOT_FOUND */
  openPartition(table: StoredTable, partition: number): PartitionReader {
    return this.#readingOf(table, partition).openPartition(partition);
  }

  /** See `ModelVersion.moreRowsShape`. */
  moreRowsShape(table: StoredTable): MoreRowsShape {
    return moreRowsShape(this.#extendable(table));
  }

  /** See `ModelVersion.moreRows`. */
  moreRows(table: StoredTable, more: MoreRows): TableReading {
    return readMoreRows(this.#extendable(table), more, this.#checks);
  }

  #extendable(table: StoredTable): ExtendableTable {
    const { spec } = table;
    if (spec.kind !== "candidate") throw new RangeError(`table "${spec.name}" is not searched`);
    return { ...table, spec, dtype: this.#regionOf(table.rows).dtype };
  }

  close(): void {
    this.#bundle?.close();
    this.#tables.clear();
    this.#constants.clear();
  }

  /**
   * Records the digest of a file as it was read, and refuses the file if an earlier read saw other
   * bytes. With a manifest, the digest must match its entry; a file that the version uses must have
   * one.
   */
  #bind(name: string, digest: FileDigest, isUsed: boolean): void {
    if (this.#manifest !== undefined) {
      if (isUsed) assertListed(this.#manifest, name);
      assertAsListed(this.#manifest, name, digest);
    }
    const known = this.#digests.get(name);
    if (known !== undefined && known.sha256 !== digest.sha256) {
      throw new WinnowError(
        "DATA_LOSS",
        `Cannot read ${excerpt(name)}: it changed while it was read`,
      );
    }
    this.#digests.set(name, digest);
  }

  /**
   * Checks the listed files that were not read yet. Data files must be listed and exist, but are
   * not hashed: a worker reads its own rows alone, and compares them with the checksums in
   * variables.index, which the manifest covers.
   */
  #checkRest(manifest: ChecksumManifest): void {
    const dataFiles = new Set(this.#bundle?.dataFiles() ?? []);
    for (const name of dataFiles) assertListed(manifest, name);
    for (const name of manifest.keys()) {
      if (this.#digests.has(name)) continue;
      if (!dataFiles.has(name)) {
        assertAsListed(manifest, name, digestOfFile(this.stored, name));
      } else if (!this.stored.has(name)) {
        const text = `Refused the version: there is no ${excerpt(name)}, which ${MANIFEST_FILE} lists`;
        throw new WinnowError("NOT_FOUND", text);
      }
    }
  }

  #readingOf(table: StoredTable, partition: number): TableReading {
    const { name, partitions } = table.spec;
    if (!Number.isInteger(partition) || partition < 0 || partition >= partitions) {
      const text = `Table "${name}" has partitions 0 to ${partitions - 1}, not ${partition}`;
      throw new WinnowError("NOT_FOUND", text);
    }
    const known = this.#tables.get(table);
    if (known !== undefined) return known;
    const ids = table.ids === undefined ? undefined : this.#regionOf(table.ids);
    const rows = this.#regionOf(table.rows);
    const beside = tensorsBeside(table.derivation).map(({ stored }) => this.#regionOf(stored));
    const reading = readTable(table, { rows, ids, beside, checks: this.#checks });
    this.#tables.set(table, reading);
    return reading;
  }

  #regionOf(stored: StoredTensor): StoredRegion {
    if (stored.kind !== "constant") return storedRegionOf(stored, () => this.#variables());
    const known = this.#constants.get(stored.tensor);
    if (known !== undefined) return known;
    const region = storedRegionOf(stored, () => this.#variables());
    this.#constants.set(stored.tensor, region);
    return region;
  }

  #variables(): TensorBundle {
    if (this.#bundle === undefined) throw noVariables();
    return this.#bundle;
  }
}
