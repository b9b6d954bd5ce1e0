// What the worker's event loop asks of its compute side: the one thread that owns the opened model
// versions and the accelerator. Everything that takes longer than a millisecond is behind this
// interface; the event loop only moves frames. Arrays handed over are transferred, not copied: the
// sender gives them up.

import type {
  AttributeSpec,
  Fingerprint,
  TableSource,
  ThreadProblem,
  TopKBlock,
  WinnowError,
} from "@winnow/core";

/** A version directory. The number names the directory, not its content, which may be replaced. */
export interface VersionDirectory {
  readonly model: string;
  readonly version: number;
  readonly directory: string;
}

/**
 * One content that the compute side has open, and everything loaded of it. A handle is given out
 * once, when a directory is opened: it never leads to another content, whatever becomes of the
 * directory.
 */
export type ContentHandle = number & { readonly brand: "ContentHandle" };

/** One table of an opened version, as placement and admission need it. */
export interface OpenedTable {
  readonly name: string;
  readonly kind: "candidate" | "keyed";
  readonly rows: number;
  readonly dim: number;
  readonly partitions: number;
  /** Bytes each partition will occupy, known before reading. */
  readonly partitionBytes: readonly number[];
  /** What filters may ask of its items; `undefined` where the version brings no attributes. */
  readonly attributes?: readonly AttributeSpec[] | undefined;
  /** The stored tensors, with the checksums that all partitions' shares must give. */
  readonly sources: readonly TableSource[];
}

/** What placement needs of an opened version; none of its rows have been read yet. */
export interface OpenedVersion {
  readonly handle: ContentHandle;
  readonly fingerprint: Fingerprint;
  readonly tables: readonly OpenedTable[];
}

/** One partition of one table of an opened version. */
export interface ReplicaName {
  readonly handle: ContentHandle;
  readonly table: number;
  readonly partition: number;
}

/** A partition that now answers. */
export interface LoadedReplica {
  /** Device and host memory it occupies. */
  readonly bytes: number;
  /** Bytes read from files to load it. */
  readonly bytesRead: number;
  readonly elapsedMs: number;
  /** Its share of the checksum of each of the table's sources. */
  readonly shares: readonly number[];
}

/** Byte strings as two arrays that can be transferred, see `StringColumn`. */
export interface PackedStrings {
  /** `count + 1` ascending positions in `bytes`; the first need not be 0 in a part of an answer. */
  readonly offsets: Uint32Array;
  readonly bytes: Uint8Array;
}

/** Keys or ids on their way to or from the compute thread. */
export type PackedKeys =
  | { readonly dtype: "string"; readonly strings: PackedStrings }
  | { readonly dtype: "int32"; readonly values: Int32Array }
  | { readonly dtype: "int64"; readonly values: BigInt64Array };

/** The partitions that a scan or a gather reads. */
export interface TableTarget {
  readonly handle: ContentHandle;
  readonly table: number;
  /** Ascending; each must be held. */
  readonly partitions: Uint16Array;
}

/** One router's query within a batch. */
export interface ScanAsk {
  readonly queries: number;
  readonly k: number;
  /** Ids never to be returned: none, one list for all queries, or one per query. */
  readonly excluded: readonly PackedKeys[];
  /** Leave the ids out of the answer. */
  readonly rowsOnly: boolean;
  /** Texts of filters: none, one for all queries, or one per query. */
  readonly filters?: readonly string[] | undefined;
  /** Ids beside which none are returned: none, one list for all queries, or one per query. */
  readonly included?: readonly PackedKeys[] | undefined;
  /** Attributes wanted of each item. */
  readonly attributes?: readonly string[] | undefined;
}

/** Queries that share one scan; `vectors` holds the rows of all asks, in their order. */
export interface TopKBatch {
  readonly target: TableTarget;
  readonly asks: readonly ScanAsk[];
  /** float32 `[sum of queries, dim]`. */
  readonly vectors: Float32Array;
}

/** What a scan found for all asks of a batch. */
export interface TopKScan {
  /** The queries of all asks, with room for the greatest k. */
  readonly block: TopKBlock;
  /** Ids of each ask's candidates, unless it wants rows only; `undefined` if none are stored. */
  readonly ids: PackedKeys | undefined;
  /** Attributes of the candidates of each ask that wants any, as JSON objects. */
  readonly attributes: PackedStrings | undefined;
  /** How long the batch waited at the device for the previous scan to end. */
  readonly waitUs: number;
  readonly computeUs: number;
}

/** The answer to one ask; its arrays may be views of the whole scan's. */
export interface ScanAnswer {
  readonly block: TopKBlock;
  /** Ids of the filled positions, query after query; none if not wanted or not stored. */
  readonly ids: PackedKeys | undefined;
  /** Attributes of the filled positions, if any are wanted. */
  readonly attributes?: PackedStrings | undefined;
}

/** Answers in the order of the asks. */
export interface TopKBatchAnswer {
  readonly answers: readonly ScanAnswer[];
  /** How long the batch waited at the device for the previous scan to end. */
  readonly waitUs: number;
  readonly computeUs: number;
}

/** One router's keys within a batch; each key must belong to one of the asked partitions. */
export interface GatherAsk {
  readonly partitions: Uint16Array;
  readonly keys: PackedKeys;
}

/** Lookups in one table that travel together. */
export interface LookupBatch {
  readonly handle: ContentHandle;
  readonly table: number;
  readonly asks: readonly GatherAsk[];
}

/** float32 `[keys, dim]` in the order of the keys, or why this ask alone failed. */
export type GatherAnswer = { readonly vectors: Float32Array } | { readonly problem: ThreadProblem };

/** Answers in the order of the asks. */
export interface LookupBatchAnswer {
  readonly answers: readonly GatherAnswer[];
  readonly computeUs: number;
}

/** Memory of the compute side: rows on the device, ids, keys and indexes beside them. */
export interface ComputeMemory {
  readonly usedBytes: number;
  readonly capacityBytes: number;
}

/** The device, once it is known. */
export interface ComputeDevice {
  /** `cpu`, `gpu` or `reference`. */
  readonly accelerator: string;
  /** The device in words. */
  readonly device: string;
}

/** Why the compute side has ended for good. */
export interface ComputeFailure {
  /** The device alone (a new process may find it working again), or the thread that drives it. */
  readonly lost: "device" | "thread";
  readonly error: WinnowError;
}

/** The compute side. Once it has ended, every promise rejects with UNAVAILABLE. */
export interface Compute {
  readonly device: ComputeDevice;
  /** As of the last answer. */
  readonly memory: ComputeMemory;
  /** Grows with every batch and load step, also while the event loop waits. */
  readonly progress: number;
  /** Requests sent and not yet answered. */
  readonly pending: number;
  /**
   * Opens a directory and reads its table of contents. If one of the `siblings` has the same
   * content, that one keeps its handle and all it holds, and reads from this directory from now on.
   * A directory that cannot be opened leaves nothing open.
   * @throws WinnowError whatever is wrong with the directory
   */
  open(from: VersionDirectory, siblings: readonly ContentHandle[]): Promise<OpenedVersion>;
  /** Reads one partition onto the device. @throws WinnowError DATA_LOSS, RESOURCE_EXHAUSTED, … */
  load(name: ReplicaName): Promise<LoadedReplica>;
  release(name: ReplicaName): Promise<void>;
  /** Releases all that is held of the content, and closes its files. */
  close(handle: ContentHandle): Promise<void>;
  /** The program as bytes, with its keyed tables of at most `tableBytesMax` bytes. */
  program(handle: ContentHandle, tableBytesMax: number): Promise<Uint8Array>;
  /** Finds out which rows filters admit, for searches to come: in steps, beside searches. */
  prepareFilters(
    target: TableTarget,
    texts: readonly string[],
    signal?: AbortSignal,
  ): Promise<void>;
  topK(batch: TopKBatch, signal?: AbortSignal): Promise<TopKBatchAnswer>;
  lookup(batch: LookupBatch): Promise<LookupBatchAnswer>;
  /** Called once if the thread ends without being asked to, or its device is lost. */
  onFailure(listener: (failure: ComputeFailure) => void): void;
  shutdown(): Promise<void>;
}
