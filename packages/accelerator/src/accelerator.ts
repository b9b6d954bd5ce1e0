// What a device can do for Winnow: hold rows, find the best of them, gather them. `reference/` is
// plain TypeScript and defines the answers; `cpu/` and `gpu/` give the same bits faster. Score and
// order are canonical (canonical-score.ts), so nothing here depends on batch, partitioning or device.

import type { TopKBlock, WinnowError } from "@winnow/core";

/** The kinds of device a worker can be told to use. */
export type AcceleratorKind = "cpu" | "gpu" | "reference";

/** Rows that are on the device. Made by `load`, ended by `release`; never copied. */
export interface Resident {
  readonly rows: number;
  readonly dim: number;
  /** Global number of row 0 in its table: `topK` answers with global rows. */
  readonly firstRow: number;
  /** Bytes of device and host memory that it occupies. */
  readonly bytes: number;
}

/** The shape of a load; the device may reserve memory by it before the first chunk arrives. */
export interface LoadShape {
  readonly rows: number;
  readonly dim: number;
  readonly firstRow: number;
  /**
   * `search`: for `topK` and `gather`. `gather`: for `gather` alone, so no filter codes are built.
   */
  readonly use: "search" | "gather";
}

/**
 * Some rows of a resident, to which queries may be restricted. Made by `filter`, ended by `releaseFilter`. A
 * filter serves any number of searches; its memory does not count in any capacity.
 */
export interface RowFilter {
  readonly resident: Resident;
  /** How many rows it admits. */
  readonly admitted: number;
  /** Bytes of host memory that it occupies. */
  readonly bytes: number;
}

/** One batch of queries against some partitions of one table. */
export interface TopKQuery {
  /** Distinct partitions of one table, equal `dim`; scanned as one batch of work. */
  readonly residents: readonly Resident[];
  /** float32 `[queries, dim]`. */
  readonly vectors: Float32Array;
  /** Candidates wanted per query, ≥ 1; fewer come back only where fewer rows are admitted. */
  readonly k: number;
  /** Per query: ascending global rows that must not be returned, or `undefined`. */
  readonly excludedRows?: readonly (Uint32Array | undefined)[] | undefined;
  /**
   * Per query: a filter of each resident, in the order of `residents`, or `undefined` where every row may be
   * returned. Queries with the same list are searched together.
   */
  readonly filters?: readonly (readonly RowFilter[] | undefined)[] | undefined;
}

/** Memory of a device, in bytes. */
export interface AcceleratorMemory {
  readonly usedBytes: number;
  /** Bytes that rows may use at most: the given capacity without what searches need. */
  readonly capacityBytes: number;
}

/** A device. All methods may be called while others run; `topK` calls are queued in order. */
export interface Accelerator {
  readonly kind: AcceleratorKind;
  /** A description of the device for people: `Xeon, 2 threads, AVX-512 VNNI`. */
  readonly device: string;
  /**
   * Resolves with an UNAVAILABLE error if the device is lost for good; all later calls reject with
   * that error. Stays pending while the device works, and after `close`.
   */
  readonly lost: Promise<WinnowError>;
  memory(): AcceleratorMemory;
  /**
   * Takes `shape.rows` rows from `chunks` (whole rows, finite values, in order); a chunk is read until
   * the next one is asked for.
   * @throws WinnowError RESOURCE_EXHAUSTED when memory does not admit them, INVALID_ARGUMENT when the
   * chunks do not add up to the shape; what was loaded so far is released.
   */
  load(
    shape: LoadShape,
    chunks: Iterable<Float32Array> | AsyncIterable<Float32Array>,
    signal?: AbortSignal,
  ): Promise<Resident>;
  /**
   * Exact top-k of each query. Aborting rejects with the signal's reason and soon frees the device.
   */
  topK(query: TopKQuery, signal?: AbortSignal): Promise<TopKBlock>;
  /**
   * Prepares a filter that admits local row r by bit r & 7 of byte r >> 3; rows past the end of the
   * bitmap are not admitted. The bitmap is copied.
   */
  filter(resident: Resident, admittedRows: Uint8Array): RowFilter;
  /** Frees a filter's memory, once the queries under way have finished. */
  releaseFilter(filter: RowFilter): void;
  /** Copies rows by local number: `[localRows.length, dim]`. @throws RangeError outside the resident. */
  gather(resident: Resident, localRows: Uint32Array): Promise<Float32Array>;
  /**
   * A number by which other threads of this process can search the resident, or gather its rows
   * (`cpu/inline-search.ts`), until it is released. Absent where the device does not allow that.
   */
  share?(resident: Resident): number;
  /** A number by which those threads can search with the filter, until it is released. Absent where `share` is. */
  shareFilter?(filter: RowFilter): number;
  /** Frees the rows' memory, once the queries under way have finished. */
  release(resident: Resident): Promise<void>;
  close(): Promise<void>;
}
