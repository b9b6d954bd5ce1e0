// A clock that stands still until a test moves it. Timers run in order of time, then of setting.

import type { Clock, Timer } from "@winnow/core";

interface Pending {
  readonly dueMs: number;
  readonly run: () => void;
}

/** Time under a test's control. */
export class ManualClock implements Clock {
  #nowMs = 0;
  readonly #pending = new Set<Pending>();

  nowMs(): number {
    return this.#nowMs;
  }

  setTimer(delayMs: number, run: () => void): Timer {
    const pending = { dueMs: this.#nowMs + Math.max(0, delayMs), run };
    this.#pending.add(pending);
    return pending as unknown as Timer;
  }

  clearTimer(timer: Timer): void {
    this.#pending.delete(timer as unknown as Pending);
  }

  /** How many timers are set. */
  get timers(): number {
    return this.#pending.size;
  }

  /** Moves time on, running what falls due and letting promises settle after each. */
  async advance(passMs: number): Promise<void> {
    const endMs = this.#nowMs + passMs;
    await settle();
    for (;;) {
      const next = [...this.#pending]
        .filter(({ dueMs }) => dueMs <= endMs)
        .toSorted((a, b) => a.dueMs - b.dueMs)[0];
      if (next === undefined) break;
      this.#pending.delete(next);
      this.#nowMs = next.dueMs;
      next.run();
      await settle();
    }
    this.#nowMs = endMs;
  }
}

/** Lets everything that only waits for promises go on. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 4; turn += 1) {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
}
