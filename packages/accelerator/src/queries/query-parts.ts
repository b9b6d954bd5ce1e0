// Searches some queries of a batch separately, and puts their answers back at their positions.

import type { TopKBlock } from "@winnow/core";
import type { AdmittedTopKQuery } from "./row-admission.ts";

/** The queries at these positions. */
export function partOfQueries(
  query: AdmittedTopKQuery,
  indices: readonly number[],
): AdmittedTopKQuery {
  const { dim, vectors, excludedRows, admissions } = query;
  const some = new Float32Array(indices.length * dim);
  for (const [at, index] of indices.entries()) {
    some.set(vectors.subarray(index * dim, (index + 1) * dim), at * dim);
  }
  return {
    ...query,
    queries: indices.length,
    vectors: some,
    excludedRows: excludedRows && indices.map((index) => excludedRows[index]),
    admissions: indices.map((index) => admissions[index]),
  };
}

/** Writes the answers of such a part into the block of the whole batch. */
export function placeAnswers(
  whole: TopKBlock,
  { k, counts, rows, scores }: TopKBlock,
  indices: readonly number[],
): void {
  for (const [at, index] of indices.entries()) {
    const [from, count] = [at * k, counts[at]!];
    whole.counts[index] = count;
    whole.rows.set(rows.subarray(from, from + count), index * whole.k);
    whole.scores.set(scores.subarray(from, from + count), index * whole.k);
  }
}

/** Positions of queries, grouped by the key of each, in the order of the first of each group. */
export function groupQueries<Key>(
  queries: number,
  keyOf: (index: number) => Key,
): [Key, number[]][] {
  const groups = new Map<Key, number[]>();
  for (let index = 0; index < queries; index += 1) {
    const key = keyOf(index);
    const known = groups.get(key);
    if (known === undefined) groups.set(key, [index]);
    else known.push(index);
  }
  return [...groups];
}
