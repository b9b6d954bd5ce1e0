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
 */
export function* marginallyRelevant(
  { scores, vectors }: Choice,
  { balance, count, isTurnOver }: Relevance,
): Generator<undefined, readonly number[]> {
  const relevance = scaled(scores);
  const dim = vectors.find((vector) => vector !== undefined)?.length ?? 0;
  const none = new Float32Array(dim);
  const rows = vectors.map((vector) => vector ?? none);
  const norms = Float64Array.from(rows, (row) => Math.sqrt(squareOf(row)));
  const likeness = new Float64Array(scores.length).fill(-Infinity);
  const products = new Float64Array(ROWS_AT_ONCE);
  const values = Float64Array.from(relevance, (each) => balance * each);
  const open = Array.from(scores.keys());
  const taken: number[] = [];
  while (taken.length < count && open.length > 0) {
    const [best] = open.splice(firstLargest(open, values), 1) as [number];
    taken.push(best);
    for (let from = 0; from < open.length; from += ROWS_AT_ONCE) {
      const end = Math.min(from + ROWS_AT_ONCE, open.length);
      multiply(rows, { best, open, from, products });
      for (let at = from; at < end; at += 1) {
        const place = open[at]!;
        const norm = norms[best]! * norms[place]!;
        // An item without a vector, or with one of length 0, is like no other.
        const cosine = norm > 0 ? products[at - from]! / norm : 0;
        if (!(cosine > likeness[place]!)) continue;
        likeness[place] = cosine;
        values[place] = balance * relevance[place]! - (1 - balance) * cosine;
      }
      if (isTurnOver(ROWS_AT_ONCE * (1 + dim))) yield;
    }
  }
  return taken;
}

/** Rows that are multiplied at once: a sum waits for its last addition, but four sums do not wait for each other. */
const ROWS_AT_ONCE = 4;

/** The products of the row that was taken with the next open ones. */
function multiply(
  rows: readonly Float32Array[],
  {
    best,
    open,
    from,
    products,
  }: {
    readonly best: number;
    readonly open: readonly number[];
    readonly from: number;
    readonly products: Float64Array;
  },
): void {
  const last = open.length - 1;
  const row = rows[best]!;
  const a = rows[open[from]!]!;
  const b = rows[open[Math.min(from + 1, last)]!]!;
  const c = rows[open[Math.min(from + 2, last)]!]!;
  const d = rows[open[Math.min(from + 3, last)]!]!;
  let [ofA, ofB, ofC, ofD] = [0, 0, 0, 0];
  for (let at = 0; at < row.length; at += 1) {
    const value = row[at]!;
    ofA += a[at]! * value;
    ofB += b[at]! * value;
    ofC += c[at]! * value;
    ofD += d[at]! * value;
  }
  products[0] = ofA;
  products[1] = ofB;
  products[2] = ofC;
  products[3] = ofD;
}

/** The place of the first of the largest values. */
function firstLargest(places: readonly number[], values: Float64Array): number {
  let bestAt = 0;
  for (let at = 1; at < places.length; at += 1) {
    if (values[places[at]!]! > values[places[bestAt]!]!) bestAt = at;
  }
  return bestAt;
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

/** The product of a row with itself. */
function squareOf(row: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < row.length; at += 1) sum += row[at]! * row[at]!;
  return sum;
}
