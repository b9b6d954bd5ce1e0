// A consistent-hash ring that is the same in every process. The package draws random control points
// unless they are given, lets a shared point belong to whoever came last, and hashes similar names
// into few places; so points come from sha256, workers enter in sorted order, and a partition's own
// sha256 is smuggled through the package's hash (PJW is exact for three code units).

import { createHash } from "node:crypto";
import type { WorkerId } from "@winnow/core";
import ConsistentHash from "consistent-hash";

/** The largest useful range: the package's hash has 24 bits and is shifted left by 5. */
const RANGE = 2 ** 29;
const POINTS_PER_WORKER = 160;
const WORDS_PER_DIGEST = 8;
/** Workers that the ring is asked for at first: mostly one of them has room. */
const FIRST_ASKED = 8;

/** A ring of one membership; a change of membership makes a fresh one. */
export class Ring {
  readonly #ring: ConsistentHash;
  readonly #workers: readonly WorkerId[];

  constructor(workers: readonly WorkerId[]) {
    this.#ring = new ConsistentHash({ range: RANGE });
    this.#workers = workers.toSorted(compareNames);
    for (const worker of this.#workers) {
      this.#ring.add(worker, POINTS_PER_WORKER, controlPoints(worker));
    }
  }

  /**
   * All workers in the order in which the ring offers them for this name. They are looked up as they
   * are asked for: the package searches those it has found for each point, so that all of hundreds
   * take as long as thousands of the first eight.
   */
  preferenceOf(name: string): Iterable<WorkerId> {
    const key = ringKey(name);
    let known: readonly WorkerId[] = [];
    const more = (): void => {
      const wanted = Math.min(this.#workers.length, Math.max(FIRST_ASKED, 2 * known.length));
      known = this.#first(key, wanted);
    };
    const workers = this.#workers.length;
    return {
      *[Symbol.iterator]() {
        for (let index = 0; index < workers; index += 1) {
          if (index >= known.length) more();
          yield known[index]!;
        }
      },
    };
  }

  #first(key: string, count: number): readonly WorkerId[] {
    const found = this.#ring.get(key, count) ?? [];
    const preference = found.filter((worker) => worker !== undefined) as WorkerId[];
    if (preference.length === count) return preference;
    // Every point of a worker was taken by others: it still is a worker, the last to be offered.
    return [...preference, ...this.#workers.filter((worker) => !preference.includes(worker))];
  }
}

/** The first 160 distinct places of a worker: words of sha256(`worker#0`), sha256(`worker#1`), … */
function controlPoints(worker: string): readonly number[] {
  const points = new Set<number>();
  for (let round = 0; points.size < POINTS_PER_WORKER; round += 1) {
    const digest = createHash("sha256").update(`${worker}#${round}`).digest();
    for (let word = 0; word < WORDS_PER_DIGEST && points.size < POINTS_PER_WORKER; word += 1) {
      points.add(Math.floor((digest.readUInt32BE(word * 4) / 2 ** 32) * RANGE));
    }
  }
  return [...points];
}

/** Three code units whose PJW hash is the first 24 bits of the name's sha256. */
function ringKey(name: string): string {
  const hash = createHash("sha256").update(name).digest().readUIntBE(0, 3);
  return String.fromCodePoint(hash >>> 8, (hash >>> 4) & 15, hash & 15);
}

/** By UTF-16 code units: the same in every locale. */
function compareNames(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
