// The files of one SavedModel directory behind one door. The graph part asks it for graph bytes,
// tensors and vocabularies; the worker's reading of partitions goes through it too, so that one
// account knows every byte that was read.

import { WinnowError, plainRowChecks } from "@winnow/core";
import type {
  Fingerprint,
  RowChecks,
  SignatureProgram,
  TableSource,
  Tensor,
  WarmUpRequest,
} from "@winnow/core";
import type { PartitionReader } from "../model-version.ts";
import { type TableReading, readTable } from "./partition-reading.ts";
import type { ReadAccount } from "./region.ts";
import { type StoredRegion, storedRegionOf } from "./stored-region.ts";
import type { StoredTable, StoredTensor, TextVocabulary } from "./stored-table.ts";
import { type BundleEntry, TensorBundle } from "./tensor-bundle.ts";
import { parseTextVocabulary } from "./text-vocabulary.ts";
import {
  fingerprintOf,
  hasVariables,
  noVariables,
  readAsset,
  readGraphFile,
} from "./version-directory.ts";
import { readWarmUp } from "./warm-up.ts";

/** An opened SavedModel directory. Owns file handles until `close()`. */
export class VersionFiles {
  readonly directory: string;
  /** sha256 over saved_model.pb, variables.index and the assets. */
  readonly fingerprint: Fingerprint;
  readonly #account: ReadAccount = { bytesRead: 0 };
  readonly #bundle: TensorBundle | undefined;
  readonly #constants = new Map<Tensor, StoredRegion>();
  readonly #tables = new Map<StoredTable, TableReading>();
  #graphBytes: Uint8Array | undefined;

  readonly #checks: RowChecks;

  /**
   * Opens a directory; `checks` is what rows are put to.
   * @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED
   */
  constructor(directory: string, checks: RowChecks = plainRowChecks) {
    this.directory = directory;
    this.#checks = checks;
    this.#graphBytes = readGraphFile(directory, this.#account);
    this.#bundle = hasVariables(directory) ? new TensorBundle(directory, this.#account) : undefined;
    this.fingerprint = fingerprintOf(directory, this.#graphBytes, this.#account);
  }

  /** Content of saved_model.pb; read again if it was let go. */
  get graphBytes(): Uint8Array {
    return (this.#graphBytes ??= readGraphFile(this.directory, this.#account));
  }

  /** Bytes read from files so far. */
  get bytesRead(): number {
    return this.#account.bytesRead;
  }

  /** Requests to replay before the version answers. @throws WinnowError DATA_LOSS, INVALID_ARGUMENT */
  readWarmUp(signatures: readonly SignatureProgram[]): readonly WarmUpRequest[] {
    return readWarmUp(this.directory, signatures, this.#account);
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
    const content = readAsset(this.directory, vocabulary.file, this.#account);
    return parseTextVocabulary(content, vocabulary);
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
