// The environment of tests with real sockets and timers: the machine's clock, no log, and random numbers that
// are the same in every run.

import { silentLogger, systemClock } from "@winnow/core";
import type { Environment } from "@winnow/core";

/** Numbers in [0, 1), the same for the same seed (mulberry32, public domain). */
function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Random numbers of seed 1: each file of tests has its own sequence. */
export const seededEnvironment: Environment = {
  clock: systemClock,
  random: seededRandom(1),
  log: silentLogger,
};
