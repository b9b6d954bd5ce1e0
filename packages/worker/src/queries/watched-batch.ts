// Runs a batch and reports it to the observer: its size when it goes to the device, and its time on the
// device when it ends.

import { rowRangeOf } from "@winnow/core";

import type { BatchedAnswer, BatchedQuery } from "./query-batch.ts";
import { openedOf } from "../replicas/replica-set.ts";
import type { HeldVersion } from "../replicas/replica-set.ts";
import type { QueryKind, WorkerObserver } from "../worker-observer.ts";

/** Where a batch is reported, and the version that it reads. */
export interface BatchWatch {
  readonly observer: WorkerObserver | undefined;
  /** The version that the batch reads; `undefined` once it has been unloaded. */
  readonly held: HeldVersion | undefined;
}

/** Runs a batch of one group. Resolves and rejects as `run` does. */
export async function watchedBatch(
  batch: readonly BatchedQuery[],
  { observer, held }: BatchWatch,
  run: () => Promise<readonly BatchedAnswer[]>,
): Promise<readonly BatchedAnswer[]> {
  const first = batch[0]?.query;
  if (observer === undefined || first === undefined) return run();
  const kind: QueryKind = first.ask.kind;
  const end = observer.batchStarted({
    kind,
    queries: batch.length,
    rows: batch.reduce((sum, { rows }) => sum + rows, 0),
    rowsScanned: kind === "topK" ? rowsOf(held, first) : 0,
  });
  let computeMs: number | undefined;
  try {
    const answers = await run();
    computeMs = (answers[0]?.computeUs ?? 0) / 1000;
    return answers;
  } finally {
    end(computeMs);
  }
}

/** Rows of the partitions that a scan reads. */
function rowsOf(held: HeldVersion | undefined, query: BatchedQuery["query"]): number {
  const table = held === undefined ? undefined : openedOf(held)?.tables[query.table];
  if (table === undefined) return 0;
  return query.partitions.reduce((sum, partition) => {
    const { firstRow, endRow } = rowRangeOf(partition, table);
    return sum + endRow - firstRow;
  }, 0);
}
