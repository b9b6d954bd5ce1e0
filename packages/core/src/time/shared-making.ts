// A value that costs much to make and that many may ask for, such as a page of metrics.

import { type Clock, sleep, systemClock } from "./clock.ts";
import { nextLoopTurn } from "./loop-turn.ts";

/** How many times as long as the last value took nothing is made: a tenth of the time at most is spent on it. */
const REST = 9;
/** Whoever asks does not wait for longer than that, as a scraper gives up after some seconds. */
const REST_MS_MAX = 1000;

/**
 * Makes a value for all that ask for it before it is begun, in the next turn of the event loop, or once as much time has
 * gone by since the last one that a crowd leaves room for other work. It is never older than a question for it.
 */
export function sharedMaking<Value>(
  make: () => Promise<Value>,
  clock: Clock = systemClock,
): () => Promise<Value> {
  let asked: Promise<Value> | undefined;
  let restsUntilMs = 0;
  const made = async (): Promise<Value> => {
    const restMs = restsUntilMs - clock.nowMs();
    await (restMs > 0 ? sleep(clock, restMs) : nextLoopTurn());
    asked = undefined;
    const startMs = clock.nowMs();
    try {
      return await make();
    } finally {
      const endMs = clock.nowMs();
      restsUntilMs = endMs + Math.min(REST * (endMs - startMs), REST_MS_MAX);
    }
  };
  return () => (asked ??= made());
}
