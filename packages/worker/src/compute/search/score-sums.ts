// For a softmax over all items: the sum of the exponentials of the scores of a worker's rows, for each query
// (core/program/search/softmax-sums.ts). A scan leaves out rows that cannot win, so the rows are gathered
// from the device piece by piece, and scored here.

import { canonicalScore, widenQueries } from "@winnow/accelerator";
import { PowerSum, SUMS_ATTRIBUTE, WinnowError, nextLoopTurn } from "@winnow/core";

import type { ResidentPartition } from "../resident-table.ts";
import type { VectorSource } from "./winner-attributes.ts";

/** Rows × dim × queries that are computed before other work may run: some milliseconds. */
const PIECE_VALUES = 2 ** 19;

/** The rows that are summed, and for which queries. */
interface SumsParts extends VectorSource {
  /** Called between two pieces of the work. */
  readonly onStep: () => void;
  readonly signal: AbortSignal;
}

/**
 * The sums of some queries `[queries, dim]` over all rows of some partitions, each as a JSON object.
 * @throws WinnowError FAILED_PRECONDITION if a partition is released in the meantime; the signal's reason
 * once nobody waits any more
 */
export async function sumsOfQueries(
  vectors: Float32Array,
  partitions: readonly ResidentPartition[],
  { accelerator, table, onStep, signal }: SumsParts,
): Promise<readonly Uint8Array[]> {
  const { dim, name } = table.spec;
  const queries = widenQueries(vectors, dim);
  const sums = queries.map(() => new PowerSum());
  const rowsMax = Math.max(1, Math.floor(PIECE_VALUES / (dim * queries.length)));
  for (const held of partitions) {
    const { rows } = held.resident;
    for (let first = 0; first < rows; first += rowsMax) {
      signal.throwIfAborted();
      if (!table.holds(held)) {
        const message = `Partition ${held.partition} of table "${name}" is not held here any more`;
        throw new WinnowError("FAILED_PRECONDITION", message);
      }
      const count = Math.min(rowsMax, rows - first);
      const piece = Uint32Array.from({ length: count }, (_, at) => first + at);
      const values = await accelerator.gather(held.resident, piece);
      for (const [at, query] of queries.entries()) {
        const sum = sums[at]!;
        for (let row = 0; row < count; row += 1) sum.add(canonicalScore(query, values, row * dim));
      }
      onStep();
      await nextLoopTurn();
    }
  }
  return sums.map((sum) => Buffer.from(`{"${SUMS_ATTRIBUTE}":${sum.toText()}}`));
}
