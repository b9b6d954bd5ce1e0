// How many rows the workers answer per millisecond when they have all they can do. Only time in which
// something waits counts: an idle cluster answers no more than it is asked.

import type { Clock } from "@winnow/core";
import { SlidingSum } from "./sliding-sum.ts";

/** Less than this says too little. */
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

  /** So many rows were answered; `busy`: something has been waiting ever since the last call. */
  note(rows: number, busy: boolean): void {
    const nowMs = this.#clock.nowMs();
    if (busy) {
      this.#rows.add(rows);
      this.#busyMs.add(nowMs - this.#lastMs);
    }
    this.#lastMs = nowMs;
  }

  /** `undefined` where the last seconds do not tell. */
  rowsPerMs(): number | undefined {
    const busyMs = this.#busyMs.total;
    return busyMs < BUSY_MS_MIN ? undefined : this.#rows.total / busyMs;
  }
}
