// The sum of what was counted in the last ten seconds, in slots of one second. Old slots are emptied as time
// passes, so no memory is used per event.

import type { Clock } from "@winnow/core";

const SLOTS = 10;
const SLOT_MS = 1000;

/** Seconds that the sum covers; at times up to one slot less. */
export const SLIDING_SECONDS: number = (SLOTS * SLOT_MS) / 1000;

/** A sum over a sliding window. */
export class SlidingSum {
  readonly #clock: Clock;
  readonly #slots = new Float64Array(SLOTS);
  #slot: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#slot = this.#slotNow();
  }

  /** Adds a value, counted as of now. */
  add(value: number): void {
    this.#advance();
    this.#slots[this.#slot % SLOTS]! += value;
  }

  /** The sum of the values within the window. */
  get total(): number {
    this.#advance();
    let total = 0;
    for (const value of this.#slots) total += value;
    return total;
  }

  #slotNow(): number {
    return Math.floor(this.#clock.nowMs() / SLOT_MS);
  }

  /** Empties the slots whose time has passed since the last call. */
  #advance(): void {
    const now = this.#slotNow();
    const passed = Math.min(SLOTS, now - this.#slot);
    for (let step = 1; step <= passed; step += 1) {
      this.#slots[(this.#slot + step) % SLOTS] = 0;
    }
    this.#slot = Math.max(this.#slot, now);
  }
}
