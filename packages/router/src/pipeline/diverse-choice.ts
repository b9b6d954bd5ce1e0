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
  const norms = vectors.map((vector) => Math.sqrt(vector === undefined ? 0 : dot(vector, vector)));
  const likeness = new Float64Array(scores.length).fill(-Infinity);
  const open = Array.from(scores.keys());
  const taken: number[] = [];
  const valueOf = (place: number): number => {
    const unlike = taken.length === 0 ? 0 : (1 - balance) * likeness[place]!;
    return balance * relevance[place]! - unlike;
  };
  while (taken.length < count && open.length > 0) {
    const [best] = open.splice(firstLargest(open, valueOf), 1) as [number];
    taken.push(best);
    const [vector, norm] = [vectors[best], norms[best]!];
    for (const place of open) {
      const cosine = cosineOf(vectors[place], vector, norm * norms[place]!);
      if (cosine > likeness[place]!) likeness[place] = cosine;
      if (isTurnOver(1 + (vector?.length ?? 0))) yield;
    }
  }
  return taken;
}

/** The place of the first of the largest values. */
function firstLargest(places: readonly number[], valueOf: (place: number) => number): number {
  let bestAt = 0;
  let bestValue = valueOf(places[0]!);
  for (let at = 1; at < places.length; at += 1) {
    const value = valueOf(places[at]!);
    if (value > bestValue) [bestAt, bestValue] = [at, value];
  }
  return bestAt;
}

/** 0 if one of the vectors is missing or has length 0. */
function cosineOf(a: Float32Array | undefined, b: Float32Array | undefined, norms: number): number {
  return a !== undefined && b !== undefined && norms > 0 ? dot(a, b) / norms : 0;
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

function dot(a: Float32Array, b: Float32Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at += 1) sum += a[at]! * b[at]!;
  return sum;
}
