// The vectors of the winners of a scan, gathered partition by partition and put in the order of the winners.

import type { Accelerator, Resident } from "@winnow/accelerator";
import { VECTOR_ATTRIBUTE, WinnowError, vectorDimOf } from "@winnow/core";

import type { ScanAsk } from "../compute.ts";
import type { ResidentPartition, ResidentTable } from "../resident-table.ts";
import { placesOf } from "./winner-ids.ts";

/** Where the vectors of winners are gathered from. */
export interface VectorSource {
  readonly accelerator: Pick<Accelerator, "gather">;
  readonly table: Pick<ResidentTable, "holds" | "spec">;
  /** Whether to leave out what was added to the rows for the search. */
  readonly ownVectors?: boolean | undefined;
}

/** Values of each row, and how many of them, from the first one on, are wanted. */
interface VectorLength {
  readonly dim: number;
  readonly length: number;
}

/** Whether an ask wants the vectors of its items, as bytes, and nothing else about them. */
export function wantsVectorsAlone({ attributes = [], vectorBytes }: ScanAsk): boolean {
  return vectorBytes === true && attributes.length === 1 && attributes[0] === VECTOR_ATTRIBUTE;
}

/**
 * The vectors of global rows, `[rows, values]`.
 * @throws WinnowError FAILED_PRECONDITION if a partition is released in the meantime
 */
export async function vectorsOfRows(
  rows: Uint32Array,
  partitions: readonly ResidentPartition[],
  { accelerator, table, ownVectors = false }: VectorSource,
): Promise<Float32Array> {
  const { spec } = table;
  const { dim, name } = spec;
  const length = ownVectors ? vectorDimOf(spec) : dim;
  const vectors = new Float32Array(rows.length * length);
  for (const { from: held, ranks, localRows } of rowsBySource(rows, partitions)) {
    if (!table.holds(held)) {
      const message = `Partition ${held.partition} of table "${name}" is not held here any more`;
      throw new WinnowError("FAILED_PRECONDITION", message);
    }
    const gathered = await accelerator.gather(held.resident, localRows);
    putRows(gathered, ranks, { to: vectors, dim, length });
  }
  return vectors;
}

/** The same where rows are gathered at once: `gather` gives some of one source, `[rows, dim]`. */
export function vectorsAtOnce<Source extends RowSource>(
  rows: Uint32Array,
  sources: readonly Source[],
  {
    gather,
    ...lengths
  }: VectorLength & { readonly gather: (from: Source, localRows: Uint32Array) => Float32Array },
): Float32Array {
  const vectors = new Float32Array(rows.length * lengths.length);
  for (const { from, ranks, localRows } of rowsBySource(rows, sources)) {
    putRows(gather(from, localRows), ranks, { to: vectors, ...lengths });
  }
  return vectors;
}

interface RowSource {
  readonly resident: Pick<Resident, "firstRow">;
}

/** Some of the wanted rows, all of one source. */
interface SourceRows<Source> {
  readonly from: Source;
  /** Their places among all that are wanted. */
  readonly ranks: readonly number[];
  readonly localRows: Uint32Array;
}

/** Global rows by the sources that have them; of sources in any order, those that have any. */
function rowsBySource<Source extends RowSource>(
  rows: Uint32Array,
  sources: readonly Source[],
): SourceRows<Source>[] {
  const ascending = sources.toSorted((a, b) => a.resident.firstRow - b.resident.firstRow);
  const { partitions: placed, localRows } = placesOf(rows, ascending);
  const ranksAt = ascending.map((): number[] => []);
  for (let rank = 0; rank < rows.length; rank += 1) ranksAt[placed[rank]!]!.push(rank);
  return ranksAt.flatMap((ranks, at) => {
    if (ranks.length === 0) return [];
    const local = new Uint32Array(ranks.length);
    for (let index = 0; index < ranks.length; index += 1) local[index] = localRows[ranks[index]!]!;
    return [{ from: ascending[at]!, ranks, localRows: local }];
  });
}

/** Vectors up to this length are copied value by value: that takes less than a view of them. */
const SHORT_VALUES = 128;

function putRows(
  gathered: Float32Array,
  ranks: readonly number[],
  { to, dim, length }: VectorLength & { readonly to: Float32Array },
): void {
  for (let index = 0; index < ranks.length; index += 1) {
    const from = index * dim;
    const at = ranks[index]! * length;
    if (length > SHORT_VALUES) to.set(gathered.subarray(from, from + length), at);
    else for (let value = 0; value < length; value += 1) to[at + value] = gathered[from + value]!;
  }
}
