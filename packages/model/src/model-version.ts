// A model version on disk, in any format: what the worker needs of a model directory. Each format
// (saved-model/ first) implements it. Opening reads the graph and the table of contents; rows are read by
// partition, in bounded chunks, and only of partitions that are asked for.
//
// Reading is synchronous on purpose: it happens on a thread of its own, where a system call costs two
// microseconds and a promise ten times that.

import type {
  AttributeColumn,
  AttributeSpec,
  Fingerprint,
  KeyedPartition,
  ModelProgram,
  Tensor,
  WarmUpRequest,
} from "@winnow/core";

/** A file that determines what a version answers, and is part of its fingerprint. */
export interface BoundFile {
  /** Relative to the version directory. */
  readonly name: string;
  readonly bytes: number;
  /** sha256 of the file's bytes, in hex. */
  readonly sha256: string;
  /** Number of entries of a vocabulary that the graph reads; `undefined` for any other file. */
  readonly entries: number | undefined;
  /**
   * Whether a manifest beside the version's files lists the file; its bytes then match the
   * manifest.
   */
  readonly isListed: boolean;
}

/** The description of a version's items, for people. */
export interface ItemDescription {
  /** Relative to the version directory. */
  readonly file: string;
  /** Number of items in the file, whether or not the model has them. */
  readonly items: number;
  readonly attributes: readonly (AttributeSpec & {
    /** Number of distinct values. */
    readonly distinct: number;
    /** Bytes of the column for all items. */
    readonly bytes: number;
  })[];
}

/** What a file beside a version changes of its items. */
export interface ItemChanges {
  /** Relative to the version directory. */
  readonly file: string;
  /** Those with a vector: new ones, and those of which it replaces the model's. */
  readonly vectors: number;
  readonly removed: number;
}

/** What vectors of more items are, for `ModelVersion.moreRows`; or why a table takes none, in a few words. */
export type MoreRowsShape =
  | {
      /** Values of a vector as the table stores it. */
      readonly dim: number;
      /** What the table stores, and to which values are therefore rounded. */
      readonly dtype: "float32" | "half" | "bfloat16";
      readonly obstacle?: undefined;
    }
  | { readonly obstacle: string };

/** Items that a candidate table does not have. */
export interface MoreRows {
  readonly rows: number;
  /** Into how many partitions they are cut. */
  readonly partitions: number;
  /** Row-major `[rows, dim]`, with the `dim` of `MoreRowsShape`, of numbers that its `dtype` has. */
  readonly values: Float32Array<ArrayBuffer>;
  /** `[rows]`, of the table's `idDtype`. */
  readonly ids: Tensor;
  /** The file that they are from, for messages. */
  readonly file: string;
}

/** A table whose partitions can be opened. */
export interface TableReading {
  /** Bytes that one partition takes in memory as rows, ids and keys. */
  partitionBytes(partition: number): number;
  openPartition(partition: number): PartitionReader;
}

/** An opened version directory. Every method throws WinnowError naming the file, tensor or row. */
export interface ModelVersion {
  readonly directory: string;
  readonly program: ModelProgram;
  /**
   * The fingerprint of the model alone, without attributes of its items and changes to them: contents of which it is equal
   * have the same rows and ids, in all partitions of the model itself (`CandidateTable.original`). Absent where the version
   * brings neither: it is the program's.
   */
  readonly rowsFingerprint?: Fingerprint;
  /** Requests to replay before the version answers; absent where the format has none. */
  readonly warmUp?: readonly WarmUpRequest[] | undefined;
  /** The files whose digests make the fingerprint; absent where a format does not say. */
  readonly files?: readonly BoundFile[];
  /** The attributes of the version's items; absent where it brings none. */
  readonly items?: ItemDescription;
  /** The changes to the model's items; absent where the version brings none. */
  readonly changes?: ItemChanges | undefined;
  /** Bytes that one partition takes in memory as float32 rows, ids and keys; reads no rows. */
  partitionBytes(table: number, partition: number): number;
  /** Prepares to read one partition. @throws WinnowError DATA_LOSS, NOT_FOUND */
  openPartition(table: number, partition: number): PartitionReader;
  /** What more items of a candidate table are. */
  moreRowsShape?(table: number): MoreRowsShape;
  /** Rows that are made of more items as those of the table are of its own, numbered from 0; they have no checksum shares. @throws RangeError for a table that takes none */
  moreRows?(table: number, more: MoreRows): TableReading;
  /** Bytes read from files so far, for the figure "bytes read against the fair share". */
  readonly bytesRead: number;
  close(): void;
}

/**
 * Yields rows chunk by chunk; `next(spent)` hands back the memory of a chunk that nobody reads any
 * more.
 */
export type ChunkGenerator = Generator<Float32Array, void, Float32Array | undefined>;

/** One partition of one table, being read. */
export interface PartitionReader {
  /** Rows in this partition. */
  readonly rows: number;
  readonly dim: number;
  /** Global number of the first row of a candidate partition; 0 for a keyed one. */
  readonly firstRow: number;
  /** Identifiers of a candidate partition's rows, in row order; `undefined` if it stores none. */
  readonly ids: Tensor | undefined;
  /** Keys of a keyed partition; `undefined` for a candidate one. */
  readonly keyed: KeyedPartition | undefined;
  /** Attributes of a candidate partition's rows, in row order; absent where the version brings none. */
  readonly attributes?: readonly AttributeColumn[];
  /**
   * Row-major values in chunks of whole rows of at most 4 MiB, in local row order. A chunk is the
   * caller's to keep or transfer. A chunk that the caller hands back with `next(spent)` may be
   * filled again, because touching fresh memory for the first time costs more than reading the rows
   * into it.
   * @throws WinnowError DATA_LOSS for a truncated file, INVALID_ARGUMENT for NaN or Inf, naming
   * table and global row.
   */
  chunks(): ChunkGenerator;
  /**
   * This partition's share of the checksum of each of the table's sources; complete once `chunks`
   * has ended. XOR over all partitions of a table equals the source's `checksum`: partition 0 also
   * carries the constant of `checksumConstant` (core/checksum/checksum.ts).
   */
  checksumShares(): readonly number[];
}
