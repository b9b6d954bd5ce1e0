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
 * taken. A value that is not up to date is therefore a bound: the candidates that are not above the best so far
 * are left as they are, and most are never compared with most of those taken.
 */
export function* marginallyRelevant(
  { scores, vectors }: Choice,
  { balance, count, isTurnOver }: Relevance,
): Generator<undefined, readonly number[]> {
  const relevance = scaled(scores);
  const dim = vectors.find((vector) => vector !== undefined)?.length ?? 0;
  const none = new Float32Array(dim);
  const rows = vectors.map((vector) => vector ?? none);
  const candidates: Compared = {
    rows,
    norms: Float64Array.from(rows, (row) => Math.sqrt(productOf(row, row))),
    balance,
    relevance,
    likeness: new Float64Array(scores.length).fill(-Infinity),
    values: Float64Array.from(relevance, (each) => balance * each),
    counts: new Uint32Array(scores.length),
  };
  const open = Array.from(scores.keys());
  const taken: number[] = [];
  while (taken.length < count && open.length > 0) {
    let bestAt = -1;
    let best = -Infinity;
    for (let at = 0; at < open.length; at += 1) {
      const products = compare(candidates, open[at]!, { taken, best });
      const value = candidates.values[open[at]!]!;
      if (bestAt < 0 || value > best) [bestAt, best] = [at, value];
      if (isTurnOver(1 + products * (1 + dim))) yield;
    }
    taken.push(...open.splice(bestAt, 1));
  }
  return taken;
}

/** Candidates by place, each compared with the first ones of those taken. */
interface Compared {
  readonly rows: readonly Float32Array[];
  readonly norms: Float64Array;
  readonly balance: number;
  readonly relevance: readonly number[];
  /** The largest cosine so far. */
  readonly likeness: Float64Array;
  /** The value by that cosine. */
  readonly values: Float64Array;
  /** How many of those taken each has been compared with. */
  readonly counts: Uint32Array;
}

/** Compares a candidate with those taken, as long as its value may be above `best`; gives the number of comparisons. */
function compare(
  { rows, norms, balance, relevance, likeness, values, counts }: Compared,
  place: number,
  { taken, best }: { readonly taken: readonly number[]; readonly best: number },
): number {
  const before = counts[place]!;
  let count = before;
  for (; count < taken.length; count += 1) {
    // Where no cosine counts yet, the first one may be negative and raise the value.
    if (values[place]! <= best && likeness[place]! > -Infinity) break;
    const other = taken[count]!;
    const norm = norms[other]! * norms[place]!;
    // An item without a vector, or with one of length 0, is like no other.
    const cosine = norm > 0 ? productOf(rows[place]!, rows[other]!) / norm : 0;
    if (!(cosine > likeness[place]!)) continue;
    likeness[place] = cosine;
    values[place] = balance * relevance[place]! - (1 - balance) * cosine;
  }
  counts[place] = count;
  return count - before;
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
