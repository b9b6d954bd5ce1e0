// A judgement waits until this process has listened for the whole delay.

import { describe, expect, test } from "vitest";
import type { Clock } from "./clock.ts";
import { setGraceTimer } from "./grace-timer.ts";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";

/** A process whose event loop can be blocked. */
class Loop implements Clock {
  readonly #clock = new ManualClock();
  #heldMs = 0;
  /** Ms by which every timer is late. */
  lagMs = 0;

  nowMs(): number {
    return this.#clock.nowMs() + this.#heldMs;
  }

  setTimer(delayMs: number, run: () => void): ReturnType<Clock["setTimer"]> {
    return this.#clock.setTimer(delayMs, () => {
      this.#heldMs += this.lagMs;
      run();
    });
  }

  clearTimer(timer: Parameters<Clock["clearTimer"]>[0]): void {
    this.#clock.clearTimer(timer);
  }

  /** Lets time pass; timers run. */
  run(durationMs: number): void {
    this.#clock.advance(durationMs);
  }

  /** Lets time pass; no timer runs. */
  block(durationMs: number): void {
    this.#heldMs += durationMs;
  }

  get pendingTimers(): number {
    return this.#clock.pendingTimers;
  }
}

function judged(loop: Loop, delayMs: number) {
  const at: number[] = [];
  const timer = setGraceTimer(loop, { delayMs, ownLagMs: 20 }, () => at.push(loop.nowMs()));
  return { at, timer };
}

describe("setGraceTimer", () => {
  test.each([5, 100, 300, 333])("decides on time where nothing is late: %i ms", (delayMs) => {
    const loop = new Loop();
    const { at } = judged(loop, delayMs);

    loop.run(1000);

    expect(at).toEqual([delayMs]);
    expect(loop.pendingTimers).toBe(0);
  });

  test.each([
    { slicesMax: undefined, times: 10 },
    { slicesMax: 4, times: 4 },
  ])("a wait of many seconds wakes the process $times times", ({ slicesMax, times }) => {
    const loop = new Loop();
    let woken = 0;
    const clock: Clock = {
      nowMs: () => loop.nowMs(),
      setTimer: (delayMs, run) => {
        woken += 1;
        return loop.setTimer(delayMs, run);
      },
      clearTimer: (timer) => loop.clearTimer(timer),
    };

    setGraceTimer(clock, { delayMs: 60_000, ...(slicesMax && { slicesMax }) }, () => undefined);
    loop.run(120_000);

    expect(woken).toBe(times);
  });

  test.each([
    { ranMs: 0, blockedMs: 4000 },
    { ranMs: 150, blockedMs: 4000 },
    { ranMs: 299, blockedMs: 400 },
  ])(
    "a block of $blockedMs ms after $ranMs ms leaves the peer what it had left",
    ({ ranMs, blockedMs }) => {
      const loop = new Loop();
      const { at } = judged(loop, 300);

      loop.run(ranMs);
      loop.block(blockedMs);
      loop.run(1000);

      expect(at).toHaveLength(1);
      expect(at[0]).toBeGreaterThanOrEqual(300 + blockedMs);
      expect(at[0]).toBeLessThanOrEqual(300 + blockedMs + 105);
    },
  );

  test("a judgement that is late gives what has arrived a turn to be read", () => {
    const loop = new Loop();
    const { at, timer } = judged(loop, 40);
    loop.run(39);
    loop.block(25);

    loop.run(1);
    timer.clear();
    loop.run(1000);

    expect(at).toEqual([]);
    expect(loop.pendingTimers).toBe(0);
  });

  test("a process that is late all the time judges all the same", () => {
    const loop = new Loop();
    loop.lagMs = 500;
    const { at } = judged(loop, 300);

    loop.run(10_000);

    expect(at).toHaveLength(1);
  });

  test("cleared, it decides nothing and leaves no timer", () => {
    const loop = new Loop();
    const { at, timer } = judged(loop, 300);

    loop.run(250);
    timer.clear();
    loop.run(1000);

    expect(at).toEqual([]);
    expect(loop.pendingTimers).toBe(0);
  });
});
