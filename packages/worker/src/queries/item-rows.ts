// Rows of another table for the items that a search has found: a pipeline ranks them next, and would look them up with
// a question of its own. This worker asks itself that question in the router's place, on the lane of all look-ups, and
// sends the rows with the items. Where the question is refused, or would be large, items go without rows, and the
// router asks as it always does.
//
//   items ─▶ rows of another table ─▶ vectors of the items
//
// Each goes in a reply of its own where the router allows it: a ranking begins with the rows, and vectors are compared
// after it.

import type { WorkerAnswer, WorkerQuery } from "@winnow/cluster";
import { tensor, toWinnowError, vectorsOfCells } from "@winnow/core";
import type { StringColumn, Tensor } from "@winnow/core";

import { openedOf } from "../replicas/replica-set.ts";
import type { HeldVersion } from "../replicas/replica-set.ts";

/** Rows that one answer has in addition, at most, and their bytes: admission does not count them. */
const ROWS_MAX = 1024;
const ROW_BYTES_MAX = 2 ** 19;
const FLOAT_BYTES = 4;

/** What a search has found. */
export type FoundItems = Extract<WorkerAnswer, { kind: "topK" }>;

/**
 * The look-up of the items that a search has found, in all partitions of the table that it names; `undefined` if it
 * names none, or for too many rows. `held`: the content with that table.
 */
export function itemRowsQuestion(
  { id, ask, trace }: WorkerQuery,
  answer: WorkerAnswer,
  { held, remainingMs }: { readonly held: HeldVersion | undefined; readonly remainingMs: number },
): WorkerQuery | undefined {
  if (ask.kind !== "topK" || answer.kind !== "topK") return undefined;
  const { itemRows } = ask;
  const count = answer.ids?.data.length ?? 0;
  if (itemRows === undefined || held === undefined || count === 0) return undefined;
  const { version, table: number } = itemRows;
  const table = openedOf(held)?.tables[number];
  if (table === undefined || count > Math.min(ROWS_MAX, ROW_BYTES_MAX / FLOAT_BYTES / table.dim))
    return undefined;
  const partitions = Uint16Array.from({ length: table.partitions }, (_, at) => at);
  const keys = keysOf(answer.ids!);
  return {
    id,
    remainingMs,
    version,
    table: number,
    partitions,
    ask: { kind: "lookup", keys },
    trace,
  };
}

/** What a search has found, with the rows that its look-up has given, if it has. */
export function withItemRows(found: FoundItems, rows: WorkerAnswer): FoundItems {
  return rows.kind === "lookup" ? { ...found, itemRows: rows.vectors } : found;
}

/** The cells whose vectors may follow the rows of the items; `undefined` if other attributes are wanted, or none. */
export function laterVectorCells(
  { ask }: WorkerQuery,
  { attributes, vectorBytes }: FoundItems,
): StringColumn | undefined {
  if (ask.kind !== "topK" || !ask.vectorsLater || !vectorBytes) return undefined;
  return ask.attributes?.length === 1 ? attributes : undefined;
}

/** The items whose rows come later; without attributes where `vectors`, their cells, come behind the rows. */
export function itemsAhead(found: FoundItems, vectors: StringColumn | undefined): FoundItems {
  if (vectors === undefined) return { ...found, itemRowsLater: true };
  const { block, ids } = found;
  return { kind: "topK", block, ids, itemRowsLater: true, vectorsLater: true };
}

/** The vectors in cells, as a look-up would give them. */
export function vectorsAnswer(cells: StringColumn): WorkerAnswer {
  try {
    return { kind: "lookup", vectors: vectorsOfCells(cells) };
  } catch (cause) {
    return { kind: "failure", reason: "INTERNAL", error: toWinnowError(cause) };
  }
}

/** Ids in the types of keys. */
function keysOf(ids: Tensor): Tensor {
  if (ids.dtype !== "int32") return ids;
  return tensor("int64", ids.shape, BigInt64Array.from(ids.data, BigInt));
}
