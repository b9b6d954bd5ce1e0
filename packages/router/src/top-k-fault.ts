// What a worker's answer to a search must look like (S10): never less than was asked. Anything else is
// the worker's fault, and another replica is asked.

import type { CandidateTable, Tensor } from "@winnow/core";
import { rowRangeOf } from "@winnow/core";
import type { TopKAsk, WorkerAnswer } from "@winnow/cluster";

/** Which rows the question was about. */
export interface SearchedRows {
  readonly table: CandidateTable;
  readonly partitions: readonly number[];
}

/** Why an answer is none to this question; `undefined` if it is one. */
export function topKFault(
  answer: WorkerAnswer,
  ask: TopKAsk,
  { table, partitions }: SearchedRows,
): string | undefined {
  if (answer.kind !== "topK") return `a search was answered with ${answer.kind}`;
  const { block, ids } = answer;
  if (block.queries !== ask.queries) return `${block.queries} queries instead of ${ask.queries}`;
  const { counts } = block;
  const most = Math.min(ask.k, block.k);
  // An excluded id may belong to several rows, so only a question without exclusions has a least.
  const least = ask.excluded.length === 0 ? Math.min(ask.k, rowsOf(table, partitions)) : 0;
  const wrong = counts.find((count) => count < least || count > most);
  if (wrong !== undefined) return `${wrong} candidates instead of ${least} to ${most}`;
  return ask.rowsOnly ? undefined : idsFault(ids, { table, counts });
}

function idsFault(
  ids: Tensor | undefined,
  { table, counts }: { readonly table: CandidateTable; readonly counts: Uint32Array },
): string | undefined {
  const candidates = counts.reduce((sum, count) => sum + count, 0);
  if (ids?.dtype === table.idDtype && ids?.data.length === candidates) return undefined;
  return `${ids?.data.length ?? 0} ${ids?.dtype ?? ""} ids for ${candidates} candidates`;
}

function rowsOf(table: CandidateTable, partitions: readonly number[]): number {
  return partitions.reduce((sum, partition) => {
    const { firstRow, endRow } = rowRangeOf(partition, table);
    return sum + endRow - firstRow;
  }, 0);
}
