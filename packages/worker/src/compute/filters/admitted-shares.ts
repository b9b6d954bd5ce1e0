// How a cache of filters hands copies of admitted rows to another thread, which searches them by itself
// (`inline/copy-sharing.ts`). The cache stays the owner: it says when a copy is given up, and asks whether
// the copy was used, as it does not see those searches.

import type { ResidentPartition } from "../resident-table.ts";
import type { AdmittedCopy } from "./admitted-copy.ts";

/** A copy that another thread may search. */
export interface SharedAdmitted {
  /** Bytes of host memory that sharing takes, beside the copy itself. */
  readonly bytes: number;
  /** Whether the copy has been searched since this was last asked. */
  takeUses(): boolean;
}

/** Takes copies. */
export interface AdmittedShares {
  /** Whether a filter that admits so many rows of a partition is worth a copy only because it will be shared. */
  wants(partition: ResidentPartition, admitted: number): boolean;
  /** Shares a copy, or, without one, that nothing is admitted; `undefined` if it cannot be shared. */
  share(
    partition: ResidentPartition,
    text: string,
    copy: AdmittedCopy | undefined,
  ): SharedAdmitted | undefined;
  /** The copy is given up. To be called before it is released. */
  drop(partition: ResidentPartition, text: string): void;
}
