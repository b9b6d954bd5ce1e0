// How many rows per millisecond the workers answer when they are fully loaded. Only time in which slices wait
// counts, because an idle cluster answers no more than it is asked.

import type { Clock } from "@winnow/core";
import { SlidingSum } from "./sliding-sum.ts";

/** A shorter time says too little. */
const BUSY_MS_MIN = 200;

/** Measures the pace of a busy cluster over the last seconds. */
export class SearchPace {
  readonly #clock: Clock;
  readonly #rows: SlidingSum;
  readonly #busyMs: SlidingSum;
  #lastMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#rows = new SlidingSum(clock);
    this.#busyMs = new SlidingSum(clock);
    this.#lastMs = clock.nowMs();
  }

  /** Notes that rows were answered; `busy`: slices have been waiting since the last call. */
  note(rows: number, busy: boolean): void {
    const nowMs = this.#clock.nowMs();
    if (busy) {
      this.#rows.add(rows);
      this.#busyMs.add(nowMs - this.#lastMs);
    }
    this.#lastMs = nowMs;
  }

  /** Rows per ms; `undefined` if the last seconds were not busy for long enough. */
  rowsPerMs(): number | undefined {
    const busyMs = this.#busyMs.total;
    return busyMs < BUSY_MS_MIN ? undefined : this.#rows.total / busyMs;
  }
}
