// How a cache of filters hands filters and copies of admitted rows to another thread, which searches by itself
// (`inline/admitted-sharing.ts`). The cache stays the owner: it says when one is given up, and asks whether
// it was used, as it does not see those searches.

import type { RowFilter } from "@winnow/accelerator";

import type { ResidentPartition } from "../resident-table.ts";
import type { AdmittedCopy } from "./admitted-copy.ts";

/** A copy or a filter that another thread may search with. */
export interface SharedAdmitted {
  /** Bytes of host memory that sharing takes, beside what is shared. */
  readonly bytes: number;
  /** Whether it has been searched with since this was last asked. */
  takeUses(): boolean;
}

/** Takes copies and filters. */
export interface AdmittedShares {
  /** Whether a filter that admits so many rows of a partition is worth a copy only because it will be shared. */
  wants(partition: ResidentPartition, admitted: number): boolean;
  /** Shares a copy, or, without one, that nothing is admitted; `undefined` if it cannot be shared. */
  share(
    partition: ResidentPartition,
    text: string,
    copy: AdmittedCopy | undefined,
  ): SharedAdmitted | undefined;
  /** Shares a filter, for searches of the whole partition; `undefined` if they cannot be shared. */
  shareMask(
    partition: ResidentPartition,
    text: string,
    filter: RowFilter,
  ): SharedAdmitted | undefined;
  /** The copy or the filter is given up. To be called before it is released. */
  drop(partition: ResidentPartition, text: string): void;
}
