// What a request may ask of items that a dense part ranks, because their table could not be cut: a `k` and lists of ids,
// which take the scores of all items out of the dense part (program/uncut-ranking.ts). Attributes of such items are
// nowhere, so filters are refused, with the operation that keeps the table from being cut.

import { WinnowError, excerpt } from "@winnow/core";
import type { DenseRanking, DenseStep, ModelProgram, SignatureProgram } from "@winnow/core";

/** A top-k of a dense part that a router can do itself. */
export interface RankedByDense {
  readonly step: DenseStep;
  readonly ranking: DenseRanking;
}

/** The rankings of a signature's dense parts. */
export function denseRankingsOf({ steps }: SignatureProgram): readonly RankedByDense[] {
  return steps.flatMap((step) =>
    step.kind === "dense" ? (step.rankings ?? []).map((ranking) => ({ step, ranking })) : [],
  );
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
  { instances, k }: { readonly instances: number; readonly k: number | undefined },
): { readonly candidates: number; readonly rows: number } {
  let [candidates, rows] = [0, 0];
  for (const { ranking } of uncut) {
    const scores = instances * ranking.items;
    if (scores > RANKED_SCORES_MAX) {
      const text = `Cannot rank ${scores} scores, ${ranking.items} for each of ${instances} instances`;
      const remedy = `at most ${RANKED_SCORES_MAX} are ranked for "k", "exclude" and "include"`;
      throw new WinnowError("INVALID_ARGUMENT", `${text}: ${remedy}; send fewer instances`);
    }
    candidates += instances * (k ?? ranking.k);
    rows += instances + Math.ceil(scores / SCORES_PER_ROW);
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
  const others = uncut.length === 0 ? "" : ', and "k", "exclude" and "include" work as it is';
  return new WinnowError("INVALID_ARGUMENT", `${text}: ${why}; ${remedy}${others}`);
}

/** Refuses ids for a ranking whose items the signature does not name. */
export function withoutIds(field: "exclude" | "include", { node }: DenseRanking): WinnowError {
  const text = `Cannot apply "${field}": the signature does not answer an id for each row of node`;
  const remedy = "outputs of ids that the graph gathers by these rows, or of the rows, would do";
  return new WinnowError("INVALID_ARGUMENT", `${text} ${excerpt(node)}; ${remedy}`);
}
