// A consistent-hash ring that is the same in every process. The package `consistent-hash` draws
// random control points unless they are given, gives a point that two workers share to the worker
// added last, and hashes similar names to few positions. Therefore control points come from sha256,
// workers are added in sorted order, and a partition is looked up by a key of three code units: the
// package's hash (PJW, exact for three code units) turns it into the first 24 bits of the sha256 of
// the name.
//
//   workers ─ sha256, kept by name ─▶ points, sorted ─ the next ones after a name ─▶ consistent-hash ─▶ workers in order
//
// The package is given only the points that come next after a name's position: the answer is the same, and to map and
// sort all points takes it seconds for thousands of workers, in one turn of the event loop, whenever one comes or goes.

import { createHash } from "node:crypto";
import type { WorkerId } from "@winnow/core";
import ConsistentHash from "consistent-hash";

/** The largest useful range: the package's hash has 24 bits and is shifted left by 5. */
const RANGE = 2 ** 29;
const KEY_SHIFT = 5;
const POINTS_PER_WORKER = 160;
const WORDS_PER_DIGEST = 8;
/** Workers that the first look-up of a partition asks for: mostly one of them has room. */
const FIRST_ASKED = 8;
/** Points that the package is given at first for each worker that is asked for. */
const POINTS_PER_ASKED = 4;
/** Workers in a ring, at most: a point and its worker's number are sorted as one number. */
const WORKERS_MAX = 2 ** 16;

/** A ring of one membership; a change of membership makes a fresh one. */
export class Ring {
  readonly #workers: readonly WorkerId[];
  /** Control points of all workers, ascending, each once. */
  readonly #points: Uint32Array;
  /** The number of each point's worker. */
  readonly #owners: Uint16Array;

  /** @throws RangeError for more than 65,536 workers */
  constructor(workers: readonly WorkerId[]) {
    if (workers.length > WORKERS_MAX) throw new RangeError(`A ring of ${workers.length} workers`);
    this.#workers = workers.toSorted(compareNames);
    const placed = sortedPoints(this.#workers);
    this.#points = new Uint32Array(placed.length);
    this.#owners = new Uint16Array(placed.length);
    for (let at = 0; at < placed.length; at += 1) {
      const point = Math.floor(placed[at]! / WORKERS_MAX);
      this.#points[at] = point;
      this.#owners[at] = placed[at]! - point * WORKERS_MAX;
    }
  }

  /**
   * All workers in ring order from the position of this name. They are looked up lazily, because
   * the package searches the workers found so far at each point: the whole order of hundreds of
   * workers takes as long as thousands of look-ups of the first eight.
   */
  preferenceOf(name: string): Iterable<WorkerId> {
    const hash = createHash("sha256").update(name).digest().readUIntBE(0, 3);
    let known: readonly WorkerId[] = [];
    const more = (): void => {
      const wanted = Math.min(this.#workers.length, Math.max(FIRST_ASKED, 2 * known.length));
      known = this.#first(hash, wanted);
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

  #first(hash: number, count: number): readonly WorkerId[] {
    const from = this.#next(hash << KEY_SHIFT);
    let points = Math.min(this.#points.length, POINTS_PER_ASKED * count);
    let found = this.#arc(from, points).get(ringKey(hash), count) ?? [];
    while (found.length < count && points < this.#points.length) {
      points = Math.min(this.#points.length, 2 * points);
      found = this.#arc(from, points).get(ringKey(hash), count) ?? [];
    }
    const preference = found as WorkerId[];
    if (preference.length === count) return preference;
    // The ring does not find a worker all of whose points belong to others: such workers come last.
    const named = new Set(preference);
    return [...preference, ...this.#workers.filter((worker) => !named.has(worker))];
  }

  /** The place of the first point at or after a position; beyond the last point, the first one. */
  #next(position: number): number {
    let [low, high] = [0, this.#points.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#points[middle]! < position) low = middle + 1;
      else high = middle;
    }
    return low === this.#points.length ? 0 : low;
  }

  /** A ring of so many points from a place on. */
  #arc(from: number, points: number): ConsistentHash {
    const byWorker = new Map<WorkerId, number[]>();
    for (let step = 0; step < points; step += 1) {
      const at = (from + step) % this.#points.length;
      const worker = this.#workers[this.#owners[at]!]!;
      const own = byWorker.get(worker);
      if (own === undefined) byWorker.set(worker, [this.#points[at]!]);
      else own.push(this.#points[at]!);
    }
    const ring = new ConsistentHash({ range: RANGE });
    for (const [worker, own] of byWorker) ring.add(worker, own.length, own);
    return ring;
  }
}

/** The control points of all workers, ascending and each once, each as point × `WORKERS_MAX` + the number of its worker. */
function sortedPoints(workers: readonly WorkerId[]): Float64Array {
  const placed = new Float64Array(workers.length * POINTS_PER_WORKER);
  for (let worker = 0; worker < workers.length; worker += 1) {
    const points = controlPoints(workers[worker]!);
    for (let at = 0; at < POINTS_PER_WORKER; at += 1) {
      placed[worker * POINTS_PER_WORKER + at] = points[at]! * WORKERS_MAX + worker;
    }
  }
  placed.sort();
  let distinct = 0;
  for (let at = 0; at < placed.length; at += 1) {
    const following = placed[at + 1] ?? Infinity;
    // A point that workers share belongs to the last of them.
    if (Math.floor(placed[at]! / WORKERS_MAX) === Math.floor(following / WORKERS_MAX)) continue;
    placed[distinct] = placed[at]!;
    distinct += 1;
  }
  return placed.subarray(0, distinct);
}

/** Workers whose points are kept: of a cluster of any size, as rings are made anew whenever one worker comes or goes. */
const KEPT_MAX = 8192;
const kept = new Map<string, Uint32Array>();

/** 160 distinct positions of a worker: words of sha256(`worker#0`), sha256(`worker#1`), … */
function controlPoints(worker: string): Uint32Array {
  const known = kept.get(worker);
  if (known !== undefined) return known;
  const points = new Set<number>();
  for (let round = 0; points.size < POINTS_PER_WORKER; round += 1) {
    const digest = createHash("sha256").update(`${worker}#${round}`).digest();
    for (let word = 0; word < WORDS_PER_DIGEST && points.size < POINTS_PER_WORKER; word += 1) {
      points.add(Math.floor((digest.readUInt32BE(word * 4) / 2 ** 32) * RANGE));
    }
  }
  if (kept.size >= KEPT_MAX) kept.clear();
  const made = Uint32Array.from(points);
  kept.set(worker, made);
  return made;
}

/** Three code units whose PJW hash these 24 bits are. */
function ringKey(hash: number): string {
  return String.fromCodePoint(hash >>> 8, (hash >>> 4) & 15, hash & 15);
}

/** Compares by UTF-16 code units: the same order in every locale. */
function compareNames(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
