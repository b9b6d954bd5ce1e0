// Repeatable random numbers: the same words give the same numbers on every machine. Question 17 of a run can
// be made without the sixteen before it, so a run may stop, continue, and be divided among connections.

/** A number in [0, 1), like `Math.random`. */
export type Random = () => number;

/** The random numbers of these words (xmur3 as the seed, mulberry32 as the generator; both public domain). */
export function seededRandom(...words: readonly (string | number)[]): Random {
  const text = words.join("\u0000");
  let hash = 1779033703 ^ text.length;
  for (let at = 0; at < text.length; at += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 3432918353);
    hash = (hash << 13) | (hash >>> 19);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 2246822507);
  hash = Math.imul(hash ^ (hash >>> 13), 3266489909);
  let state = (hash ^ (hash >>> 16)) >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A whole number from 0 up to `count` − 1. */
export function draw(random: Random, count: number): number {
  return Math.floor(random() * count);
}

/** One of these. */
export function pick<Value>(random: Random, values: readonly [Value, ...Value[]]): Value {
  return values[draw(random, values.length)]!;
}
