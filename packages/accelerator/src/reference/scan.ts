// The obvious exact scan, arranged so that plain JavaScript runs it reasonably fast: rows come in
// blocks that stay in the first-level cache while every query passes over them, and for most scores
// one comparison, with the worst kept candidate, is all that is done.

import { nextLoopTurn } from "@winnow/core";
import type { TopKBlock } from "@winnow/core";
import { canonicalScore, widenQueries } from "../canonical-score.ts";
import type { WideQuery } from "../canonical-score.ts";
import { groupQueries } from "../queries/query-parts.ts";
import { holdsRow } from "../queries/row-admission.ts";
import type { AdmittedTopKQuery, RowSet } from "../queries/row-admission.ts";
import type { CheckedTopKQuery } from "../queries/top-k-request.ts";
import { CandidateHeap } from "./candidate-heap.ts";

/** Rows of one resident as the scan reads them. */
export interface ScannedRows {
  /** float32 `[rows, dim]`. */
  readonly values: Float32Array;
  readonly rows: number;
  readonly firstRow: number;
}

/** Values of one block: 16 KiB, half of a small first-level cache. */
const BLOCK_VALUES = 4096;
/** Multiplications between two checks of the abort signal: some ten milliseconds. */
const WORK_BETWEEN_TURNS = 2 ** 24;

interface QueryState {
  readonly vector: WideQuery;
  readonly heap: CandidateHeap;
  readonly excluded: Uint32Array | undefined;
}

/** Exact top-k of a checked query. Yields to the event loop; rejects with the signal's reason. */
export async function scanTopK(
  query: AdmittedTopKQuery,
  parts: readonly ScannedRows[],
  signal?: AbortSignal,
): Promise<TopKBlock> {
  const states = widenQueries(query.vectors, query.dim).map((vector, position) => ({
    vector,
    heap: new CandidateHeap(query.room),
    excluded: query.excludedRows?.[position],
  }));
  const groups = groupQueries(states.length, (position) => query.admissions[position]);
  const blockRows = Math.max(1, Math.floor(BLOCK_VALUES / query.dim));
  const order = new Uint32Array(blockRows);
  let work = 0;
  for (const part of parts) {
    for (let start = 0; start < part.rows; start += blockRows) {
      const end = Math.min(start + blockRows, part.rows);
      for (const [admission, positions] of groups) {
        const admitted = admittedOf(part, { start, end, admission, order });
        for (const position of positions) scanBlock(part, admitted, states[position]!);
        work += blockRows + admitted.length * positions.length * query.dim;
      }
      if (work < WORK_BETWEEN_TURNS) continue;
      work = 0;
      await nextLoopTurn();
      signal?.throwIfAborted();
    }
  }
  return collect(query, states);
}

interface BlockRange {
  readonly start: number;
  readonly end: number;
  readonly admission: RowSet | undefined;
  /** Memory for the result, one word per row of the block. */
  readonly order: Uint32Array;
}

/** Local rows of the block that may be returned, ascending. */
function admittedOf(part: ScannedRows, { start, end, admission, order }: BlockRange): Uint32Array {
  let count = 0;
  for (let local = start; local < end; local += 1) {
    if (admission !== undefined && !admission.has(part.firstRow + local)) continue;
    order[count] = local;
    count += 1;
  }
  return order.subarray(0, count);
}

function scanBlock(part: ScannedRows, locals: Uint32Array, state: QueryState): void {
  const { vector, heap, excluded } = state;
  const dim = vector.length;
  let { threshold } = heap;
  for (let index = 0; index < locals.length; index += 1) {
    const local = locals[index]!;
    const score = canonicalScore(vector, part.values, local * dim);
    if (score < threshold) continue;
    const row = part.firstRow + local;
    if (excluded !== undefined && holdsRow(excluded, row)) continue;
    heap.offer(score, row);
    ({ threshold } = heap);
  }
}

function collect({ queries, room }: CheckedTopKQuery, states: readonly QueryState[]): TopKBlock {
  const block: TopKBlock = {
    queries,
    k: room,
    counts: new Uint32Array(queries),
    scores: new Float32Array(queries * room),
    rows: new Uint32Array(queries * room),
  };
  for (const [position, { heap }] of states.entries()) {
    const from = position * room;
    block.counts[position] = heap.drainInto({
      scores: block.scores.subarray(from, from + room),
      rows: block.rows.subarray(from, from + room),
    });
  }
  return block;
}
