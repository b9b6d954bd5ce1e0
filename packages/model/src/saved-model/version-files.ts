// The files of one SavedModel directory behind one door. The graph part asks it for graph bytes,
// tensors and vocabularies; the worker's reading of partitions goes through it too, so that one
// account knows every byte that was read.

import { WinnowError, type Fingerprint, type TableSource, type Tensor } from "@winnow/core";
import type { PartitionReader } from "../model-version.ts";
import type { StoredTable, StoredTensor, TextVocabulary } from "./stored-table.ts";
import type { BundleEntry } from "./tensor-bundle.ts";

/** An opened SavedModel directory; `close()` gives its file handles back. */
export interface VersionFiles {
  readonly directory: string;
  /** sha256 over saved_model.pb, variables.index and the assets. */
  readonly fingerprint: Fingerprint;
  /** Content of saved_model.pb. */
  readonly graphBytes: Uint8Array;
  readonly bytesRead: number;
  /** Dtype and shape of a checkpoint key; `undefined` if there is none. Reads nothing. */
  entryOf(key: string): BundleEntry | undefined;
  /** All checkpoint keys, ascending. */
  keys(): readonly string[];
  /** A whole tensor, checksum verified. @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED */
  readTensor(key: string): Tensor;
  /** Keys and values of an asset vocabulary, as `[entries]` tensors. @throws WinnowError */
  readTextVocabulary(vocabulary: TextVocabulary): {
    readonly keys: Tensor;
    readonly values: Tensor;
  };
  /** What `TableSpec.sources` says of a stored tensor. @throws WinnowError NOT_FOUND */
  sourceOf(stored: StoredTensor): TableSource;
  /** Bytes one partition will occupy in memory as rows, ids and keys; reads no rows. */
  partitionBytes(table: StoredTable, partition: number): number;
  /** Prepares to read one partition. @throws WinnowError DATA_LOSS, NOT_FOUND */
  openPartition(table: StoredTable, partition: number): PartitionReader;
  close(): void;
}

/** Opens a version directory. @throws WinnowError NOT_FOUND, DATA_LOSS, UNIMPLEMENTED */
export function openVersionFiles(directory: string): VersionFiles {
  throw new WinnowError("UNIMPLEMENTED", directory);
}
