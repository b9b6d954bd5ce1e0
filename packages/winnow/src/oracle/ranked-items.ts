// Items that a dense part ranks, because their table is not cut. A question with a `k`, lists or filters has its best
// items picked here, by sorting the scores of all; any other is answered as the graph itself ranks.

import type { AttributeColumn, DenseRanking, DenseStep, SignatureProgram } from "@winnow/core";
import type { ItemIds, Tensor, VocabularyIndex } from "@winnow/core";
import { WinnowError } from "@winnow/core";
import { type BestRows, bestRows } from "./brute-force.ts";
import { type LeavingOut, leftOutOf } from "./left-out-rows.ts";
import type { ReferenceSearch } from "./reference.ts";
import { scalarAt, tensorOfScalars } from "./scalars.ts";
import { type ItemsById, rowsById } from "./whole-table.ts";

/** Most scores that a router ranks for all instances of a request. */
export const RANKED_SCORES_MAX: number = 2 ** 24;
/** Scores that a question counts as one candidate, so that its instances stay below that limit. */
export const SCORES_PER_CANDIDATE: number = RANKED_SCORES_MAX / 4096;
/** Ids that are indexed at a time: a map holds at most 2²⁴. */
const IDS_AT_ONCE = 2 ** 20;

/** A ranking and its step. */
export interface RankedStep {
  readonly step: DenseStep;
  readonly ranking: DenseRanking;
}

/** All rankings of a signature. */
export function rankingsOf({ steps }: SignatureProgram): readonly RankedStep[] {
  return steps.flatMap((step) =>
    step.kind === "dense" ? (step.rankings ?? []).map((ranking) => ({ step, ranking })) : [],
  );
}

/** The items of a ranking. */
export function itemsOfRanking(
  { items }: DenseRanking,
  {
    ids,
    columns,
    vocabularies,
  }: {
    readonly ids: ItemIds;
    readonly columns: readonly AttributeColumn[] | undefined;
    readonly vocabularies: readonly VocabularyIndex[];
  },
): ItemsById {
  const ends = Array.from({ length: Math.ceil(items / IDS_AT_ONCE) }, (_, part) =>
    Math.min(items, (part + 1) * IDS_AT_ONCE),
  );
  const table = {
    spec: { idDtype: ids.dtype, attributes: columns?.map(({ spec }) => spec) },
    rows: items,
    ids: ends.map((end, part) => ids.of(part * IDS_AT_ONCE, end, vocabularies)),
    idEnds: ends,
    attributes: columns === undefined ? [] : [{ firstRow: 0, endRow: items, columns }],
  };
  return { table, rowsOf: rowsById(table) };
}

/** A question to a dense part that ranks. */
interface RankedQuestion extends LeavingOut {
  readonly k?: number | undefined;
}

/** Whether the question says which items may be answered. */
function hasConditions({
  exclude = [],
  include = [],
  filter,
  ownFilters = [],
}: RankedQuestion): boolean {
  return filter !== undefined || exclude.length + include.length + ownFilters.length > 0;
}

/** Whether the question changes what the graph would answer. */
function isChanged(question: RankedQuestion): boolean {
  return question.k !== undefined || hasConditions(question);
}

/** Names of the outputs to ask of the dense part of a step. */
export function namesAsked(
  { outputs, rankings = [] }: DenseStep,
  question: RankedQuestion,
): readonly string[] {
  const ranked = new Set(
    isChanged(question) ? rankings.flatMap(({ best, rows }) => [best, rows]) : [],
  );
  const own = outputs.flatMap(({ name }) => (ranked.has(name) ? [] : [name]));
  return [...new Set([...own, ...rankings.map(({ scores }) => scores)])];
}

/** What a dense part gave for a step, and the items of its rankings. */
interface DenseOutputs {
  readonly step: DenseStep;
  readonly outputs: ReadonlyMap<string, Tensor>;
  readonly itemsOf: (ranking: DenseRanking) => ItemsById | undefined;
}

/** The step's outputs with the best items of its rankings. @throws WinnowError INVALID_ARGUMENT as `leftOutOf` */
export function withRankings(
  { step, outputs: given, itemsOf }: DenseOutputs,
  question: RankedQuestion,
): {
  readonly outputs: ReadonlyMap<string, Tensor>;
  readonly searches: readonly ReferenceSearch[];
} {
  const outputs = new Map(given);
  const searches: ReferenceSearch[] = [];
  for (const ranking of step.rankings ?? []) {
    const items = itemsOf(ranking);
    const { data } = given.get(ranking.scores)! as Tensor & { readonly data: Float32Array };
    const scoreOf = (query: number, row: number): number => data[query * ranking.items + row]!;
    if (isChanged(question)) {
      const found = bestOf(data, ranking, { items, question });
      for (const [name, list] of listsOf(step, ranking, found)) outputs.set(name, list);
      if (items !== undefined)
        searches.push({ items, rows: found.map(({ rows }) => rows), scoreOf });
    } else if (items !== undefined && ranking.rows !== undefined) {
      searches.push({ items, rows: rowsOfGraph(given.get(ranking.rows)!), scoreOf });
    }
    outputs.delete(ranking.scores);
  }
  return { outputs, searches };
}

/** The best rows of each query. */
function bestOf(
  data: Float32Array,
  ranking: DenseRanking,
  { items, question }: { readonly items: ItemsById | undefined; readonly question: RankedQuestion },
): readonly BestRows[] {
  if (items === undefined && hasConditions(question)) {
    throw new WinnowError("INVALID_ARGUMENT", "The signature answers no ids of the items it ranks");
  }
  const left = items && leftOutOf(question, items);
  const k = Math.min(question.k ?? ranking.k, ranking.items);
  return Array.from({ length: data.length / ranking.items }, (_, at) =>
    bestRows(data.subarray(at * ranking.items, (at + 1) * ranking.items), k, left?.(at, at)),
  );
}

/** The rows that the graph itself found, `[queries, k]`. */
function rowsOfGraph(tensor: Tensor): readonly Int32Array[] {
  const [queries, width] = [tensor.shape[0]!, tensor.shape[1]!];
  const rows = Int32Array.from({ length: queries * width }, (_, at) =>
    Number(scalarAt(tensor, at)),
  );
  return Array.from({ length: queries }, (_, at) => rows.subarray(at * width, (at + 1) * width));
}

/** Scores and rows as the step's outputs, ragged where the lists differ in length. */
function listsOf(
  { outputs }: DenseStep,
  { best, rows }: DenseRanking,
  found: readonly BestRows[],
): readonly (readonly [string, Tensor])[] {
  const lengths = Uint32Array.from(found, (list) => list.rows.length);
  const width = lengths.reduce((most, length) => Math.max(most, length), 0);
  const isRagged = lengths.some((length) => length < width);
  return outputs.flatMap(({ name, dtype }): (readonly [string, Tensor])[] => {
    if (name !== best && name !== rows) return [];
    const values = found.flatMap((list) => {
      const own = [...(name === best ? list.scores : list.rows)];
      return [...own, ...Array.from({ length: width - own.length }, () => 0)];
    });
    const tensor = tensorOfScalars(dtype, [found.length, width], values);
    return [[name, isRagged ? { ...tensor, rowLengths: lengths } : tensor]];
  });
}
