// Items that no search finds, because a dense part computes their scores (`DenseRanking`): for a request with a k,
// lists of ids or filters of its own, the dense part gives the scores of all items, and this file ranks those that the
// request admits. The order is the one of every search: by score, equal ones and NaN by row, NaN behind all others.
//
//   inputs ─▶ dense part ─▶ scores [queries, items] ─▶ best k admitted rows ─▶ host steps ─▶ outputs
//                                                      ids of rows, indexed once
//                                                      rows of a filter, a bit for each

import {
  FoundRows,
  IdIndex,
  WinnowError,
  comparableIds,
  nextLoopTurn,
  rankedIdsOf,
} from "@winnow/core";
import type {
  DenseRanking,
  DenseStep,
  ItemIds,
  RankedItems,
  Signal,
  SignatureProgram,
  Tensor,
  VocabularyIndex,
} from "@winnow/core";
import type { BoundFilter, SearchConditions } from "../../admission/search-cost.ts";
import { listedIds } from "../listed-ids.ts";
import { attributesOfRanking } from "./ranked-attributes.ts";
import type { RankedAttributes } from "./ranked-attributes.ts";
import { inTurns, turnMeter } from "../../turns/turns.ts";
import type { Steps } from "../../turns/turns.ts";

/** What a request asks of the items that dense parts rank. */
export interface RankingAsked {
  readonly signature: SignatureProgram;
  readonly vocabularies: readonly VocabularyIndex[];
  /** `ModelProgram.rankedItems`. */
  readonly rankedItems?: readonly RankedItems[] | undefined;
  readonly k: number | undefined;
  readonly conditions: Pick<SearchConditions, "exclude" | "include" | "filters">;
  readonly signal: Signal;
}

/** A step, and those of its rankings that are done here. */
export interface RankedStep {
  readonly step: DenseStep;
  readonly rankings: readonly DenseRanking[];
}

/** The rankings of a step that have to be done outside of the dense part, for a request. */
export function rankingsOutside(
  { rankings = [] }: DenseStep,
  { k, conditions: { exclude, include, filters } }: Pick<RankingAsked, "k" | "conditions">,
): readonly DenseRanking[] {
  const isOfGraph = k === undefined && exclude.length + include.length + filters.length === 0;
  return isOfGraph ? [] : rankings;
}

/** Names of the outputs to ask of a dense model, if some of its rankings are done outside. */
export function namesWithScores(
  { outputs }: DenseStep,
  rankings: readonly DenseRanking[],
): readonly string[] {
  if (rankings.length === 0) return outputs.map(({ name }) => name);
  const ranked = new Set(rankings.flatMap(({ best, rows }) => [best, rows]));
  const others = outputs.flatMap(({ name }) => (ranked.has(name) ? [] : [name]));
  return [...new Set([...others, ...rankings.map(({ scores }) => scores)])];
}

/**
 * The outputs of a step whose rankings are done here.
 * @throws WinnowError INVALID_ARGUMENT for lists that are neither one for all queries nor one for each, or of ids of
 * another type; INTERNAL for outputs that are no scores; the signal's reason
 */
export async function withRankings(
  { step, rankings }: RankedStep,
  given: ReadonlyMap<string, Tensor>,
  asked: RankingAsked,
): Promise<ReadonlyMap<string, Tensor>> {
  const outputs = new Map(given);
  for (const ranking of rankings) {
    const scores = scoresOf(step, ranking, given);
    const lists = await listsFor(step, ranking, { ...asked, queries: scores.shape[0]! });
    const k = Math.min(asked.k ?? ranking.k, ranking.items);
    const { filters } = asked.conditions;
    const attributes =
      filters.length === 0 ? undefined : attributesOfRanking(ranking, asked.rankedItems);
    const admission = new Admission(lists, filters, attributes);
    const best = await inTurns(bestRows(scores, k, admission), asked.signal);
    const tensors = tensorsOf(step, ranking, { best, scores: scores.data });
    for (const [name, tensor] of tensors) outputs.set(name, tensor);
  }
  return outputs;
}

/**
 * The attributes of the items that a step answers, in the order of the answer.
 * @throws WinnowError INTERNAL for an answer that is no list of rows
 */
export function describedItems(
  { rankings = [] }: DenseStep,
  outputs: ReadonlyMap<string, Tensor>,
  asked: Pick<RankingAsked, "rankedItems"> & { readonly names: readonly string[] },
): Tensor | undefined {
  const [ranking] = rankings;
  const rows = ranking?.rows === undefined ? undefined : outputs.get(ranking.rows);
  return rows && attributesOfRanking(ranking!, asked.rankedItems).objectsOf(rows, asked.names);
}

interface Scores {
  /** `[queries, items]`. */
  readonly shape: readonly number[];
  readonly data: Float32Array;
}

function scoresOf(
  { model }: DenseStep,
  { scores, items }: DenseRanking,
  given: ReadonlyMap<string, Tensor>,
): Scores {
  const tensor = given.get(scores);
  const isRight = tensor?.shape.length === 2 && tensor.shape[1] === items;
  if (tensor?.dtype === "float32" && isRight) return tensor;
  const text = `Output "${scores}" of dense model ${model} does not score ${items} items`;
  throw new WinnowError("INTERNAL", text);
}

/** Rows that are listed for each query, or for all of them; no lists: nothing is listed. */
interface RowLists {
  readonly exclude: readonly Uint32Array[];
  readonly include: readonly Uint32Array[];
}

async function listsFor(
  step: DenseStep,
  ranking: DenseRanking,
  {
    signature,
    vocabularies,
    conditions,
    signal,
    queries,
  }: RankingAsked & { readonly queries: number },
): Promise<RowLists> {
  const { exclude, include } = conditions;
  if (exclude.length + include.length === 0) return { exclude: [], include: [] };
  const ids = rankedIdsOf(signature, step, ranking);
  if (ids === undefined) throw new RangeError("ids of a ranking that was not checked");
  const on = { table: { name: ranking.node, idDtype: ids.dtype }, queries };
  const index = await indexOf(ids, { items: ranking.items, vocabularies });
  const rowsOf = async (
    verb: "exclude" | "include",
    lists: readonly Tensor[],
  ): Promise<readonly Uint32Array[]> => {
    const found: Uint32Array[] = [];
    for (const list of listedIds(verb, lists, on)) {
      const wanted = comparableIds(list, ids.dtype);
      found.push(await inTurns(rowsWithIds(index, wanted), signal));
    }
    return found;
  };
  return {
    exclude: await rowsOf("exclude", exclude),
    include: await rowsOf("include", include),
  };
}

/** Ids that are looked up between two looks at the time. */
const LOOKED_UP_IDS = 2 ** 10;
/** What it costs to look one up among many items, in steps of a turn: it waits for memory. */
const LOOK_UP_WORK = 2 ** 5;

/** Ascending rows that have one of the wanted ids. */
function* rowsWithIds(index: IdIndex, wanted: Tensor | undefined): Steps<Uint32Array> {
  const rows = new FoundRows();
  const indexed = { index };
  const isTurnOver = turnMeter();
  for (let first = 0; first < (wanted?.data.length ?? 0); first += LOOKED_UP_IDS) {
    const end = Math.min(wanted!.data.length, first + LOOKED_UP_IDS);
    for (let position = first; position < end; position += 1) {
      rows.addRows(indexed, wanted!, position);
    }
    if (isTurnOver(LOOK_UP_WORK * (end - first))) yield;
  }
  return rows.ascending();
}

/** The logarithm of how many items are indexed at a time: that takes a few ms, after which other requests run. */
const INDEXED_BITS = 16;

/** Indexes that are made, or being made, as long as their program is loaded. */
const indexes = new WeakMap<ItemIds, Promise<IdIndex>>();

function indexOf(ids: ItemIds, of: IndexedItems): Promise<IdIndex> {
  const known = indexes.get(ids);
  if (known !== undefined) return known;
  const made = makeIndex(ids, of);
  indexes.set(ids, made);
  // What could not be made is tried again by the next request.
  made.catch(() => indexes.delete(ids));
  return made;
}

interface IndexedItems {
  readonly items: number;
  readonly vocabularies: readonly VocabularyIndex[];
}

/** All requests that need an index wait for the same one, so the end of one of them does not stop it. */
async function makeIndex(ids: ItemIds, { items, vocabularies }: IndexedItems): Promise<IdIndex> {
  const index = new IdIndex(items, INDEXED_BITS);
  for (let firstRow = 0; firstRow < items; firstRow += 2 ** INDEXED_BITS) {
    const endRow = Math.min(items, firstRow + 2 ** INDEXED_BITS);
    index.add(ids.of(firstRow, endRow, vocabularies));
    await nextLoopTurn();
  }
  return index;
}

/** Which rows each query may return. */
class Admission {
  readonly #lists: RowLists;
  readonly #filters: readonly BoundFilter[];
  readonly #attributes: RankedAttributes | undefined;
  /** What was found last: of queries that share a filter and a list, it is found once. */
  #last:
    | { readonly text: string; readonly only: Uint32Array; readonly rows: Uint32Array }
    | undefined;

  constructor(
    lists: RowLists,
    filters: readonly BoundFilter[],
    attributes: RankedAttributes | undefined,
  ) {
    this.#lists = lists;
    this.#filters = filters;
    this.#attributes = attributes;
  }

  *of(query: number): Steps<AdmittedRows> {
    const { exclude, include } = this.#lists;
    const without = ofQuery(exclude, query);
    const only = ofQuery(include, query);
    const text = ofQuery(this.#filters, query)?.text;
    if (text === undefined) return { without, only };
    const attributes = this.#attributes!;
    if (only === undefined) return { without, bits: yield* attributes.admitted(text) };
    if (this.#last?.text !== text || this.#last.only !== only) {
      this.#last = { text, only, rows: yield* attributes.admittedAmong(text, only) };
    }
    return { without, only: this.#last.rows };
  }
}

const ofQuery = <Item>(lists: readonly Item[], query: number): Item | undefined =>
  lists[lists.length > 1 ? query : 0];

/** Of all rows those in `only`, or with a bit, but none of `without`. */
interface AdmittedRows {
  readonly without: Uint32Array | undefined;
  readonly only?: Uint32Array | undefined;
  readonly bits?: Uint8Array | undefined;
}

/** The best admitted rows of each query. */
function* bestRows(
  { shape, data }: Scores,
  k: number,
  admission: Admission,
): Steps<readonly Uint32Array[]> {
  const [queries, items] = [shape[0]!, shape[1]!];
  const isTurnOver = turnMeter();
  const found: Uint32Array[] = [];
  for (let query = 0; query < queries; query += 1) {
    const { without, only, bits } = yield* admission.of(query);
    const isLeftOut = without === undefined ? noRow : amongRows(without, items);
    const list = new BestRows(data.subarray(query * items, (query + 1) * items), k, isLeftOut);
    const rows = only?.length ?? items;
    for (let first = 0; first < rows; first += OFFERED_ROWS) {
      const end = Math.min(rows, first + OFFERED_ROWS);
      if (bits !== undefined) offerBits(bits, { first, end }, list);
      else if (only === undefined) list.offerRange(first, end);
      else for (let at = first; at < end; at += 1) list.offer(only[at]!);
      if (isTurnOver(end - first)) yield;
    }
    found.push(list.sorted());
  }
  return found;
}

/** Rows between two looks at the time, whole bytes of a bitmap. */
const OFFERED_ROWS = 2 ** 14;

/** Offers the rows of a range that have a bit. No bit stands behind the last row. */
function offerBits(
  bits: Uint8Array,
  { first, end }: { readonly first: number; readonly end: number },
  list: BestRows,
): void {
  for (let byte = first >> 3; byte < (end + 7) >> 3; byte += 1) {
    for (let left = bits[byte]!; left !== 0; left &= left - 1) {
      list.offer(8 * byte + 31 - Math.clz32(left & -left));
    }
  }
}

const noRow = (): boolean => false;

function amongRows(rows: Uint32Array, items: number): (row: number) => boolean {
  const bits = new Uint8Array(Math.ceil(items / 8));
  for (const row of rows) bits[row >> 3]! |= 1 << (row & 7);
  return (row) => (bits[row >> 3]! & (1 << (row & 7))) !== 0;
}

/**
 * The best k of the rows that are offered in ascending order: a heap with the worst of them at its root. A row behind
 * all that are kept loses a tie to each of them, so that a full heap only takes rows whose score is above its worst one,
 * or a number where the worst one is NaN. Of many items nearly all fail this one comparison, which is made first.
 */
class BestRows {
  readonly #scores: Float32Array;
  readonly #heap: Uint32Array;
  readonly #isLeftOut: (row: number) => boolean;
  #length = 0;

  constructor(scores: Float32Array, k: number, isLeftOut: (row: number) => boolean) {
    this.#scores = scores;
    this.#heap = new Uint32Array(Math.min(k, scores.length));
    this.#isLeftOut = isLeftOut;
  }

  offer(row: number): void {
    this.offerRange(row, row + 1);
  }

  offerRange(first: number, end: number): void {
    let row = first;
    for (; row < end && this.#length < this.#heap.length; row += 1) {
      if (!this.#isLeftOut(row)) this.#add(row);
    }
    if (this.#length === 0) return;
    row = this.#nextAboveWorst(row, end);
    while (row < end) {
      if (!this.#isLeftOut(row)) this.#replaceWorst(row);
      row = this.#nextAboveWorst(row + 1, end);
    }
  }

  /** The rows that are kept, best first. */
  sorted(): Uint32Array {
    return this.#heap.subarray(0, this.#length).toSorted((a, b) => (this.#isBefore(a, b) ? -1 : 1));
  }

  /** The next row before the end that comes before the worst one of a full heap, or the end. */
  #nextAboveWorst(first: number, end: number): number {
    const scores = this.#scores;
    const worst = scores[this.#heap[0]!]!;
    let row = first;
    if (Number.isNaN(worst)) while (row < end && Number.isNaN(scores[row]!)) row += 1;
    else while (row < end && !(scores[row]! > worst)) row += 1;
    return row;
  }

  #add(row: number): void {
    const heap = this.#heap;
    let at = this.#length;
    this.#length += 1;
    for (; at > 0; at = (at - 1) >> 1) {
      const above = heap[(at - 1) >> 1]!;
      if (!this.#isBefore(above, row)) break;
      heap[at] = above;
    }
    heap[at] = row;
  }

  #replaceWorst(row: number): void {
    const heap = this.#heap;
    let at = 0;
    for (let below = 1; below < this.#length; below = 2 * at + 1) {
      const other = below + 1;
      if (other < this.#length && this.#isBefore(heap[below]!, heap[other]!)) below = other;
      if (!this.#isBefore(row, heap[below]!)) break;
      heap[at] = heap[below]!;
      at = below;
    }
    heap[at] = row;
  }

  /** Whether a row comes before another one (`compareCandidates`). */
  #isBefore(row: number, other: number): boolean {
    const [score, otherScore] = [this.#scores[row]!, this.#scores[other]!];
    if (score > otherScore) return true;
    if (score < otherScore) return false;
    if (score === otherScore) return row < other;
    const isNaN = Number.isNaN(score);
    return isNaN === Number.isNaN(otherScore) ? row < other : !isNaN;
  }
}

/** Lists as the step's outputs, ragged where their lengths differ. */
function tensorsOf(
  { outputs }: DenseStep,
  ranking: DenseRanking,
  { best, scores }: { readonly best: readonly Uint32Array[]; readonly scores: Float32Array },
): readonly (readonly [string, Tensor])[] {
  const columns = best.reduce((most, { length }) => Math.max(most, length), 0);
  const isRagged = best.some(({ length }) => length < columns);
  const rowLengths = isRagged ? Uint32Array.from(best, ({ length }) => length) : undefined;
  const shape = [best.length, columns];
  const values = new Float32Array(best.length * columns);
  const rows = new Int32Array(best.length * columns);
  for (const [query, list] of best.entries()) {
    rows.set(list, query * columns);
    for (const [at, row] of list.entries()) {
      values[query * columns + at] = scores[query * ranking.items + row]!;
    }
  }
  const ragged = rowLengths === undefined ? {} : { rowLengths };
  return outputs.flatMap(({ name, dtype }): (readonly [string, Tensor])[] => {
    if (name === ranking.best)
      return [[name, { dtype: "float32", shape, data: values, ...ragged }]];
    if (name !== ranking.rows) return [];
    if (dtype !== "int64") return [[name, { dtype: "int32", shape, data: rows, ...ragged }]];
    return [[name, { dtype, shape, data: BigInt64Array.from(rows, BigInt), ...ragged }]];
  });
}
