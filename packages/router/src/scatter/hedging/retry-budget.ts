// One budget for every second attempt that adds load: hedges, and retries while the first worker may still
// compute or has computed for nothing. Without a budget, a cluster that is a little too slow would be asked twice
// as much and become much too slow. Counted over a sliding window of 10 s:
//
//   second attempts ≤ ratio × first attempts + perSecond × 10
//
// A question whose connection broke is asked again outside of the budget: the load of that worker is gone,
// and no request may fail because many of them were under way when one worker died.
//
// Hedges may use half of the budget: they only save time, and must leave room for retries, which save
// requests. (Finagle and Envoy budget retries alike, at 20 %.)

import type { Clock } from "@winnow/core";
import type { SecondAttempt } from "../../router-observer.ts";
import { SLIDING_SECONDS, SlidingSum } from "../../admission/sliding-sum.ts";

const HEDGE_FRACTION = 0.5;
/** Three thirds do not add up to exactly 1. */
const ROUNDING = 1e-6;

/** How many second attempts are allowed. */
export interface RetryBudgetLimits {
  /** Second attempts per first attempt. */
  readonly secondAttemptRatio: number;
  /** Second attempts per second, whatever the traffic. */
  readonly secondAttemptsPerSecond: number;
}

/** Counts attempts of the last ten seconds. */
export class RetryBudget {
  readonly #limits: RetryBudgetLimits;
  readonly #first: SlidingSum;
  readonly #second: SlidingSum;

  constructor(clock: Clock, limits: RetryBudgetLimits) {
    this.#limits = limits;
    this.#first = new SlidingSum(clock);
    this.#second = new SlidingSum(clock);
  }

  /** Counts a first attempt. */
  countFirst(): void {
    this.#first.add(1);
  }

  /**
   * Whether a second attempt is within the budget. `weight` is its fraction of the first attempt's work: a
   * retry that is spread over two workers costs as much as one that is not.
   */
  allowsSecond(kind: SecondAttempt, weight = 1): boolean {
    const allowed =
      this.#limits.secondAttemptRatio * this.#first.total +
      this.#limits.secondAttemptsPerSecond * SLIDING_SECONDS;
    const fraction = kind === "hedge" ? HEDGE_FRACTION : 1;
    return this.#second.total + weight <= fraction * allowed + ROUNDING;
  }

  /** Counts a second attempt of this weight. */
  countSecond(weight = 1): void {
    this.#second.add(weight);
  }
}
