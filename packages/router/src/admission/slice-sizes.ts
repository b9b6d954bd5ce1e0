// How many queries a slice may hold. Whoever asks for one instance waits until the scan that runs has ended,
// so while such requests come, slices are as small as a scan of some milliseconds; where nobody asks for few
// instances, large slices cost less for each. Slices that fill a scan by themselves tell how long a query of
// their table takes.

import type { CandidateTable, Clock } from "@winnow/core";

/** Searches of so few queries count as ones that should not wait. */
const FEW_QUERIES = 32;
/** How long after one of them slices stay small. */
const FEW_MS = 10_000;
/** A scan of a slice then takes about as long as this, at most, where the slice can be made smaller. */
const SCAN_MS_MAX = 10;
/**
 * As many queries as a worker scans together by default. Slices of fewer would share a scan with others, and
 * a scan of fewer costs more for each.
 */
const QUERIES_MIN = 64;
/** The weight of the latest slice in the mean. */
const NEWEST = 1 / 4;

/** How long workers lately scanned for a query, by table, and whether searches came that should not wait for much of it. */
export class SliceSizes {
  readonly #clock: Clock;
  readonly #msPerQuery = new WeakMap<CandidateTable, number>();
  #fewUntilMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes how many milliseconds a worker took to scan for a slice, with whatever shared its scan. */
  note(table: CandidateTable, queries: number, scanMs: number): void {
    // A smaller slice may have shared its scan with others, whose number is not known here.
    if (queries < QUERIES_MIN) return;
    const ms = scanMs / queries;
    const before = this.#msPerQuery.get(table) ?? ms;
    this.#msPerQuery.set(table, before + (ms - before) * NEWEST);
  }

  /** The most queries that a slice of a search of so many queries should hold; infinite where it does not matter. */
  queriesMax(table: CandidateTable, queries: number): number {
    const nowMs = this.#clock.nowMs();
    if (queries <= FEW_QUERIES) this.#fewUntilMs = nowMs + FEW_MS;
    const ms = this.#msPerQuery.get(table);
    if (ms === undefined || nowMs >= this.#fewUntilMs) return Number.POSITIVE_INFINITY;
    return Math.max(QUERIES_MIN, Math.floor(SCAN_MS_MAX / ms));
  }
}
