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
// Masks of which each is for rows that those before it keep make one class each: of `f(s) - 1e9 · (seen + sold_out)`
//
//     seen and sold out                       f(s) - 2e9
//     else, seen or sold out                  f(s) - 1e9
//     else                                    f(s)
//
// A search is made for each class, and their lists make one: scores of a class are in the order of its functions.

import type { Filter } from "../../attributes/filter.ts";
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
  /** Whether it is only for rows that the masks before it keep. */
  readonly isElse?: boolean | undefined;
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
  let kept: readonly RowClass[] = [{ admits: [], functions: [] }];
  /** Rows that a mask left out, of which those behind it that are else ask no more. */
  let left: readonly RowClass[] = [];
  let done = 0;
  for (const mask of masks) {
    const between = functions.slice(done, mask.functionsBefore);
    const classes = mask.isElse === true ? kept : [...kept, ...left];
    const parts = divided(
      classes.map((each) => withFunctions(each, between)),
      mask,
    );
    left = mask.isElse === true ? [...left, ...parts.left] : parts.left;
    ({ kept } = parts);
    done = mask.functionsBefore;
  }
  const behind = functions.slice(done);
  const all = [...kept, ...left].map((each) => withFunctions(each, behind));
  const isOwn = ({ score }: RowClass): boolean => score === undefined;
  return [...all.filter(isOwn), ...all.filter((each) => !isOwn(each))];
}

/** The part of a question that is about filters: absent where all rows are admitted. */
export function admitting(admits: readonly Filter[]): { readonly admits?: readonly Filter[] } {
  return admits.length === 0 ? {} : { admits };
}

/** What decides how many searches a mask makes. */
interface Dividing {
  readonly penalty?: unknown;
  readonly isElse?: boolean | undefined;
}

/** How many searches masks make at most, if all rows that have one score are one search. */
export function searchesOf(masks: readonly Dividing[]): number {
  let [kept, left, replaced] = [1, 0, 0];
  for (const { penalty, isElse } of masks) {
    if (isElse === true) {
      left += kept;
      continue;
    }
    kept += left;
    left = penalty === undefined ? 0 : kept;
    if (penalty === undefined) replaced = 1;
  }
  return kept + left + replaced;
}

const MASKS_MAX = 8;
const SEARCHES_MAX = 33;

/** Whether one search may have such masks: each may double the classes of rows, and with them the searches. */
export function areSearched(masks: readonly Dividing[]): boolean {
  return masks.length <= MASKS_MAX && searchesOf(masks) <= SEARCHES_MAX;
}

/** The parts of classes that a mask keeps, and those that it leaves out. */
function divided(
  classes: readonly RowClass[],
  mask: BoundMask,
): { readonly kept: readonly RowClass[]; readonly left: readonly RowClass[] } {
  const { admits, others, penalty, bonus, score } = mask;
  const kept = classes.map((each) => withFunctions(within(each, admits), bonus ? [bonus] : []));
  if (penalty === undefined) return { kept, left: [{ admits: others, functions: [], score }] };
  const left = classes.map((each) => withFunctions(within(each, others), [penalty]));
  return { kept, left };
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
