// Searches and look-ups in tables that another thread has loaded, run at once on the thread that asks. Only for small
// tables: the thread does nothing else meanwhile, and saves waking the other thread and being woken by it.
// The code and the tables are the accelerator's, so answers have the same bits.

import type { TopKBlock } from "@winnow/core";
import { isFastKernel, loadNativeAddon, outOfMemory } from "./native-addon.ts";
import type { DeviceHandle, NativeAddon, TableHandle } from "./native-addon.ts";

/** A table of another thread. */
export interface InlineTable {
  readonly handle: TableHandle;
}

/** A search for the `k` best rows of distinct tables of equal dim, for each query. */
export interface InlineQuery {
  readonly tables: readonly InlineTable[];
  /** float32 `[queries, dim]`, with at least one query. */
  readonly vectors: Float32Array;
  /** At least 1, at most the rows of all tables. */
  readonly k: number;
}

/** The result of a search. */
interface InlineAnswer {
  readonly block: TopKBlock;
  /** Queries for which all rows were scored, as in a table full of equal rows: each takes a hundred times as long. */
  readonly denseQueries: number;
}

/** Searches on the thread that made it. */
export class InlineSearch {
  readonly #addon: NativeAddon;
  /** Belongs to one thread, so a search always ends before the next one begins. */
  readonly #device: DeviceHandle;

  constructor(addon: NativeAddon, device: DeviceHandle) {
    this.#addon = addon;
    this.#device = device;
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

  /** Copies rows by local number: `[localRows.length, dim]`. @throws TypeError outside of the table */
  gather({ handle }: InlineTable, localRows: Uint32Array, dim: number): Float32Array {
    const gathered = new Float32Array(localRows.length * dim);
    this.#addon.gatherRows(handle, localRows, gathered);
    return gathered;
  }

  /** Exact top-k of each query. @throws WinnowError RESOURCE_EXHAUSTED if there is not enough memory */
  topK({ tables, vectors, k }: InlineQuery, queries: number): InlineAnswer {
    const handles = tables.map(({ handle }) => handle);
    try {
      const { counts, scores, rows, denseQueries } = this.#addon.runSearch(
        this.#device,
        handles,
        vectors,
        k,
        undefined,
        undefined,
        undefined,
        undefined,
        undefined,
      );
      return { block: { queries, k, counts, scores, rows }, denseQueries };
    } catch (error) {
      throw outOfMemory(error) ?? error;
    }
  }
}

/** Inline searches for this thread; `undefined` if the native scan or vector instructions are missing. */
export function openInlineSearch(): InlineSearch | undefined {
  const { addon } = loadNativeAddon();
  if (addon === undefined) return undefined;
  const { handle, kernel } = addon.createDevice(1, undefined);
  if (isFastKernel(kernel)) return new InlineSearch(addon, handle);
  addon.releaseDevice(handle);
  return undefined;
}
