// A filter that admits too many rows for a copy, as the event loop searches a whole partition with it. Like a copy it
// is not kept alive from here: each search opens it anew, and finds it gone once the compute thread has released it.

import type { InlineFilter, InlineSearch } from "@winnow/accelerator";

import type { SharedMask } from "./shared-rows.ts";

/** One filter of one partition, all of whose rows are searched. */
export class InlineMask {
  /** Whether it admits every row of the partition. */
  readonly admitsAll: boolean;
  readonly #share: number;
  readonly #uses: Uint32Array;

  constructor({ share, admitsAll, uses }: SharedMask) {
    this.admitsAll = admitsAll;
    this.#share = share;
    this.#uses = uses;
  }

  /** The filter, to be released after the search; `undefined` once it has been released elsewhere. */
  open(search: InlineSearch): InlineFilter | undefined {
    return search.openFilter(this.#share);
  }

  /** Notes a search, for the cache that owns the filter. */
  used(): void {
    Atomics.store(this.#uses, 0, 1);
  }
}
