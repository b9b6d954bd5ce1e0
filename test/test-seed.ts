// The seed of one run of the tests: fixed, or the one that TEST_SEED names, or drawn where that is "random".

import { randomInt } from "node:crypto";

const DEFAULT_SEED = 1;
const SEED_MAX = 2 ** 31 - 1;

/** The seed for `TEST_SEED`, which may be absent or empty. @throws RangeError where it is no seed */
export function testSeedOf(variable: string | undefined): number {
  if (variable === undefined || variable === "") return DEFAULT_SEED;
  if (variable === "random") return randomInt(SEED_MAX);
  const seed = Number(variable);
  if (Number.isSafeInteger(seed) && seed >= 0 && seed <= SEED_MAX) return seed;
  throw new RangeError(
    `TEST_SEED is a whole number up to ${SEED_MAX}, or "random", not "${variable}"`,
  );
}
