// What the worker's event loop asks of its compute side: the one thread that owns the opened model versions
// and the accelerator. Everything that may take longer than a millisecond is behind this interface; the event
// loop only moves frames. Arrays that are handed over are transferred, not copied: the sender can no longer
// use them.

import type {
  AttributeSpec,
  EvenCut,
  Fingerprint,
  TableSource,
  ThreadProblem,
  TopKBlock,
  WinnowError,
} from "@winnow/core";
import type { ItemChanges } from "@winnow/model";

/** A version directory. The number names the directory, not its content, which may be replaced. */
export interface VersionDirectory {
  readonly model: string;
  readonly version: number;
  readonly directory: string;
  /** How many bytes of its file of item updates belong to the content; absent: all. */
  readonly updateBytes?: number | undefined;
}

/**
 * One content that the compute side has open, with everything loaded of it. A handle is given out once, when
 * a directory is opened, and never leads to another content, even if the directory changes.
 */
export type ContentHandle = number & { readonly brand: "ContentHandle" };

/** What placement and admission need to know of one table of an opened version. */
export interface OpenedTable {
  readonly name: string;
  readonly kind: "candidate" | "keyed";
  readonly rows: number;
  readonly dim: number;
  readonly partitions: number;
  /** The rows and partitions of the model itself, where items were added to it, see `TableCut`. */
  readonly original?: EvenCut | undefined;
  /** Bytes each partition will occupy, known before reading. */
  readonly partitionBytes: readonly number[];
  /** The attributes that filters may test; `undefined` where the version brings none. */
  readonly attributes?: readonly AttributeSpec[] | undefined;
  /** The stored tensors, with the checksums that all partitions' shares must give. */
  readonly sources: readonly TableSource[];
}

/** What placement needs to know of an opened version. No rows have been read yet. */
export interface OpenedVersion {
  readonly handle: ContentHandle;
  readonly fingerprint: Fingerprint;
  /**
   * The fingerprint of all but the attributes of its items and changes to them: contents of which it is equal have the
   * same rows in the partitions of the model itself.
   */
  readonly rowsFingerprint: Fingerprint;
  /** The changes to its items; absent where the version brings none. */
  readonly changes?: ItemChanges | undefined;
  readonly tables: readonly OpenedTable[];
}

/** One partition of one table of an opened version. */
export interface ReplicaName {
  readonly handle: ContentHandle;
  readonly table: number;
  readonly partition: number;
}

/** A partition that now answers queries. */
export interface LoadedReplica {
  /** Device and host memory it occupies. */
  readonly bytes: number;
  /** Of these, the memory of its rows on the device. */
  readonly rowBytes: number;
  /** Bytes read from files to load its rows; 0 where another content had loaded the same. */
  readonly bytesRead: number;
  readonly elapsedMs: number;
  /** The partition's share of the checksum of each of the table's sources. */
  readonly shares: readonly number[];
}

/** Byte strings as two arrays that can be transferred, see `StringColumn`. */
export interface PackedStrings {
  /** `count + 1` ascending positions in `bytes`. In a part of an answer the first need not be 0. */
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
  /** Ascending. Each of them must be held. */
  readonly partitions: Uint16Array;
}

/** One router's query within a batch. */
export interface ScanAsk {
  readonly queries: number;
  readonly k: number;
  /** Ids never to be returned: none, one list for all queries, or one per query. */
  readonly excluded: readonly PackedKeys[];
  /** Whether the answer leaves the ids out and gives row numbers alone. */
  readonly rowsOnly: boolean;
  /** Filters as text: none, one for all queries, or one per query. */
  readonly filters?: readonly string[] | undefined;
  /** The only ids that may be returned: no lists, one list for all queries, or one per query. */
  readonly included?: readonly PackedKeys[] | undefined;
  /** Names of the attributes that are wanted of each item. */
  readonly attributes?: readonly string[] | undefined;
  /** Whether a vector among them is wanted as bytes behind the object of the others. */
  readonly vectorBytes?: true | undefined;
  /** Whether it is wanted without what was added to the rows for the search. */
  readonly ownVectors?: true | undefined;
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
  /** The candidates of the queries of all asks, with room for the greatest k among them. */
  readonly block: TopKBlock;
  /** Ids of each ask's candidates, except for asks with `rowsOnly`; `undefined` if the table stores none. */
  readonly ids: PackedKeys | undefined;
  /** Attributes of the candidates of each ask that names any, as JSON objects. */
  readonly attributes: PackedStrings | undefined;
  /** How long the batch waited at the device for the previous scan to end. */
  readonly waitUs: number;
  readonly computeUs: number;
}

/** The answer to one ask. Its arrays may be views of the arrays of the whole scan. */
export interface ScanAnswer {
  readonly block: TopKBlock;
  /** Ids of the filled positions, query after query; `undefined` if not wanted or not stored. */
  readonly ids: PackedKeys | undefined;
  /** Attributes of the filled positions, if the ask names any; with vectors behind them, if it asks for that. */
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
  /** Whether the table knows each key is all that is wanted. */
  readonly knownOnly?: true;
}

/** Lookups in one table that are answered by one gather. */
export interface LookupBatch {
  readonly handle: ContentHandle;
  readonly table: number;
  readonly asks: readonly GatherAsk[];
}

/**
 * float32 `[keys, dim]` in the order of the keys; to `knownOnly` for each key 1, or 0 where the table does not know it; or
 * why this ask alone failed.
 */
export type GatherAnswer =
  | { readonly vectors: Float32Array }
  | { readonly known: Uint8Array }
  | { readonly problem: ThreadProblem };

/** Answers in the order of the asks. */
export interface LookupBatchAnswer {
  readonly answers: readonly GatherAnswer[];
  readonly computeUs: number;
}

/** Memory used by the compute side: rows on the device; ids, keys and indexes in host memory. */
export interface ComputeMemory {
  readonly usedBytes: number;
  readonly capacityBytes: number;
}

/** The device that the compute side has opened. */
export interface ComputeDevice {
  /** `cpu`, `gpu` or `reference`. */
  readonly accelerator: string;
  /** A description of the device for people. */
  readonly device: string;
}

/** Why the compute side has ended for good. */
export interface ComputeFailure {
  /** `device`: the device alone, which a new process may find working again; `thread`: the thread that drives it. */
  readonly lost: "device" | "thread";
  readonly error: WinnowError;
}

/** The compute side. Once it has ended, every promise rejects with UNAVAILABLE. */
export interface Compute {
  readonly device: ComputeDevice;
  /** The memory figures that came with the last answer. */
  readonly memory: ComputeMemory;
  /** Grows with every batch and every step of a load. Can be read while the compute thread works. */
  readonly progress: number;
  /** Requests sent and not yet answered. */
  readonly pending: number;
  /**
   * Opens a directory and reads its table of contents. If one of the `siblings` has the same content, that
   * sibling keeps its handle and everything loaded of it, and reads from this directory from now on. A
   * directory that cannot be opened leaves nothing open.
   * @throws WinnowError whatever is wrong with the directory
   */
  open(from: VersionDirectory, siblings: readonly ContentHandle[]): Promise<OpenedVersion>;
  /**
   * Reads one partition onto the device. Where the content `rowsOf`, which must have the same rows, still holds the
   * partition, its rows serve both contents, and only what is beside them is read.
   * @throws WinnowError DATA_LOSS, RESOURCE_EXHAUSTED, …
   */
  load(name: ReplicaName, rowsOf?: ContentHandle): Promise<LoadedReplica>;
  release(name: ReplicaName): Promise<void>;
  /** Releases everything that is held of the content, and closes its files. */
  close(handle: ContentHandle): Promise<void>;
  /** The program as bytes, with its keyed tables of at most `tableBytesMax` bytes. */
  program(handle: ContentHandle, tableBytesMax: number): Promise<Uint8Array>;
  /** Evaluates filters for later searches, in steps between which searches run. */
  prepareFilters(
    target: TableTarget,
    texts: readonly string[],
    signal?: AbortSignal,
  ): Promise<void>;
  topK(batch: TopKBatch, signal?: AbortSignal): Promise<TopKBatchAnswer>;
  lookup(batch: LookupBatch): Promise<LookupBatchAnswer>;
  /** The listener is called once if the thread ends without having been asked to, or loses its device. */
  onFailure(listener: (failure: ComputeFailure) => void): void;
  shutdown(): Promise<void>;
}
