// Searches whose queries have several vectors each, as of a user with several interests: the score of a row is the
// best that any of the vectors gives it. Each vector is searched by itself, and the lists are put together:
//
//   vector 0    9 row 4   5 row 1   5 row 3 ─┐
//   vector 1    7 row 8   5 row 1   4 row 4 ─┴─▶  9 row 4   7 row 8   5 row 1        k = 3
//
// This is exact, and so are its ties. Let row r be among the best k by (best score desc, row asc), and let vector v
// give r its best score. Were r not in the list of v, k other rows would be: each has by v a higher score than
// r, or the same and a lower number. By its best score, which is not below that by v, each would still come before
// r, and r would not be among the best k. So r is in the list of v with its best score. A row that belongs to none
// of the best k has in the lists no more than its best score, and does not come before any of them.

import type { Filter } from "../../attributes/filter.ts";
import { compareCandidates } from "../../top-k.ts";
import { answerOf, itemsOf } from "./item-lists.ts";
import type { ListedItem } from "./item-lists.ts";
import type { TopKAnswer, TopKQuestion } from "../step-contract.ts";

/** Finds the best rows of each query, where each query has one vector. */
export type Search = (question: TopKQuestion) => Promise<TopKAnswer>;

/** The best `k` rows of each query. A query has `vectors` vectors, one after the other in a row of `query`. */
export async function manyVectorSearch(
  { query, k, admits, chosen }: TopKQuestion,
  vectors: number,
  search: Search,
): Promise<TopKAnswer> {
  const queries = query.shape[0]!;
  const shape = [queries * vectors, query.shape[1]! / vectors];
  const ofEach = <Value>(value: (at: number) => Value): Value[] =>
    Array.from({ length: queries * vectors }, (_, at) => value(Math.floor(at / vectors)));
  const filters: readonly Filter[] | undefined =
    admits === undefined || admits.length === 1 ? admits : ofEach((at) => admits[at]!);
  const found = await search({
    query: { ...query, shape },
    k,
    chosen: ofEach((at) => chosen?.[at] ?? at),
    ...(filters && { admits: filters }),
  });
  const lists = Array.from({ length: queries }, (_, at) => {
    const each = Array.from({ length: vectors }, (_each, vector) =>
      itemsOf(found, at * vectors + vector),
    );
    return bestOf(each.flat(), k);
  });
  return answerOf(lists, k, found);
}

/** The best `k` items, with each row once. */
function bestOf(items: readonly ListedItem[], k: number): readonly ListedItem[] {
  const rows = new Set<number>();
  const best: ListedItem[] = [];
  for (const item of items.toSorted(compareCandidates)) {
    if (best.length === k) break;
    if (rows.has(item.row)) continue;
    rows.add(item.row);
    best.push(item);
  }
  return best;
}
