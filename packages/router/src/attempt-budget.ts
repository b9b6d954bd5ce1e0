// One budget for every second attempt, be it a retry (the first failed) or a hedge (the first is
// slow). Without it a cluster that is a little too slow is asked twice as much and becomes much too
// slow. Counted over a sliding window of 10 s in slots of one second:
//
//   second attempts ≤ ratio × first attempts + perSecond × 10
//
// Hedges may take half of it: they only save time, and must leave the retries that save a request.
// (Finagle and Envoy budget retries alike, at 20 %.)

import type { Clock } from "@winnow/core";
import type { SecondAttempt } from "./router-observer.ts";

const SLOTS = 10;
const SLOT_MS = 1000;
const HEDGE_SHARE = 0.5;
/** Thirds do not add up to ones exactly. */
const ROUNDING = 1e-6;

/** How many second attempts there may be. */
export interface AttemptBudgetLimits {
  /** Second attempts per first attempt. */
  readonly secondAttemptRatio: number;
  /** Second attempts per second, whatever the traffic. */
  readonly secondAttemptsPerSecond: number;
}

/** Counts attempts of the last ten seconds. */
export class AttemptBudget {
  readonly #clock: Clock;
  readonly #limits: AttemptBudgetLimits;
  readonly #first = new Float64Array(SLOTS);
  readonly #second = new Float64Array(SLOTS);
  #slot = 0;

  constructor(clock: Clock, limits: AttemptBudgetLimits) {
    this.#clock = clock;
    this.#limits = limits;
    this.#slot = this.#slotNow();
  }

  /** A first attempt is being made. */
  countFirst(): void {
    this.#turn();
    this.#first[this.#slot % SLOTS]! += 1;
  }

  /**
   * Takes the right to a second attempt, or says no. `weight` is its share of the first attempt's
   * work: a retry that is spread over two workers costs as much as one that is not.
   */
  takeSecond(kind: SecondAttempt, weight = 1): boolean {
    this.#turn();
    const allowed =
      this.#limits.secondAttemptRatio * sum(this.#first) +
      this.#limits.secondAttemptsPerSecond * SLOTS;
    const share = kind === "hedge" ? HEDGE_SHARE : 1;
    if (sum(this.#second) + weight > share * allowed + ROUNDING) return false;
    this.#second[this.#slot % SLOTS]! += weight;
    return true;
  }

  #slotNow(): number {
    return Math.floor(this.#clock.nowMs() / SLOT_MS);
  }

  /** Empties the slots that time has passed since the last call. */
  #turn(): void {
    const now = this.#slotNow();
    const passed = Math.min(SLOTS, now - this.#slot);
    for (let step = 1; step <= passed; step += 1) {
      this.#first[(this.#slot + step) % SLOTS] = 0;
      this.#second[(this.#slot + step) % SLOTS] = 0;
    }
    this.#slot = Math.max(this.#slot, now);
  }
}

function sum(values: Float64Array): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}
