// Joins lists of items from several searches into one answer: each item of a query is copied from the list in
// which it was found, with its id and attributes.

import { StringColumn } from "../../tensor/string-column.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type { TopKAnswer } from "../step-contract.ts";

/** An item of a list. */
export interface ListedItem {
  /** The score in the joined answer. */
  readonly score: number;
  readonly row: number;
  /** The answer in which the item was found, and its position there. */
  readonly from: TopKAnswer;
  readonly place: number;
}

/** The item with another score. */
export function withScore({ row, from, place }: ListedItem, score: number): ListedItem {
  return { score, row, from, place };
}

/** The items that a search found for one of its queries, in order. */
export function itemsOf(from: TopKAnswer, query: number): readonly ListedItem[] {
  const { scores, rows, counts } = from;
  if (scores === undefined || rows === undefined) {
    throw new RangeError("lists are put together by scores and rows");
  }
  const width = scores.shape[1]!;
  return Array.from({ length: counts?.[query] ?? width }, (_, rank) => {
    const place = query * width + rank;
    const score = (scores.data as Float32Array)[place]!;
    return { score, row: (rows.data as Int32Array)[place]!, from, place };
  });
}

/**
 * The answer made of these lists, one for each query, with at most `k` items each. `sample` is any of the
 * searches' answers: the joined answer has the same outputs.
 */
export function answerOf(
  lists: readonly (readonly ListedItem[])[],
  k: number,
  sample: TopKAnswer,
): TopKAnswer {
  const counts = Uint32Array.from(lists, ({ length }) => length);
  const queries = lists.length;
  const width = counts.reduce((most, count) => Math.max(most, count), queries === 0 ? k : 0);
  const shape = [queries, width];
  const scores = new Float32Array(queries * width);
  const rows = new Int32Array(queries * width);
  const items: (ListedItem | undefined)[] = Array.from({ length: queries * width });
  for (const [query, list] of lists.entries()) {
    for (const [rank, item] of list.entries()) {
      const at = query * width + rank;
      [scores[at], rows[at], items[at]] = [item.score, item.row, item];
    }
  }
  const isRagged = counts.some((count) => count !== width);
  const ids = sample.ids && picked(sample.ids, items, ({ from }) => from.ids);
  const texts =
    sample.attributes && picked(sample.attributes, items, ({ from }) => from.attributes);
  return {
    scores: { dtype: "float32", shape, data: scores },
    rows: { dtype: "int32", shape, data: rows },
    ids: ids && { ...ids, shape },
    ...(counts.some((count) => count < k) && { counts }),
    ...(texts && {
      attributes: { ...texts, shape, ...(isRagged && { rowLengths: counts }) },
    }),
  };
}

/** The values at the positions of the items; zeros or empty strings where a list is short. */
function picked(
  { dtype }: Tensor,
  items: readonly (ListedItem | undefined)[],
  columnOf: (item: ListedItem) => Tensor | undefined,
): Tensor {
  const shape = [items.length];
  if (dtype === "string") {
    const nothing = new Uint8Array();
    const bytes = items.map((item) => {
      const column = item && columnOf(item);
      return column?.dtype === "string" ? column.data.at(item!.place) : nothing;
    });
    return { dtype, shape, data: StringColumn.fromBytes(bytes) };
  }
  if (dtype === "int64") {
    const data = new BigInt64Array(items.length);
    for (const [at, item] of items.entries()) {
      const column = item && columnOf(item);
      if (column?.dtype === "int64") data[at] = column.data[item!.place]!;
    }
    return { dtype, shape, data };
  }
  const data = new Int32Array(items.length);
  for (const [at, item] of items.entries()) {
    const column = item && columnOf(item);
    if (column?.dtype === "int32") data[at] = column.data[item!.place]!;
  }
  return { dtype: "int32", shape, data };
}
