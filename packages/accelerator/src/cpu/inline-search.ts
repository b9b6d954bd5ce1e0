// Searches and look-ups in tables that another thread has loaded, run at once on the thread that asks. Only for scans
// of a few milliseconds: the thread does nothing else meanwhile, and saves waking the other thread and being woken by it.
// The code and the tables are the accelerator's, so answers have the same bits.

import { availableParallelism } from "node:os";

import type { TopKBlock } from "@winnow/core";
import { isFastKernel, loadNativeAddon, outOfMemory } from "./native-addon.ts";
import type { DeviceHandle, FilterHandle, NativeAddon, TableHandle } from "./native-addon.ts";

/** A table of another thread. */
export interface InlineTable {
  readonly handle: TableHandle;
}

/** A filter of another thread. */
export interface InlineFilter {
  readonly handle: FilterHandle;
}

/** A search for the `k` best rows of distinct tables of equal dim, for each query. */
export interface InlineQuery {
  readonly tables: readonly InlineTable[];
  /** Which rows of each table may be returned; default: all. */
  readonly filters?: readonly InlineFilter[] | undefined;
  /** float32 `[queries, dim]`, with at least one query. */
  readonly vectors: Float32Array;
  /** At least 1, at most the rows of all tables. */
  readonly k: number;
  /** Whether the search's helper threads share the scan. Default: this thread scans alone. */
  readonly withHelpers?: boolean;
  /** Values (rows × dim × queries) that may be scored one by one where the filter leaves out no rows. */
  readonly denseValuesMax: number;
}

/** The result of a search. */
interface InlineAnswer {
  readonly block: TopKBlock;
  /** Queries for which all rows were scored. */
  readonly denseQueries: number;
}

/** Searches on the thread that made it. */
export class InlineSearch {
  readonly #addon: NativeAddon;
  /** Belongs to one thread, so a search always ends before the next one begins. */
  readonly #device: DeviceHandle;
  /** Threads of a scan with helpers. */
  readonly threads: number;
  /** The device with helpers, opened for the first scan that they share. */
  #team: DeviceHandle | undefined;

  constructor(addon: NativeAddon, device: DeviceHandle, threads: number) {
    this.#addon = addon;
    this.#device = device;
    this.threads = threads;
  }

  /** The table with this number; `undefined` once it has been released. */
  open(share: number): InlineTable | undefined {
    const handle = this.#addon.sharedTable(share);
    return handle && { handle };
  }

  /** Releases the handle to a table; its rows stay in memory as long as there is one. */
  release({ handle }: InlineTable): void {
    this.#addon.releaseTable(handle);
  }

  /** The filter with this number; `undefined` once it has been released. */
  openFilter(share: number): InlineFilter | undefined {
    const handle = this.#addon.sharedFilter(share);
    return handle && { handle };
  }

  /** Releases the handle to a filter. */
  releaseFilter({ handle }: InlineFilter): void {
    this.#addon.releaseFilter(handle);
  }

  /** Copies rows by local number: `[localRows.length, dim]`. @throws TypeError outside of the table */
  gather({ handle }: InlineTable, localRows: Uint32Array, dim: number): Float32Array {
    const gathered = new Float32Array(localRows.length * dim);
    this.#addon.gatherRows(handle, localRows, gathered);
    return gathered;
  }

  /**
   * Exact top-k of each query; `undefined` if more than `denseValuesMax` values had to be scored, as in a table full
   * of equal rows, which takes a hundred times as long. @throws WinnowError RESOURCE_EXHAUSTED if there is not
   * enough memory
   */
  topK(
    { tables, filters, vectors, k, withHelpers = false, denseValuesMax }: InlineQuery,
    queries: number,
  ): InlineAnswer | undefined {
    const handles = tables.map(({ handle }) => handle);
    const device = withHelpers && this.threads > 1 ? this.#openTeam() : this.#device;
    try {
      const found = this.#addon.runSearch(
        device,
        handles,
        vectors,
        k,
        undefined,
        undefined,
        filters?.map(({ handle }) => handle),
        // All queries have the first filter.
        filters && new Uint32Array(queries),
        undefined,
        denseValuesMax,
      );
      if (found === undefined) return undefined;
      const { counts, scores, rows, denseQueries } = found;
      return { block: { queries, k, counts, scores, rows }, denseQueries };
    } catch (error) {
      throw outOfMemory(error) ?? error;
    }
  }

  #openTeam(): DeviceHandle {
    this.#team ??= this.#addon.createDevice(this.threads, undefined).handle;
    return this.#team;
  }
}

/**
 * Inline searches for this thread; `undefined` if the native scan or vector instructions are missing. `threads`, this
 * one included, share a scan with helpers; default: the processors that this process may use.
 */
export function openInlineSearch(
  threads: number = availableParallelism(),
): InlineSearch | undefined {
  const { addon } = loadNativeAddon();
  if (addon === undefined) return undefined;
  const { handle, kernel } = addon.createDevice(1, undefined);
  if (isFastKernel(kernel)) return new InlineSearch(addon, handle, threads);
  addon.releaseDevice(handle);
  return undefined;
}
