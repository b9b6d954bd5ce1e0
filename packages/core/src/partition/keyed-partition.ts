// One partition of a keyed table as plain data: its rows, and the keys that lead to them. `model`
// reads it from files; a worker (or a router, for a small table) looks keys up in it.

import type { Tensor } from "../tensor/tensor.ts";

/** Local row i of the partition holds global row `globalRows[i]`. */
export interface KeyedPartition {
  /** Ascending; the OOV and mask rows, which no key owns, are in every partition. */
  readonly globalRows: Uint32Array;
  /** The vocabulary keys that hash here, string or int64; `undefined` for a table keyed by row. */
  readonly keys: Tensor | undefined;
  /** Global row of each key of `keys`; empty for a table keyed by row. */
  readonly keyRows: Uint32Array;
}
