// The files of one SavedModel directory behind one door. The graph part asks it for graph bytes,
// tensors and vocabularies; the worker's reading of partitions goes through it too, so that one
// account knows every byte that was read.

import { PARTITION_BYTES, WinnowError, excerpt, plainRowChecks } from "@winnow/core";
import type { Fingerprint, RowChecks, TableSource, Tensor } from "@winnow/core";
import type { BoundFile, PartitionReader } from "../model-version.ts";
import {
  type ChecksumManifest,
  type FileDigest,
  MANIFEST_FILE,
  assertAsListed,
  assertListed,
} from "./checksum-manifest.ts";
import { type TableReading, readTable } from "./partitions/partition-reading.ts";
import type { ReadAccount } from "./bundle/region.ts";
import { type StoredRegion, storedRegionOf } from "./partitions/stored-region.ts";
import type { StoredTable, StoredTensor, TextVocabulary } from "./partitions/stored-table.ts";
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
  hasFile,
  hasVariables,
  noVariables,
  readAsset,
  readGraphFile,
  readManifest,
} from "./version-directory.ts";

/** How a directory is read. */
export interface ReadingOptions {
  /** What rows are put to. Default: the plain ones. */
  readonly checks?: RowChecks;
  /** Bytes of values that a partition has at most (`partitionCountOf`). Default `PARTITION_BYTES`. */
  readonly partitionBytes?: number | undefined;
}

/** An opened SavedModel directory. Owns file handles until `close()`. */
export class VersionFiles {
  readonly directory: string;
  /** Knows every byte that is read of the directory. */
  readonly account: ReadAccount = { bytesRead: 0 };
  /** Bytes of values that a partition of its tables has at most. */
  readonly partitionBytesMax: number;
  readonly #bundle: TensorBundle | undefined;
  readonly #constants = new Map<Tensor, StoredRegion>();
  readonly #tables = new Map<StoredTable, TableReading>();
  readonly #checks: RowChecks;
  readonly #manifest: ChecksumManifest | undefined;
  /** Files that determine answers, by their path, as they were when they were read. */
  readonly #digests = new Map<string, FileDigest>();
  /** Vocabularies that were asked for, and their entries. */
  readonly #vocabularies = new Map<string, number>();
  #graphBytes: Uint8Array | undefined;
  #fingerprint: Fingerprint | undefined;

  /** Opens a directory. @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED */
  constructor(directory: string, options: ReadingOptions = {}) {
    this.directory = directory;
    this.#checks = options.checks ?? plainRowChecks;
    this.partitionBytesMax = options.partitionBytes ?? PARTITION_BYTES;
    this.#graphBytes = readGraphFile(directory, this.account);
    this.#manifest = readManifest(directory, this.account);
    this.#bind(GRAPH_FILE, digestOf(this.#graphBytes), true);
    if (!hasVariables(directory)) return;
    this.#bundle = new TensorBundle(directory, this.account, (index) =>
      this.#bind(INDEX_FILE, digestOf(index), true),
    );
  }

  /**
   * Of saved_model.pb, variables.index and the assets, as they were when they were read; the rest of them
   * is read for it, once, and held to the manifest if there is one. @throws WinnowError DATA_LOSS
   */
  get fingerprint(): Fingerprint {
    if (this.#fingerprint !== undefined) return this.#fingerprint;
    for (const name of assetNames(this.directory)) {
      if (!this.#digests.has(name)) {
        this.#bind(name, digestOfFile(this.directory, name, this.account), false);
      }
    }
    if (this.#manifest !== undefined) this.#checkRest(this.#manifest);
    this.#fingerprint = fingerprintOf(this.#digests);
    return this.#fingerprint;
  }

  /** Whether a manifest lists this asset of the graph, which is then as listed. */
  isVouchedFor(asset: string): boolean {
    return this.#manifest?.has(assetName(asset)) === true;
  }

  /** The files that determine answers, and what holds each to what was written. */
  get boundFiles(): readonly BoundFile[] {
    return Array.from(this.#digests, ([name, digest]) => ({
      name,
      ...digest,
      entries: this.#vocabularies.get(name),
      isListed: this.#manifest?.has(name) === true,
    }));
  }

  /** Content of saved_model.pb; read again if it was let go. */
  get graphBytes(): Uint8Array {
    return (this.#graphBytes ??= readGraphFile(this.directory, this.account));
  }

  /** Bytes read from files so far. */
  get bytesRead(): number {
    return this.account.bytesRead;
  }

  /** Lets the graph's bytes go once the program is made. */
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

  /** A whole tensor, checksum verified. @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED */
  readTensor(key: string): Tensor {
    return this.#variables().readTensor(key);
  }

  /** Keys and values of an asset vocabulary, as `[entries]` tensors. @throws WinnowError */
  readTextVocabulary(vocabulary: TextVocabulary): {
    readonly keys: Tensor;
    readonly values: Tensor;
  } {
    const content = readAsset(this.directory, vocabulary.file, this.account);
    const name = assetName(vocabulary.file);
    this.#bind(name, digestOf(content), true);
    const entries = parseTextVocabulary(content, vocabulary);
    this.#vocabularies.set(name, entries.keys.data.length);
    return entries;
  }

  /** What `TableSpec.sources` says of a stored tensor. @throws WinnowError NOT_FOUND, DATA_LOSS */
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

  close(): void {
    this.#bundle?.close();
    this.#tables.clear();
    this.#constants.clear();
  }

  /** A file as it was read; what is used counts as the version's content, whoever else may write to it. */
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
   * What else the manifest lists. Of data files only that they are there: a worker reads its own rows, and
   * those are held to the checksums in variables.index, which the manifest vouches for.
   */
  #checkRest(manifest: ChecksumManifest): void {
    const dataFiles = new Set(this.#bundle?.dataFiles() ?? []);
    for (const name of dataFiles) assertListed(manifest, name);
    for (const name of manifest.keys()) {
      if (this.#digests.has(name)) continue;
      if (!dataFiles.has(name)) {
        assertAsListed(manifest, name, digestOfFile(this.directory, name, this.account));
      } else if (!hasFile(this.directory, name)) {
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
    const reading = readTable(table, { rows, ids, checks: this.#checks });
    this.#tables.set(table, reading);
    return reading;
  }

  #regionOf(stored: StoredTensor): StoredRegion {
    if (stored.kind === "bundle") return storedRegionOf(stored, () => this.#variables());
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
