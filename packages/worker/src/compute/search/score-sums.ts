// What a softmax over all items needs of a worker's rows: the sum of the powers of their scores
// (core/program/search/softmax-sums.ts), for each query. A scan leaves out rows that cannot win, so the rows are taken off
// the device, piece by piece, and scored here. Of rows that a filter leaves out for all queries, nothing is taken.

import { canonicalScore, widenQueries } from "@winnow/accelerator";
import {
  PowerSum,
  WinnowError,
  functionsInSums,
  nextLoopTurn,
  parseFilterText,
  scoreValues,
  sumsText,
} from "@winnow/core";

import { rowsInSteps } from "../filters/filter-cache.ts";
import type { ResidentPartition } from "../resident-table.ts";
import type { VectorSource } from "./winner-vectors.ts";

/** Rows × dim × queries that are computed before other work may run: some milliseconds. */
const PIECE_VALUES = 2 ** 19;

/** The rows that are summed, and for which queries. */
interface SumsParts extends VectorSource {
  /** Called between two pieces of the work. */
  readonly onStep: () => void;
  readonly signal: AbortSignal;
}

/** What is asked of some queries. */
export interface SumsAsk {
  /** float32 `[queries, dim]`. */
  readonly vectors: Float32Array;
  /** The name under which sums are asked (core/program/search/sums-attribute.ts). */
  readonly name: string;
  /** Texts of filters: none, one for all queries, or one per query. */
  readonly filters?: readonly string[] | undefined;
}

/**
 * The sums of some queries over the rows of some partitions that their filters admit, each as a JSON object.
 * @throws WinnowError FAILED_PRECONDITION where a partition is given up meanwhile; the signal's reason once nobody
 * waits any more
 */
export async function sumsOfQueries(
  { vectors, name, filters = [] }: SumsAsk,
  partitions: readonly ResidentPartition[],
  { accelerator, table, onStep, signal }: SumsParts,
): Promise<readonly Uint8Array[]> {
  const { dim, name: tableName } = table.spec;
  const queries = widenQueries(vectors, dim);
  const functions = functionsInSums(name, queries.length);
  const valueOf = scoreValues(functions ?? []);
  const sums = queries.map((query, at) => {
    return { query, text: filters[filters.length > 1 ? at : 0], value: valueOf(at), ...noSum() };
  });
  const rowsMax = Math.max(1, Math.floor(PIECE_VALUES / (dim * queries.length)));
  for (const held of partitions) {
    const admitted = await admittedIn(held, new Set(filters), { onStep, signal });
    const rows = filters.length === 0 ? allRows(held.resident.rows) : rowsOfAny(admitted, held);
    const counted = sums.map((sum) => ({ sum, bits: admitted.get(sum.text ?? "") }));
    for (let first = 0; first < rows.length; first += rowsMax) {
      signal.throwIfAborted();
      if (!table.holds(held)) {
        const message = `Partition ${held.partition} of table "${tableName}" is not held here any more`;
        throw new WinnowError("FAILED_PRECONDITION", message);
      }
      const piece = rows.slice(first, first + rowsMax);
      const values = await accelerator.gather(held.resident, piece);
      for (const { sum, bits } of counted) addPiece(sum, { piece, bits, values, dim });
      onStep();
      await nextLoopTurn();
    }
  }
  return sums.map(({ powers, best }) => {
    return Buffer.from(sumsText(powers.toText(), functions && best));
  });
}

/** The rows of a partition that each of some filters admits, as bitmaps; other work has its turn in between. */
async function admittedIn(
  held: ResidentPartition,
  filters: ReadonlySet<string>,
  { onStep, signal }: Pick<SumsParts, "onStep" | "signal">,
): Promise<ReadonlyMap<string, Uint8Array>> {
  const admitted = new Map<string, Uint8Array>();
  for (const text of filters) {
    const bits = await rowsInSteps(parseFilterText(text), held, () => {
      onStep();
      signal.throwIfAborted();
      return true;
    });
    admitted.set(text, bits!);
    onStep();
    await nextLoopTurn();
    signal.throwIfAborted();
  }
  return admitted;
}

interface QuerySum {
  readonly query: Float64Array;
  readonly value: (score: number) => number;
  readonly powers: PowerSum;
  best: number;
}

function noSum(): Pick<QuerySum, "powers" | "best"> {
  return { powers: new PowerSum(), best: -Infinity };
}

function addPiece(
  sum: QuerySum,
  {
    piece,
    bits,
    values,
    dim,
  }: {
    readonly piece: Uint32Array;
    /** Which rows count; absent: all do. */
    readonly bits: Uint8Array | undefined;
    readonly values: Float32Array;
    readonly dim: number;
  },
): void {
  for (let at = 0; at < piece.length; at += 1) {
    const row = piece[at]!;
    if (bits !== undefined && ((bits[row >> 3]! >> (row & 7)) & 1) === 0) continue;
    const value = sum.value(canonicalScore(sum.query, values, at * dim));
    if (value > sum.best) sum.best = value;
    sum.powers.add(value);
  }
}

function allRows(count: number): Uint32Array {
  return Uint32Array.from({ length: count }, (_, row) => row);
}

/** Rows of a partition that one of some bitmaps admits. */
function rowsOfAny(
  admitted: ReadonlyMap<string, Uint8Array>,
  { resident: { rows } }: ResidentPartition,
): Uint32Array {
  const any = new Uint8Array(Math.ceil(rows / 8));
  for (const bits of admitted.values()) for (const [at, byte] of bits.entries()) any[at]! |= byte;
  return allRows(rows).filter((row) => ((any[row >> 3]! >> (row & 7)) & 1) === 1);
}
