// What a request may ask of items that a dense part ranks, because their table could not be cut: a `k`, lists of ids and
// filters, which take the scores of all items out of the dense part (program/ranking/uncut-ranking.ts), and attributes. There
// are no vectors of such items, so these are refused, with the operation that keeps the table from being cut.

import { WinnowError, excerpt, rankedIdsOf } from "@winnow/core";
import type {
  AttributeSpec,
  DenseRanking,
  DenseStep,
  ModelProgram,
  SignatureProgram,
} from "@winnow/core";

/** A top-k of a dense part that a router can do itself. */
export interface RankedByDense {
  readonly step: DenseStep;
  readonly ranking: DenseRanking;
}

/** The rankings of a signature's dense parts. */
export function denseRankingsOf({ steps }: SignatureProgram): readonly RankedByDense[] {
  const found: RankedByDense[] = [];
  for (const step of steps) {
    if (step.kind !== "dense") continue;
    for (const ranking of step.rankings ?? []) found.push({ step, ranking });
  }
  return found;
}

/** The attributes of the items of a ranking; `undefined` where the version brings none. */
export function attributesRanked(
  { rankedItems = [] }: Pick<ModelProgram, "rankedItems">,
  { described }: DenseRanking,
): readonly AttributeSpec[] | undefined {
  return described === undefined
    ? undefined
    : rankedItems[described]?.columns.map(({ spec }) => spec);
}

/** Whether a signature answers the items of a ranking, by their scores, rows or ids. */
export function answersRanked(
  signature: SignatureProgram,
  { step, ranking }: RankedByDense,
): boolean {
  const lists = step.outputs.filter(({ name }) => name === ranking.best || name === ranking.rows);
  const answered = new Set(signature.outputs.map(({ value }) => value));
  const isListed = lists.some(({ value }) => answered.has(value));
  return isListed || rankedIdsOf(signature, step, ranking) !== undefined;
}

/** Scores of all instances of one request that a dense part gives to be ranked: 64 MiB. */
const RANKED_SCORES_MAX = 2 ** 24;

/** Scores that are ranked count as one row. */
const SCORES_PER_ROW = 2 ** 16;

/**
 * The candidates, and the cost in rows, of ranking all items of dense parts outside of them.
 * @throws WinnowError INVALID_ARGUMENT for too many scores
 */
export function costOfRankings(
  uncut: readonly RankedByDense[],
  {
    instances,
    k,
    conditions,
  }: {
    readonly instances: number;
    readonly k: number | undefined;
    /** Conditions of all different filters. */
    readonly conditions: number;
  },
): { readonly candidates: number; readonly rows: number } {
  let [candidates, rows] = [0, 0];
  for (const { ranking } of uncut) {
    const scores = instances * ranking.items;
    if (scores > RANKED_SCORES_MAX) {
      const text = `Cannot rank ${scores} scores, ${ranking.items} for each of ${instances} instances`;
      const remedy = `at most ${RANKED_SCORES_MAX} are ranked for "k", "exclude", "include" and "filter"`;
      throw new WinnowError("INVALID_ARGUMENT", `${text}: ${remedy}; send fewer instances`);
    }
    candidates += instances * (k ?? ranking.k);
    // Testing a condition on an item takes about as long as looking at a score.
    rows += instances + Math.ceil((scores + conditions * ranking.items) / SCORES_PER_ROW);
  }
  return { candidates, rows };
}

/**
 * What the graph itself ranks cannot be changed by a request, or not in this way: the error names the operation, and
 * what would work.
 */
export function withoutSearch(
  field: string,
  signature: SignatureProgram,
  { uncutTables = [] }: Pick<ModelProgram, "uncutTables">,
): WinnowError {
  const uncut = denseRankingsOf(signature);
  const what =
    uncut.length === 0 ? "searches no candidate table" : "ranks items within a dense part";
  const text = `Cannot apply "${field}": signature "${signature.name}" ${what}`;
  const tables = uncutTables.filter(({ ranking }) => ranking !== undefined);
  const nodes = new Set(uncut.map(({ ranking }) => ranking.node));
  // Of a table that several signatures rank, one of them is told.
  const ranked = tables.find(({ ranking }) => nodes.has(ranking ?? "")) ?? tables[0];
  if (ranked === undefined) return new WinnowError("INVALID_ARGUMENT", text);
  const { node, op } = ranked.obstacle;
  const why = `operation ${op} (node ${excerpt(node)}) keeps ${excerpt(ranked.tensor)} from being cut`;
  const remedy = "an export whose scores are among those that docs/models.md lists would take it";
  const others =
    uncut.length === 0
      ? ""
      : ', and "k", "exclude", "include", "filter" and "return" work as it is';
  return new WinnowError("INVALID_ARGUMENT", `${text}: ${why}; ${remedy}${others}`);
}

/** Refuses what goes by ids for a ranking whose items the signature does not name. */
export function withoutIds(field: string, { node }: DenseRanking): WinnowError {
  const text = `Cannot apply "${field}": the signature does not answer an id for each row of node`;
  const remedy = "outputs of ids that the graph gathers by these rows, or of the rows, would do";
  return new WinnowError("INVALID_ARGUMENT", `${text} ${excerpt(node)}; ${remedy}`);
}
