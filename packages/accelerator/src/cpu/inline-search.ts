// Searches of tables that another thread has loaded, run at once by the thread that asks. For small
// tables alone: the thread does nothing else meanwhile, and saves the way to the other one and back. The
// bits are those of the accelerator, whose tables and code these are.

import type { TopKBlock } from "@winnow/core";
import { isFastKernel, loadNativeAddon, outOfMemory } from "./native-addon.ts";
import type { DeviceHandle, NativeAddon, TableHandle } from "./native-addon.ts";

/** A table of another thread. */
export interface InlineTable {
  readonly handle: TableHandle;
}

/** What is searched for: the `k` best of all rows of distinct tables of one dim, for each query. */
export interface InlineQuery {
  readonly tables: readonly InlineTable[];
  /** float32 `[queries, dim]`, one query at least. */
  readonly vectors: Float32Array;
  /** At least 1, at most the rows of all tables. */
  readonly k: number;
}

/** What a search found. */
interface InlineAnswer {
  readonly block: TopKBlock;
  /** Queries of which all rows were scored, as of a table full of equal rows: each takes a hundred times as long. */
  readonly denseQueries: number;
}

/** Searches on the thread that made it. */
export class InlineSearch {
  readonly #addon: NativeAddon;
  /** Of one thread: a search is over before another one begins. */
  readonly #device: DeviceHandle;

  constructor(addon: NativeAddon, device: DeviceHandle) {
    this.#addon = addon;
    this.#device = device;
  }

  /** The table that was shared under this number, `undefined` once it has been released. */
  open(share: number): InlineTable | undefined {
    const handle = this.#addon.sharedTable(share);
    return handle && { handle };
  }

  /** Lets a table go: its rows stay in memory until this is done. */
  release({ handle }: InlineTable): void {
    this.#addon.releaseTable(handle);
  }

  /** Exact top-k of each query. @throws WinnowError RESOURCE_EXHAUSTED where memory does not suffice */
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

/** Inline searches of this thread; `undefined` where the native scan or vector instructions are missing. */
export function openInlineSearch(): InlineSearch | undefined {
  const { addon } = loadNativeAddon();
  if (addon === undefined) return undefined;
  const { handle, kernel } = addon.createDevice(1, undefined);
  if (isFastKernel(kernel)) return new InlineSearch(addon, handle);
  addon.releaseDevice(handle);
  return undefined;
}
