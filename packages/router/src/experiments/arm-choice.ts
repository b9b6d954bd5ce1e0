// Which arm a key falls into: weighted rendezvous hashing, of nothing but the key, the salt, and the names and weights
// of the arms. So every router, after every restart, chooses the same; the order of arms means nothing; and where
// the weight of one arm grows, keys move into it alone, none between others. This is a promise to those who keep
// records of who was in which arm: it may not change from release to release (docs/experiments.md has it in Python).
//
//   u = the first 48 bits of SHA-256(salt, 0, name of the arm, 0, key), plus a half, over 2⁴⁸
//   the arm with the least −ln(u) / weight; of equals, the least name

import { createHash } from "node:crypto";
import type { ExperimentArm } from "@winnow/core";

/** What is chosen among; weights are at least 0, and one of them is more. */
export type WeightedArm = Pick<ExperimentArm, "name" | "weight">;

const HASH_BYTES = 6;
const HASHES = 2 ** 48;

/** Position of the arm of a key; `key` are its bytes. */
export function armOf(arms: readonly WeightedArm[], salt: string, key: Uint8Array): number {
  let chosen = -1;
  let least = Infinity;
  for (const [at, { name, weight }] of arms.entries()) {
    if (weight === 0) continue;
    const cost = -Math.log(uniformOf(salt, name, key)) / weight;
    const isTie = cost === least && name < arms[chosen]!.name;
    if (chosen < 0 || cost < least || isTie) [chosen, least] = [at, cost];
  }
  if (chosen < 0) throw new RangeError("no arm has a weight");
  return chosen;
}

/** More than 0 and less than 1. */
function uniformOf(salt: string, name: string, key: Uint8Array): number {
  const hash = createHash("sha256").update(`${salt}\0${name}\0`).update(key).digest();
  return (hash.readUIntBE(0, HASH_BYTES) + 0.5) / HASHES;
}
