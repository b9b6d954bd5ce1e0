// What happened in each of the last ten seconds: ten slices, of which the oldest is emptied for the present one.

import type { Clock } from "@winnow/core";

const SECONDS = 10;

/**
 * One slice for each of the last ten seconds; a slice is made when its turn first comes, and emptied whenever it comes
 * again. Of a worker that never answers, of which there may be thousands of names, none is made.
 */
export class RecentSeconds<Slice> {
  readonly #clock: Clock;
  readonly #slices: Slice[] = [];
  readonly #make: () => Slice;
  readonly #empty: (slice: Slice) => void;
  /** Of which second each slice is. */
  readonly #seconds = new Float64Array(SECONDS).fill(Number.NEGATIVE_INFINITY);

  constructor(clock: Clock, make: () => Slice, empty: (slice: Slice) => void) {
    this.#clock = clock;
    this.#make = make;
    this.#empty = empty;
  }

  /** The slice of the present second. */
  now(): Slice {
    const second = this.#second();
    const at = second % SECONDS;
    const slice = (this.#slices[at] ??= this.#make());
    if (this.#seconds[at] !== second) {
      this.#seconds[at] = second;
      this.#empty(slice);
    }
    return slice;
  }

  /** The slices of the last ten seconds in which there was something, in no order. */
  recent(): readonly Slice[] {
    const first = this.#second() - SECONDS;
    return this.#slices.filter((_, at) => this.#seconds[at]! > first);
  }

  #second(): number {
    return Math.floor(this.#clock.nowMs() / 1000);
  }
}
