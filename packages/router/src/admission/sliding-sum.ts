// What was counted in the last ten seconds, in slots of one second: old slots are emptied as time
// passes, so nothing is kept per event.

import type { Clock } from "@winnow/core";

const SLOTS = 10;
const SLOT_MS = 1000;

/** Length of the window: up to one slot less is counted. */
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

  /** Counts so much now. */
  add(value: number): void {
    this.#advance();
    this.#slots[this.#slot % SLOTS]! += value;
  }

  /** All that was counted within the window. */
  get total(): number {
    this.#advance();
    let total = 0;
    for (const value of this.#slots) total += value;
    return total;
  }

  #slotNow(): number {
    return Math.floor(this.#clock.nowMs() / SLOT_MS);
  }

  /** Empties the slots that time has passed since the last call. */
  #advance(): void {
    const now = this.#slotNow();
    const passed = Math.min(SLOTS, now - this.#slot);
    for (let step = 1; step <= passed; step += 1) {
      this.#slots[(this.#slot + step) % SLOTS] = 0;
    }
    this.#slot = Math.max(this.#slot, now);
  }
}
