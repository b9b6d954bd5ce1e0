// Rows that the masks of a search treat alike. A mask cuts each class in two: rows that it keeps, and all others, which
// have one score from there on, or their own with a penalty.
//
//   f(s) ─▶ mask a: -∞ for others ─▶ g ─▶ mask b: -1e9 for others
//
//     a and b           g(f(s))
//     a, but not b      g(f(s)) - 1e9
//     not a, but b      g(-∞)               one score for all of them, whatever their vectors are
//     neither           g(-∞) - 1e9
//
// A search is made for each class, and their lists make one: scores of a class are in the order of its functions.

import type { Filter } from "../../attributes/filter.ts";
import type { SearchMask } from "../program.ts";
import type { BoundFunction } from "./score-functions.ts";

/** A mask with what a request makes of it. */
export interface BoundMask {
  /** Rows that are kept, and all others: one filter for all queries, or one for each. */
  readonly admits: readonly Filter[];
  readonly others: readonly Filter[];
  /** Of rows that are not kept, where there is no penalty. */
  readonly score: number;
  /** What is done to the scores of rows that are not kept, where they keep any. */
  readonly penalty?: BoundFunction | undefined;
  /** What is done to the scores of rows that are kept. */
  readonly bonus?: BoundFunction | undefined;
  readonly functionsBefore: number;
}

/** Rows whose scores become of a search's scores in the same way. */
export interface RowClass {
  /** One filter for all queries, or one for each; none: all rows. */
  readonly admits: readonly Filter[];
  /** What the scores go through. */
  readonly functions: readonly BoundFunction[];
  /** The score of all of them before these functions; absent: each has its own. */
  readonly score?: number | undefined;
}

/** The classes of rows, first those whose scores no mask replaces. */
export function rowClassesOf(
  functions: readonly BoundFunction[],
  masks: readonly BoundMask[],
): readonly RowClass[] {
  let classes: readonly RowClass[] = [{ admits: [], functions: [] }];
  let done = 0;
  for (const mask of masks) {
    const between = functions.slice(done, mask.functionsBefore);
    classes = divided(
      classes.map((each) => withFunctions(each, between)),
      mask,
    );
    done = mask.functionsBefore;
  }
  const behind = functions.slice(done);
  const all = classes.map((each) => withFunctions(each, behind));
  const isOwn = ({ score }: RowClass): boolean => score === undefined;
  return [...all.filter(isOwn), ...all.filter((each) => !isOwn(each))];
}

/** The part of a question that is about filters: absent where all rows are admitted. */
export function admitting(admits: readonly Filter[]): { readonly admits?: readonly Filter[] } {
  return admits.length === 0 ? {} : { admits };
}

/** How many searches masks make at most, if all rows that have one score are one search. */
export function searchesOf(masks: readonly SearchMask[]): number {
  const replacing = masks.filter(({ penalty }) => penalty === undefined).length;
  return 2 ** (masks.length - replacing) + Math.min(1, replacing);
}

function divided(classes: readonly RowClass[], mask: BoundMask): readonly RowClass[] {
  const { admits, others, penalty, bonus, score } = mask;
  const kept = classes.map((each) => withFunctions(within(each, admits), bonus ? [bonus] : []));
  if (penalty === undefined) return [...kept, { admits: others, functions: [], score }];
  const changed = classes.map((each) => withFunctions(within(each, others), [penalty]));
  return [...kept, ...changed];
}

function withFunctions(one: RowClass, functions: readonly BoundFunction[]): RowClass {
  return { ...one, functions: [...one.functions, ...functions] };
}

/** The rows of a class that filters admit as well. */
function within(one: RowClass, filters: readonly Filter[]): RowClass {
  const { admits } = one;
  if (admits.length === 0) return { ...one, admits: filters };
  const both = Array.from({ length: Math.max(admits.length, filters.length) }, (_, query) => {
    return { kind: "and", of: [filterAt(admits, query), filterAt(filters, query)] } as const;
  });
  return { ...one, admits: both };
}

function filterAt(filters: readonly Filter[], query: number): Filter {
  return filters[filters.length > 1 ? query : 0]!;
}
