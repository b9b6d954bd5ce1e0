// Which arm a key belongs to: weighted rendezvous hashing of the key, the salt, and the names and weights of
// the arms, and of nothing else. So every router chooses the same arm, also after a restart; the order of the
// arms does not matter; and if the weight of one arm grows, keys move only into that arm, never between
// others. Clients that record which user was in which arm rely on this, so the function must not change
// between releases (docs/experiments.md has it in Python).
//
//   u = the first 48 bits of SHA-256(salt, 0, name of the arm, 0, key), plus a half, over 2⁴⁸
//   the arm with the least −ln(u) / weight; of equals, the one whose name sorts first

import { createHash } from "node:crypto";
import type { ExperimentArm } from "@winnow/core";

/** The arms to choose from. No weight is negative, and at least one is positive. */
export type WeightedArm = Pick<ExperimentArm, "name" | "weight">;

const HASH_BYTES = 6;
const HASHES = 2 ** 48;

/** Position of the arm that a key belongs to; `key` holds its bytes. */
export function armOf(arms: readonly WeightedArm[], salt: string, key: Uint8Array): number {
  let chosen = -1;
  let least = Infinity;
  for (const [at, { name, weight }] of arms.entries()) {
    if (weight === 0) continue;
    const cost = -Math.log(uniformOf(salt, name, key)) / weight;
    // The first one may cost infinitely much: a weight of 1e-320 does.
    const isTie = chosen >= 0 && cost === least && name < arms[chosen]!.name;
    if (chosen < 0 || cost < least || isTie) [chosen, least] = [at, cost];
  }
  if (chosen < 0) throw new RangeError("no arm has a weight");
  return chosen;
}

/** A number between 0 and 1, both excluded. */
function uniformOf(salt: string, name: string, key: Uint8Array): number {
  const hash = createHash("sha256").update(`${salt}\0${name}\0`).update(key).digest();
  return (hash.readUIntBE(0, HASH_BYTES) + 0.5) / HASHES;
}
