// A consistent-hash ring that is the same in every process: the points of workers and the places of
// partitions are words of sha256, and workers enter in sorted order. All workers in ring order are
// found in one walk, since a placement over hundreds of workers asks for them a thousand times.

import { createHash } from "node:crypto";
import type { WorkerId } from "@winnow/core";

/** Points and places lie below. */
const RANGE = 2 ** 29;
const POINTS_PER_WORKER = 160;
const WORDS_PER_DIGEST = 8;
/** A partition's place is made of so many bits of its digest. */
const PLACE_BITS = 24;

/** A ring of one membership; a change of membership makes a fresh one. */
export class Ring {
  /** Ascending; elsewhere workers are numbers, their positions in this list. */
  readonly #workers: readonly WorkerId[];
  /** Ascending. */
  readonly #points: Uint32Array;
  /** The worker of each point; a shared one belongs to the last worker that has it. */
  readonly #owners: Uint32Array;

  constructor(workers: readonly WorkerId[]) {
    this.#workers = workers.toSorted(compareNames);
    const owners = new Map<number, number>();
    for (const [number, worker] of this.#workers.entries()) {
      for (const point of controlPoints(worker)) owners.set(point, number);
    }
    this.#points = Uint32Array.from(owners.keys()).toSorted();
    this.#owners = this.#points.map((point) => owners.get(point)!);
  }

  /** All workers in the order in which the ring offers them for this name. */
  preferenceOf(name: string): readonly WorkerId[] {
    const preference: WorkerId[] = [];
    const isOffered = new Uint8Array(this.#workers.length);
    const offer = (number: number): void => {
      if (isOffered[number] === 1) return;
      isOffered[number] = 1;
      preference.push(this.#workers[number]!);
    };
    const start = this.#firstAtOrAfter(placeOf(name));
    const points = this.#points.length;
    for (let step = 0; step < points && preference.length < this.#workers.length; step += 1) {
      offer(this.#owners[(start + step) % points]!);
    }
    // Every point of a worker was taken by others: it still is a worker, the last to be offered.
    for (const number of this.#workers.keys()) offer(number);
    return preference;
  }

  /** The position of the first such point; past the last one the ring begins anew. */
  #firstAtOrAfter(place: number): number {
    let low = 0;
    let high = this.#points.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#points[middle]! < place) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** The first 160 distinct points of a worker: words of sha256(`worker#0`), sha256(`worker#1`), … */
function controlPoints(worker: string): ReadonlySet<number> {
  const points = new Set<number>();
  for (let round = 0; points.size < POINTS_PER_WORKER; round += 1) {
    const digest = createHash("sha256").update(`${worker}#${round}`).digest();
    for (let word = 0; word < WORDS_PER_DIGEST && points.size < POINTS_PER_WORKER; word += 1) {
      points.add(Math.floor((digest.readUInt32BE(word * 4) / 2 ** 32) * RANGE));
    }
  }
  return points;
}

/** Where a partition lies: the first bits of its name's sha256, over the whole range. */
function placeOf(name: string): number {
  const bits = createHash("sha256")
    .update(name)
    .digest()
    .readUIntBE(0, PLACE_BITS / 8);
  return bits * (RANGE / 2 ** PLACE_BITS);
}

/** By UTF-16 code units: the same in every locale. */
function compareNames(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
