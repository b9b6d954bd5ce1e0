// Searches whose scores go through functions before they are ranked (score-functions.ts). A search finds the
// best rows by the scores before the functions. The functions keep the order, so the best rows by value are
// among the best by score, except where more rows share the value of the last one than the list holds:
// TensorFlow then takes those with the lowest row numbers, whatever their scores.
//
//   sigmoid, k = 2      score 40 row 7   31 row 9   22 row 3 │ 18 row 0   5 row 4
//                       value  1 row 7    1 row 9    1 row 3 │  1 row 0   0.99           rows 0 and 3
//
//   1. the best k and some more: mostly the last value is lower than that of the k-th, and all is known
//   2. the best thousand and more
//   3. the first rows alone, so many that between k and that many of them share the value: by bisection, at most
//      one search for each bit of a row's number

import type { Filter } from "../../attributes/filter.ts";
import { ROW_COLUMN } from "../../attributes/filter.ts";
import { WinnowError } from "../../errors/errors.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import { compareCandidates } from "../../top-k.ts";
import { answerOf, itemsOf, withScore } from "./item-lists.ts";
import type { ListedItem } from "./item-lists.ts";
import type { ScoreValue } from "./score-functions.ts";
import type { TopKAnswer, TopKQuestion } from "../step-contract.ts";

/** How searches are made, and the functions of their scores. */
export interface RankedSearch {
  readonly ask: (question: TopKQuestion) => Promise<TopKAnswer>;
  readonly valueOf: (query: number) => ScoreValue;
  /** Rows of the table. */
  readonly rows: number;
}

/** Items beyond k in the first search, at least. */
const MORE_MIN = 16;
/** And at most; between the two k / 16, as bfloat16 gives neighbours in a long list one value. */
const MORE_MAX = 256;
/** Items of the second search, at least. */
const MANY = 1024;
/** Up to here the second search is twice as long as the list. */
const DOUBLED_MAX = 8192;
/** Items of one search for all its queries, except the first search. */
const ITEMS_MAX = 65_536;

/** The best items of a search, of which some may have equals that are not known yet. */
export interface RankedLists {
  /** The best `k` items of each query by value; those with the value of the last one may be others than the first by row. */
  readonly answer: TopKAnswer;
  /** The same, by row among equal values too, for the queries for which items with the value of the last one are wanted. */
  readonly settled: (isWanted: (query: number, value: number) => boolean) => Promise<TopKAnswer>;
}

/** Lists of which all is known. */
export function settledLists(answer: TopKAnswer): RankedLists {
  return { answer, settled: () => Promise.resolve(answer) };
}

/** The best `k` items of each query by value, then by row; fewer only if fewer rows are admitted. */
export async function rankedSearch(
  question: TopKQuestion,
  { ask, valueOf, rows }: RankedSearch,
): Promise<RankedLists> {
  const { k } = question;
  const queries = question.query.shape[0]!;
  if (k === 0 || queries === 0) return settledLists(await ask(question));
  const depth = Math.min(rows, k + moreThan(k));
  const first = await ask({ ...question, k: depth });
  const lists: (readonly ListedItem[])[] = [];
  const unknown: OpenQuery[] = [];
  for (let query = 0; query < queries; query += 1) {
    const found = valued(itemsOf(first, query), valueOf(query));
    lists.push(bestOf(found, k));
    if (!isWhole(found, { k, depth, rows })) unknown.push({ query, found, from: 0, to: rows });
  }
  const answer = answerOf(lists, k, first);
  const search = { question, ask, valueOf, rows, lists };
  const settled: RankedLists["settled"] = async (isWanted) => {
    let open = unknown.filter(({ query }) => isWanted(query, lists[query]![k - 1]!.score));
    if (open.length === 0) return answer;
    open = await deepened(search, open);
    while (open.length > 0) open = await halved(search, open);
    return answerOf(lists, k, first);
  };
  return { answer, settled };
}

/** A query for which it is not yet known which rows share the value of its k-th item. */
interface OpenQuery {
  readonly query: number;
  /** The best items by score found so far. */
  readonly found: readonly ListedItem[];
  /** Among the first `from` rows too few share the value, among the first `to` rows too many. */
  readonly from: number;
  readonly to: number;
}

interface SearchUnderWay extends RankedSearch {
  readonly question: TopKQuestion;
  /** The lists found so far, by query. */
  readonly lists: (readonly ListedItem[])[];
}

function valued(items: readonly ListedItem[], value: ScoreValue): readonly ListedItem[] {
  return items.map((item) => withScore(item, value(item.score)));
}

function bestOf(items: readonly ListedItem[], k: number): readonly ListedItem[] {
  return items.toSorted(compareCandidates).slice(0, k);
}

/** Whether no row beyond a list of the best by score can share the value of the k-th. */
function isWhole(
  found: readonly ListedItem[],
  { k, depth, rows }: { readonly k: number; readonly depth: number; readonly rows: number },
): boolean {
  return found.length < depth || depth === rows || found[depth - 1]!.score !== found[k - 1]!.score;
}

async function deepened(search: SearchUnderWay, open: readonly OpenQuery[]): Promise<OpenQuery[]> {
  const { k } = search.question;
  const depth = depthOf(search);
  return await inGroups(open, depth, async (some) => {
    const question = chosenOf(search.question, some, { k: depth });
    const answer = await search.ask(question);
    return some.flatMap((each, at) => {
      const found = valued(itemsOf(answer, at), search.valueOf(each.query));
      search.lists[each.query] = bestOf(found, k);
      return isWhole(found, { k, depth, rows: search.rows }) ? [] : [{ ...each, found }];
    });
  });
}

function depthOf({ question: { k }, rows }: SearchUnderWay): number {
  return Math.min(rows, Math.max(MANY, k + moreThan(k), Math.min(2 * k, DOUBLED_MAX)));
}

function moreThan(k: number): number {
  return Math.min(Math.max(MORE_MIN, k >> 4), MORE_MAX);
}

/** Searches the first half of the rows between `from` and `to`. */
async function halved(search: SearchUnderWay, open: readonly OpenQuery[]): Promise<OpenQuery[]> {
  const depth = depthOf(search);
  return await inGroups(open, depth, async (some) => {
    const ends = some.map(({ from, to }) => Math.floor((from + to) / 2));
    const within = ends.map((end): Filter => {
      return { kind: "test", attribute: ROW_COLUMN, is: "lt", values: [end] };
    });
    const answer = await search.ask(chosenOf(search.question, some, { k: depth, within }));
    return some.flatMap((each, at) => halfOf(search, each, { answer, at, end: ends[at]!, depth }));
  });
}

function halfOf(
  { question: { k }, valueOf, lists }: SearchUnderWay,
  open: OpenQuery,
  half: {
    readonly answer: TopKAnswer;
    readonly at: number;
    readonly end: number;
    readonly depth: number;
  },
): OpenQuery[] {
  const { query, found, from, to } = open;
  const { end, depth } = half;
  const last = found[k - 1]!.score;
  const among = valued(itemsOf(half.answer, half.at), valueOf(query));
  if (among.length >= depth && among[depth - 1]!.score === last) return [nextOf(open, from, end)];
  const above = found.filter(({ score }) => score > last);
  const equal = among.filter(({ score }) => score === last);
  if (above.length + equal.length < k) return [nextOf(open, end, to)];
  lists[query] = bestOf([...above, ...equal], k);
  return [];
}

function nextOf(open: OpenQuery, from: number, to: number): OpenQuery {
  if (to - from > 1) return { ...open, from, to };
  // One more row adds at most one item, so this happens only if two answers contradict each other.
  const text = "The workers' answers to parts of one search do not fit together; ask again";
  throw new WinnowError("UNAVAILABLE", text);
}

/** Some queries of a question; with `within`, each admits only its rows. */
function chosenOf(
  question: TopKQuestion,
  some: readonly OpenQuery[],
  { k, within }: { readonly k: number; readonly within?: readonly Filter[] },
): TopKQuestion {
  const { query, admits } = question;
  const chosen = some.map(({ query: number }) => number);
  const own = admits && chosen.map((number) => admits[admits.length > 1 ? number : 0]!);
  const both = own && within?.map((of, at): Filter => ({ kind: "and", of: [own[at]!, of] }));
  const filters = both ?? within ?? own;
  return { query: rowsOf(query, chosen), k, chosen, ...(filters && { admits: filters }) };
}

function rowsOf({ shape, data }: Tensor, chosen: readonly number[]): Tensor {
  const dim = shape[1]!;
  const rows = new Float32Array(chosen.length * dim);
  for (const [at, row] of chosen.entries()) {
    rows.set((data as Float32Array).subarray(row * dim, (row + 1) * dim), at * dim);
  }
  return { dtype: "float32", shape: [chosen.length, dim], data: rows };
}

/** Runs queries in groups, so that the lists of a group stay within bounds. */
async function inGroups(
  open: readonly OpenQuery[],
  depth: number,
  run: (some: readonly OpenQuery[]) => Promise<readonly OpenQuery[]>,
): Promise<OpenQuery[]> {
  const size = Math.max(1, Math.floor(ITEMS_MAX / depth));
  const left: OpenQuery[] = [];
  for (let first = 0; first < open.length; first += size) {
    left.push(...(await run(open.slice(first, first + size))));
  }
  return left;
}
