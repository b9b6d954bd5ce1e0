// A copy of the rows that a filter admits, as the event loop searches it. It is not kept alive from here: each
// search opens it anew, and finds it gone once the compute thread has released it.

import type { InlineSearch, InlineTable } from "@winnow/accelerator";
import type { Tensor, TopKBlock } from "@winnow/core";

import { unpackKeys } from "../packed-keys.ts";
import type { IdSource } from "../search/winner-ids.ts";
import type { SharedCopy, SharedPartition } from "./shared-rows.ts";

/** The shape of rows that the event loop searches. */
export type SearchedRows = Pick<SharedPartition, "rows" | "dim" | "vectorDim" | "firstRow">;

/** The copy of one filter and one partition. */
export class InlineCopy implements IdSource {
  readonly resident: SearchedRows;
  /** By row of the copy; `undefined` for a large one (`isLargeShape`). */
  readonly ids: Tensor | undefined;
  /** Rows of the whole partition. */
  readonly partitionRows: number;
  readonly #localRows: Uint32Array;
  readonly #share: number | undefined;
  readonly #uses: Uint32Array;

  constructor({ share, localRows, ids, dim, vectorDim, firstRow, ...shared }: SharedCopy) {
    const { partitionRows, uses } = shared;
    this.resident = { rows: localRows.length, dim, vectorDim, firstRow };
    this.ids = ids && unpackKeys(ids);
    this.partitionRows = partitionRows;
    this.#localRows = localRows;
    this.#share = share;
    this.#uses = uses;
  }

  /** The copy's rows, to be released after the search; `undefined` once they have been released elsewhere. */
  open(search: InlineSearch): InlineTable | undefined {
    return this.#share === undefined ? undefined : search.open(this.#share);
  }

  /** Notes a search, for the cache that owns the copy. */
  used(): void {
    Atomics.store(this.#uses, 0, 1);
  }

  /** The row of the table that a row of the copy stands for. */
  tableRow(row: number): number {
    const { firstRow } = this.resident;
    return firstRow + this.#localRows[row - firstRow]!;
  }
}

/** Replaces rows of copies by the rows of the table that they stand for. */
export function replaceCopyRows(
  { queries, k, counts, rows }: TopKBlock,
  ascending: readonly InlineCopy[],
): void {
  for (let query = 0; query < queries; query += 1) {
    for (let at = query * k, end = at + counts[query]!; at < end; at += 1) {
      const row = rows[at]!;
      rows[at] = copyAt(row, ascending).tableRow(row);
    }
  }
}

/** The last copy that begins at or before the row. */
function copyAt(row: number, ascending: readonly InlineCopy[]): InlineCopy {
  let at = ascending.length - 1;
  while (ascending[at]!.resident.firstRow > row) at -= 1;
  return ascending[at]!;
}
