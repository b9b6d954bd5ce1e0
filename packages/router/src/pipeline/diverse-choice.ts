// Which candidates of one list stay, and in which order, so that neighbours are less alike. Pure decisions:
// scores, values and vectors go in, places in the list come out.

import type { CandidateList } from "./candidates.ts";

/** The values of an attribute of one candidate: none, one, or the elements of a list. */
export type Values = readonly string[];

/** Places of the candidates of which no value has occurred `count` times before. */
export function atMost(values: readonly Values[], count: number): readonly number[] {
  const counts = new Map<string, number>();
  return [...values.keys()].filter((at) => {
    const own = values[at]!;
    if (own.some((value) => (counts.get(value) ?? 0) >= count)) return false;
    for (const value of own) counts.set(value, (counts.get(value) ?? 0) + 1);
    return true;
  });
}

/** Places of candidates, taking one of each value in turn. Candidates without a value are a group of their own. */
export function byTurns(values: readonly Values[]): readonly number[] {
  const groups = new Map<string | undefined, number[]>();
  for (const [at, [value]] of values.entries()) {
    const group = groups.get(value);
    if (group === undefined) groups.set(value, [at]);
    else group.push(at);
  }
  const turns = [...groups.values()];
  const longest = Math.max(0, ...turns.map((group) => group.length));
  return Array.from({ length: longest }, (_, turn) =>
    turns.flatMap((group) => group.slice(turn, turn + 1)),
  ).flat();
}

/** The candidates to choose from, best first. */
interface Choice extends Pick<CandidateList, "scores"> {
  /** All of one length; an item without a vector is like no other. */
  readonly vectors: readonly (Float32Array | undefined)[];
}

/** How to choose. */
interface Relevance {
  readonly balance: number;
  readonly count: number;
  /** Called with multiplications as they are done; `true`: other work should run before the next ones. */
  readonly isTurnOver: (multiplications: number) => boolean;
}

/**
 * Places of up to `count` candidates. Each is the one with the largest
 *
 *   balance × score − (1 − balance) × largest cosine to one that is taken
 *
 * with scores scaled so that the least is 0 and the largest 1; of equals, the first in the list. All in
 * float64, sums in the order of the values. Yields when a pause is due: one list may take a tenth of a
 * second.
 *
 * The largest cosine never falls, so a candidate's value never rises once it has been compared with one that is
 * taken; before that, it rises by no more than the least cosine allows. Both are bounds: the candidates that are not
 * above the best so far are left as they are, and most are never compared with most of those taken.
 */
export function* marginallyRelevant(
  { scores, vectors }: Choice,
  { balance, count, isTurnOver }: Relevance,
): Generator<undefined, readonly number[]> {
  const relevance = scaled(scores);
  const dim = vectors.find((vector) => vector !== undefined)?.length ?? 0;
  const none = new Float32Array(dim);
  const choice: OpenChoice = {
    rows: vectors.map((vector) => vector ?? none),
    dim,
    norms: new Float64Array(scores.length).fill(-1),
    balance,
    relevance,
    rise: (1 - balance) * LEAST_COSINE,
    likeness: new Float64Array(scores.length).fill(-Infinity),
    values: Float64Array.from(relevance, (each) => balance * each),
    counts: new Uint32Array(scores.length),
    open: Array.from(scores.keys()),
    taken: [],
    next: 0,
    bestAt: -1,
    best: -Infinity,
  };
  const { open, taken } = choice;
  while (taken.length < count && open.length > 0) {
    choice.next = 0;
    choice.bestAt = -1;
    choice.best = -Infinity;
    while (choice.next < open.length) if (isTurnOver(lookOn(choice))) yield;
    taken.push(...open.splice(choice.bestAt, 1));
  }
  return taken;
}

/** The size of the least cosine, with more than what rounding adds to it. */
const LEAST_COSINE = 1 + 1e-6;
/** Work between two questions whether the turn is over: asking for each candidate takes longer than most candidates. */
const WORK_AT_ONCE = 2 ** 13;

/** Candidates by place, each compared with the first ones of those taken; and how far the next one has been looked for. */
interface OpenChoice {
  readonly rows: readonly Float32Array[];
  readonly dim: number;
  /** -1 until it is needed. */
  readonly norms: Float64Array;
  readonly balance: number;
  readonly relevance: readonly number[];
  /** What the first comparison adds to a value, at most. */
  readonly rise: number;
  /** The largest cosine so far. */
  readonly likeness: Float64Array;
  /** The value by that cosine. */
  readonly values: Float64Array;
  /** How many of those taken each has been compared with. */
  readonly counts: Uint32Array;
  /** Places that are not taken, in order. */
  readonly open: number[];
  readonly taken: number[];
  /** The first of the open ones that has not been looked at. */
  next: number;
  /** The best of those before, -1 for none, and its value. */
  bestAt: number;
  best: number;
}

/** Looks at some more of the open candidates; gives the multiplications that it took. */
function lookOn(choice: OpenChoice): number {
  const { open, taken, counts, likeness, values, rise, dim } = choice;
  let { next, bestAt, best } = choice;
  let work = 0;
  for (; next < open.length && work < WORK_AT_ONCE; next += 1) {
    const place = open[next]!;
    work += 1;
    if (counts[place]! < taken.length) {
      const bound = likeness[place]! > -Infinity ? values[place]! : values[place]! + rise;
      if (bound <= best) continue;
      work += (1 + dim) * compare(choice, place, best);
    }
    const value = values[place]!;
    if (bestAt < 0 || value > best) {
      bestAt = next;
      best = value;
    }
  }
  choice.next = next;
  choice.bestAt = bestAt;
  choice.best = best;
  return work;
}

/** Compares a candidate with those taken, as long as its value may be above `best`; gives the number of comparisons. */
function compare(choice: OpenChoice, place: number, best: number): number {
  const { rows, balance, relevance, likeness, values, counts, taken } = choice;
  const own = normOf(choice, place);
  const before = counts[place]!;
  let count = before;
  for (; count < taken.length; count += 1) {
    // Where no cosine counts yet, the first one may be negative and raise the value.
    if (values[place]! <= best && likeness[place]! > -Infinity) break;
    const other = taken[count]!;
    const norm = normOf(choice, other) * own;
    // An item without a vector, or with one of length 0, is like no other.
    const cosine = norm > 0 ? productOf(rows[place]!, rows[other]!) / norm : 0;
    if (!(cosine > likeness[place]!)) continue;
    likeness[place] = cosine;
    values[place] = balance * relevance[place]! - (1 - balance) * cosine;
  }
  counts[place] = count;
  return count - before;
}

function normOf({ rows, norms }: OpenChoice, place: number): number {
  // Not for NaN, which no comparison finds below 0.
  if (norms[place]! < 0) norms[place] = Math.sqrt(productOf(rows[place]!, rows[place]!));
  return norms[place]!;
}

/** Scores scaled to 0…1; NaN counts as the least, an infinite score as the end on its side. */
function scaled(scores: readonly number[]): readonly number[] {
  const finite = scores.filter((score) => Number.isFinite(score));
  const least = finite.reduce((min, score) => Math.min(min, score), Infinity);
  const range = finite.reduce((max, score) => Math.max(max, score), -Infinity) - least;
  return scores.map((score) => {
    if (!Number.isFinite(score)) return score === Infinity ? 1 : 0;
    return range > 0 ? (score - least) / range : 1;
  });
}

/** The product of two rows. */
function productOf(row: Float32Array, other: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < row.length; at += 1) sum += row[at]! * other[at]!;
  return sum;
}
