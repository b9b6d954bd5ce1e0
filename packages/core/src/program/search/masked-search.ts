// Scores that a graph masks before its top-k: `where(genre == wanted, scores, -inf)`. All rows that the mask leaves
// out have the same score, so they come in the order of their numbers, and only if that score is not below the kept
// scores:
//
//   search, rows that are kept     9.1 row 4   3.2 row 7                 ─┐
//   search by a query of zeros,                                           ├─▶ merge: (score desc, row asc), k
//     rows that are masked        -inf row 0  -inf row 1  -inf row 2 ... ─┘
//
// The second search finds equal scores and therefore the first rows. It is only made if a list needs it.
// Where masked rows have a penalty (`scores - 1e9 * seen`), the second search is the first one over the other
// rows, with the penalty as a function of scores. So it is where they have a factor above 0. Several masks make
// more classes of rows, and a search for each (row-classes.ts). A penalty may leave one value to all of a class's scores,
// as `scores - 1e9` does: which of its rows come first is only asked where a list has room for them.

import type { Tensor } from "../../tensor/tensor.ts";
import { compareCandidates } from "../../top-k.ts";
import { answerOf, itemsOf, withScore } from "./item-lists.ts";
import type { ListedItem } from "./item-lists.ts";
import { admitting } from "./row-classes.ts";
import type { RowClass } from "./row-classes.ts";
import type { RankedLists } from "./ranked-search.ts";
import { scoreValues } from "./score-functions.ts";
import type { BoundFunction } from "./score-functions.ts";
import type { SoftmaxSums } from "./softmax-sums.ts";
import type { TopKAnswer, TopKQuestion } from "../step-contract.ts";

/** What the scores of a search go through before they are ranked. */
export interface Ranking {
  readonly functions: readonly BoundFunction[];
  /** Of all rows, where a softmax is among the functions. */
  readonly sums: SoftmaxSums | undefined;
}

/** How rows of some classes are searched. */
export interface ClassedSearch {
  readonly ranked: (question: TopKQuestion, ranking: Ranking) => Promise<RankedLists>;
  /** Of vectors that are as long as a row. */
  readonly plain: (question: TopKQuestion) => Promise<TopKAnswer>;
  /** Values of a row. */
  readonly dim: number;
}

/** The best `k` rows of all classes. */
export async function classedSearch(
  question: TopKQuestion,
  { classes, sums }: { readonly classes: readonly RowClass[] } & Pick<Ranking, "sums">,
  { ranked, plain, dim }: ClassedSearch,
): Promise<TopKAnswer> {
  const { k } = question;
  const queries = question.query.shape[0]!;
  const own = classes.filter(({ score }) => score === undefined);
  const lists = await Promise.all(
    own.map(({ functions, admits }) =>
      ranked({ ...question, ...admitting(admits) }, { functions, sums }),
    ),
  );
  const known = lists.map(({ answer }) => answer).reduce((a, b) => withMasked(a, b, { k }));
  const answers = await Promise.all(
    lists.map(({ settled }) => settled((query, value) => !(value < lastOf(known, query, k)))),
  );
  let found = answers.reduce((some, others) => withMasked(some, others, { k }));
  for (const { admits, scoreOf } of equalScores(classes, { sums, queries })) {
    const masked = { k, scoreOf };
    if (!needsMasked(found, masked)) continue;
    // Such rows have one score, so a query of zeros gives them in the order of their rows.
    const data = new Float32Array(queries * dim);
    const query: Tensor = { dtype: "float32", shape: [queries, dim], data };
    found = withMasked(found, await plain({ ...question, query, admits }), masked);
  }
  return found;
}

/** The classes whose rows have one score each, the best first, so that those behind it are mostly not asked for. */
function equalScores(
  classes: readonly RowClass[],
  { sums, queries }: Pick<Ranking, "sums"> & { readonly queries: number },
): readonly (Pick<RowClass, "admits"> & Pick<MaskedLists, "scoreOf">)[] {
  const found = classes.flatMap(({ admits, functions, score }) => {
    if (score === undefined) return [];
    const valueOf = scoreValues(functions, sums);
    return [{ admits, scoreOf: (query: number): number => valueOf(query)(score) }];
  });
  if (queries === 0 || found.length < 2) return found;
  return found.toSorted((a, b) => b.scoreOf(0) - a.scoreOf(0) || 0);
}

/** The score of the last item of a full list; -∞ where there is room. */
function lastOf({ scores, counts }: TopKAnswer, query: number, k: number): number {
  const width = scores!.shape[1]!;
  const count = counts?.[query] ?? width;
  return count < k ? -Infinity : (scores!.data as Float32Array)[query * width + k - 1]!;
}

/** How long the lists are, and the score of masked rows for each query. */
interface MaskedLists {
  readonly k: number;
  readonly scoreOf: (query: number) => number;
}

/** Whether masked rows belong into one of the lists, given the kept ones. */
function needsMasked(kept: TopKAnswer, { k, scoreOf }: MaskedLists): boolean {
  const { scores, counts } = kept;
  if (scores === undefined) throw new RangeError("a masked search without scores");
  const width = scores.shape[1]!;
  for (let query = 0; query < scores.shape[0]!; query += 1) {
    const count = counts?.[query] ?? width;
    const last = (scores.data as Float32Array)[query * width + count - 1];
    if (count < k || !(last! > scoreOf(query))) return true;
  }
  return false;
}

/**
 * The best of both lists of each query: kept rows, and masked rows, which have the scores that were found or
 * all the same one.
 */
function withMasked(
  kept: TopKAnswer,
  masked: TopKAnswer,
  { k, scoreOf }: Pick<MaskedLists, "k"> & Partial<MaskedLists>,
): TopKAnswer {
  const lists = Array.from({ length: kept.scores!.shape[0]! }, (_, query) => {
    const score = scoreOf?.(query);
    const others = itemsOf(masked, query);
    const scored = score === undefined ? others : others.map((item) => withScore(item, score));
    return merged(itemsOf(kept, query), scored, k);
  });
  return answerOf(lists, k, kept);
}

function merged(
  left: readonly ListedItem[],
  right: readonly ListedItem[],
  k: number,
): readonly ListedItem[] {
  const list: ListedItem[] = [];
  for (let [a, b] = [0, 0]; list.length < k && a + b < left.length + right.length;) {
    const [one, other] = [left[a], right[b]];
    const isOne = one && (other === undefined || compareCandidates(one, other) < 0);
    list.push(isOne === true ? one : other!);
    if (isOne === true) a += 1;
    else b += 1;
  }
  return list;
}
