// How much a worker scans at once: it counts its scans and their query vectors, of all routers, and tells both with
// each pong; what it counted in the last 10 s is the difference.

import type { Clock } from "@winnow/core";
import type { ScanCounts } from "@winnow/cluster";

const WINDOW_MS = 10_000;
/** Between counts that are kept, of which there are few so. */
const APART_MS = 500;

interface Told extends ScanCounts {
  readonly atMs: number;
}

/** The recent scans of one worker. */
export class ScanWindow {
  readonly #clock: Clock;
  /** Oldest first; the first may be older than the window. */
  #told: Told[] = [];
  #last: ScanCounts | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The worker tells its counts; `undefined`: it does not count, or is away. */
  note(counts: ScanCounts | undefined): void {
    if (counts === undefined || counts.batches < (this.#last?.batches ?? 0)) this.#told = [];
    this.#last = counts;
    const atMs = this.#clock.nowMs();
    const before = this.#told.at(-1);
    if (counts === undefined || (before && atMs - before.atMs < APART_MS)) return;
    this.#told.push({ ...counts, atMs });
    while (this.#told.length > 1 && this.#told[1]!.atMs <= atMs - WINDOW_MS) this.#told.shift();
  }

  /** Counts of the last 10 s; `undefined`: nothing was scanned, or it is not told. */
  recent(): ScanCounts | undefined {
    const sinceMs = this.#clock.nowMs() - WINDOW_MS;
    const first = this.#told.findLast(({ atMs }) => atMs <= sinceMs) ?? this.#told[0];
    if (first === undefined || this.#last === undefined) return undefined;
    const batches = this.#last.batches - first.batches;
    if (batches <= 0) return undefined;
    return { batches, queries: this.#last.queries - first.queries };
  }
}
