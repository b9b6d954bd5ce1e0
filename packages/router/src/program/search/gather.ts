// Joins the partial answers of workers into the answer to the whole question: merges by (score descending,
// row ascending), and copies the ids of the winners alone.

import type { CandidateTable, MergedTopK, SoftmaxSums, Tensor, TopKAnswer } from "@winnow/core";
import { mergeTopK, PowerSum, readSums, StringColumn, tensor } from "@winnow/core";
import type { WorkerAnswer } from "@winnow/cluster";
import type { PartialAnswer } from "../../scatter/slot.ts";
import { joinedColumns, turnMeter } from "../../turns/turns.ts";
import type { Steps } from "../../turns/turns.ts";

type TopKReply = Extract<WorkerAnswer, { kind: "topK" }>;

/** The merged candidates of some queries, and where their ids are. */
export interface GatheredTopK {
  readonly merged: MergedTopK;
  readonly replies: readonly TopKReply[];
}

/** Merges the partial answers of one scatter, which are disjoint. */
export function gatherTopK(partials: readonly PartialAnswer[], k: number): GatheredTopK {
  const replies = partials.map(({ answer }) => {
    if (answer.kind !== "topK") throw new RangeError("an answer to a search without candidates");
    return answer;
  });
  const merged = mergeTopK(
    replies.map((reply) => reply.block),
    k,
  );
  return { merged, replies };
}

/** The columns of the joined answer, and the number of its candidates. */
export interface TopKAnswerShape {
  readonly table: CandidateTable;
  readonly k: number;
  readonly wantsRows: boolean;
  readonly wantsIds: boolean;
  readonly wantsAttributes: boolean;
}

/** The answer to a search, with the attributes of its items if they are wanted. */
export interface DescribedTopK extends TopKAnswer {
  /** string `[queries, columns]`: JSON objects. */
  readonly attributes: Tensor | undefined;
}

/** Costs in units of `turnMeter`: of copying the id of one winner, and of copying one query's scores beside their number. */
const WORK_OF_WINNER = 16;
const COPY_WORK = 64;

/**
 * Joins the slices of one question, query after query, and yields at the end of each turn of the event loop.
 * Each query has its own number of items: fewer than `k` only if its exclusions, its filter or lost partitions
 * leave fewer.
 */
export function* joinTopK(
  slices: readonly GatheredTopK[],
  shape: TopKAnswerShape,
): Steps<DescribedTopK> {
  const counts = countsOf(slices);
  const queries = counts.length;
  let width = 0;
  let least = shape.k;
  for (const count of counts) {
    width = Math.max(width, count);
    least = Math.min(least, count);
  }
  // Without queries there are no lists, hence no short one.
  if (queries === 0) width = shape.k;
  const scores = new Float32Array(queries * width);
  const rows = new Int32Array(shape.wantsRows ? queries * width : 0);
  const isTurnOver = turnMeter();
  let at = 0;
  for (const { merged } of slices) {
    for (let query = 0; query < merged.queries; query += 1) {
      const from = query * merged.k;
      const to = from + merged.counts[query]!;
      scores.set(merged.scores.subarray(from, to), at);
      if (shape.wantsRows) rows.set(merged.rows.subarray(from, to), at);
      at += width;
      if (isTurnOver(COPY_WORK + width)) yield;
    }
  }
  const dimensions = [queries, width];
  const ids = shape.wantsIds ? yield* gatherIds(slices, dimensions, shape.table) : undefined;
  const attributes = shape.wantsAttributes
    ? yield* gatherAttributes(slices, dimensions, counts)
    : undefined;
  return {
    scores: tensor("float32", dimensions, scores),
    rows: shape.wantsRows ? tensor("int32", dimensions, rows) : undefined,
    ids,
    counts: least < shape.k ? counts : undefined,
    attributes,
  };
}

/** Items of a reply, or of several that are merged. */
export function itemsOf({ block }: { readonly block: Pick<TopKReply["block"], "counts"> }): number {
  return block.counts.reduce((sum, count) => sum + count, 0);
}

/** Rows `[winners, dim]` of another table, in the order of the winners; `brought` are those of each reply's items. */
export function joinItemRows(
  { merged, replies }: GatheredTopK,
  brought: readonly Float32Array[],
  dim: number,
): Float32Array {
  // The winners of a single reply are all of its own, in its order.
  if (brought.length === 1) return brought[0]!;
  const rows = new Float32Array(itemsOf({ block: merged }) * dim);
  const starts = replies.map(({ block }) => filledBefore(block));
  let to = 0;
  for (let query = 0; query < merged.queries; query += 1) {
    for (let rank = 0; rank < merged.counts[query]!; rank += 1) {
      const at = query * merged.k + rank;
      const reply = merged.blocks[at]!;
      const inQuery = merged.positions[at]! - query * replies[reply]!.block.k;
      const from = (starts[reply]![query]! + inQuery) * dim;
      rows.set(brought[reply]!.subarray(from, from + dim), to);
      to += dim;
    }
  }
  return rows;
}

/** Rows of winners, `[winners, dim]`, at their places among ids: `[queries, width, dim]`, zeros where ids have gaps. */
export function spreadRows(
  rows: Float32Array,
  { merged, width, dim }: { merged: Pick<MergedTopK, "counts">; width: number; dim: number },
): Float32Array {
  const { counts } = merged;
  if (rows.length === counts.length * width * dim) return rows;
  const spread = new Float32Array(counts.length * width * dim);
  let from = 0;
  for (const [query, count] of counts.entries()) {
    const end = from + count * dim;
    spread.set(rows.subarray(from, end), query * width * dim);
    from = end;
  }
  return spread;
}

/** The best value and the sum of each query, joined from the sums that workers computed over their own rows. */
export function joinSums(slices: readonly GatheredTopK[], queries: number): SoftmaxSums {
  const best = new Float32Array(queries).fill(-Infinity);
  const sum = new Float64Array(queries);
  let at = 0;
  for (const { merged, replies } of slices) {
    for (let query = 0; query < merged.queries; query += 1, at += 1) {
      if (merged.counts[query] === 0) continue;
      const powers = new PowerSum();
      for (const text of sumTextsOf(replies, query)) {
        const told = readSums(text);
        powers.addText(told.sum);
        // Scores that no function changes are best where the best item is.
        best[at] = Math.max(best[at]!, told.best ?? merged.scores[query * merged.k]!);
      }
      sum[at] = powers.relativeTo(best[at]!);
    }
  }
  return { best, sum };
}

/** The item that each reply has for a query; a reply has one item for each query. */
function* sumTextsOf(replies: readonly TopKReply[], query: number): Generator<string> {
  for (const { block, attributes } of replies) {
    if (block.counts[query] === 0) continue;
    yield attributes?.textAt(filledBefore(block)[query]!) ?? "";
  }
}

/**
 * The replies, if each slice has a single one, with as many items for each query as the answer: their columns, one behind
 * the other, are those of the answer.
 */
function wholeReplies(
  slices: readonly GatheredTopK[],
  width: number,
): readonly TopKReply[] | undefined {
  const isWhole = (count: number): boolean => count === width;
  const whole: TopKReply[] = [];
  for (const { merged, replies } of slices) {
    const [reply, other] = replies;
    if (reply === undefined || other !== undefined) return undefined;
    if (!reply.block.counts.every(isWhole) || !merged.counts.every(isWhole)) return undefined;
    whole.push(reply);
  }
  return whole;
}

/** One column behind the other: the only one itself, without a copy; `undefined` if there is none, or one is missing. */
function* inOrder(columns: readonly (StringColumn | undefined)[]): Steps<StringColumn | undefined> {
  const there = columns.filter((column) => column !== undefined);
  if (there.length === 0 || there.length < columns.length) return undefined;
  if (there.length === 1) return there[0];
  return yield* joinedColumns(there);
}

/** Items found for each query. */
function countsOf(slices: readonly GatheredTopK[]): Uint32Array {
  const queries = slices.reduce((sum, { merged }) => sum + merged.queries, 0);
  const counts = new Uint32Array(queries);
  let at = 0;
  for (const { merged } of slices) {
    counts.set(merged.counts, at);
    at += merged.queries;
  }
  return counts;
}

/** The attributes as an output: ragged if queries have different numbers of items. */
function* gatherAttributes(
  slices: readonly GatheredTopK[],
  shape: readonly number[],
  counts: Uint32Array,
): Steps<Tensor> {
  const texts =
    (yield* inOrder(wholeReplies(slices, shape[1]!)?.map(({ attributes }) => attributes) ?? [])) ??
    (yield* gatherStrings(slices, shape, ({ attributes }) => attributes));
  const found = tensor("string", shape, texts);
  return counts.every((count) => count === shape[1]) ? found : { ...found, rowLengths: counts };
}

/** The ids of the winners, or their row numbers if the table stores no ids. */
function* gatherIds(
  slices: readonly GatheredTopK[],
  shape: readonly number[],
  table: CandidateTable,
): Steps<Tensor> {
  const count = shape[0]! * shape[1]!;
  const whole = wholeReplies(slices, shape[1]!);
  const only = whole?.length === 1 ? whole[0]!.ids : undefined;
  if (only !== undefined && only.dtype === table.idDtype) return { ...only, shape };
  switch (table.idDtype) {
    case "string": {
      const joined = yield* inOrder(whole?.map(textsOf) ?? []);
      return tensor("string", shape, joined ?? (yield* gatherStrings(slices, shape, textsOf)));
    }
    case "int64": {
      const found = new BigInt64Array(count);
      yield* eachWinner(slices, shape[1]!, ({ ids, position, at }) => {
        if (ids?.dtype === "int64") found[at] = ids.data[position]!;
      });
      return tensor("int64", shape, found);
    }
    case "int32": {
      const found = new Int32Array(count);
      yield* eachWinner(slices, shape[1]!, ({ ids, position, at }) => {
        if (ids?.dtype === "int32") found[at] = ids.data[position]!;
      });
      return tensor("int32", shape, found);
    }
    case undefined: {
      const found = new Int32Array(count);
      yield* eachWinner(slices, shape[1]!, ({ row, at }) => {
        found[at] = row;
      });
      return tensor("int32", shape, found);
    }
  }
}

/** Strings up to this length are copied byte by byte: that takes less than a view of them. */
const SHORT_BYTES = 64;

/** Two passes over the winners, first lengths and then bytes, without an object per id. */
function* gatherStrings(
  slices: readonly GatheredTopK[],
  shape: readonly number[],
  columnOf: (winner: Winner) => StringColumn | undefined,
): Steps<StringColumn> {
  const offsets = new Uint32Array(shape[0]! * shape[1]! + 1);
  yield* eachWinner(slices, shape[1]!, (winner) => {
    const column = columnOf(winner);
    offsets[winner.at + 1] = column === undefined ? 0 : lengthAt(column, winner.position);
  });
  for (let at = 1; at < offsets.length; at += 1) offsets[at]! += offsets[at - 1]!;
  const bytes = new Uint8Array(offsets.at(-1)!);
  yield* eachWinner(slices, shape[1]!, (winner) => {
    const column = columnOf(winner);
    if (column === undefined) return;
    const { at, position } = winner;
    const [first, to] = [column.offsets[position]!, offsets[at]!];
    const length = offsets[at + 1]! - to;
    if (length > SHORT_BYTES) bytes.set(column.bytes.subarray(first, first + length), to);
    else
      for (let byte = 0; byte < length; byte += 1) bytes[to + byte] = column.bytes[first + byte]!;
  });
  return new StringColumn(offsets, bytes);
}

const textsOf = ({ ids }: Pick<TopKReply, "ids">): StringColumn | undefined =>
  ids?.dtype === "string" ? ids.data : undefined;

const lengthAt = (column: StringColumn, position: number): number =>
  column.offsets[position + 1]! - column.offsets[position]!;

interface Winner {
  /** Position in the answer. */
  at: number;
  row: number;
  /** The ids of the reply that it came in, and its position among them. */
  ids: Tensor | undefined;
  /** The attributes of that reply, at the same position. */
  attributes: StringColumn | undefined;
  position: number;
}

/**
 * Visits the winners in order, skipping unfilled positions, and yields between queries. The visited object is always
 * the same one.
 */
function* eachWinner(
  slices: readonly GatheredTopK[],
  width: number,
  visit: (winner: Winner) => void,
): Steps<void> {
  const isTurnOver = turnMeter();
  const winner: Winner = { at: 0, row: 0, ids: undefined, attributes: undefined, position: 0 };
  let first = 0;
  for (const { merged, replies } of slices) {
    const starts =
      merged.queries === 1 ? undefined : replies.map(({ block }) => filledBefore(block));
    for (let query = 0; query < merged.queries; query += 1, first += width) {
      for (let rank = 0; rank < merged.counts[query]!; rank += 1) {
        winner.at = first + rank;
        const index = query * merged.k + rank;
        const from = merged.blocks[index]!;
        const { block, ids, attributes } = replies[from]!;
        const inQuery = merged.positions[index]! - query * block.k;
        winner.row = merged.rows[index]!;
        winner.ids = ids;
        winner.attributes = attributes;
        winner.position = (starts?.[from]![query] ?? 0) + inQuery;
        visit(winner);
      }
      if (isTurnOver(WORK_OF_WINNER * merged.counts[query]!)) yield;
    }
  }
}

/** Number of filled positions before each query: a reply has ids for filled positions only. */
function filledBefore(block: TopKReply["block"]): Uint32Array {
  const starts = new Uint32Array(block.queries);
  for (let query = 1; query < block.queries; query += 1) {
    starts[query] = starts[query - 1]! + block.counts[query - 1]!;
  }
  return starts;
}
