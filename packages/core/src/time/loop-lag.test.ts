// What a page of metrics says of the event loop.

import { expect, test } from "vitest";

import { LAG_TIMER_MS, takeOffLagTimer } from "./loop-lag.ts";

test("the timer's own interval is no lag, and other metrics stay as they are", () => {
  const told: Record<string, number> = {};
  const gaugeOf = (name: string) => ({
    set: (_labels: object, seconds: number) => {
      told[name] = seconds;
    },
  });
  const gauges = new Map(
    ["lag_min", "lag_p99", "lag_stddev"].map((name) => {
      const whole = `nodejs_eventloop_${name}_seconds`;
      return [whole, gaugeOf(whole)] as const;
    }),
  );

  takeOffLagTimer((name) => gauges.get(name));
  for (const [name, seconds] of [
    ["lag_min", LAG_TIMER_MS / 1000 - 0.001],
    ["lag_p99", LAG_TIMER_MS / 1000 + 0.3],
    ["lag_stddev", 0.1],
  ] as const) {
    gauges.get(`nodejs_eventloop_${name}_seconds`)!.set({}, seconds);
  }

  expect(told["nodejs_eventloop_lag_min_seconds"]).toBe(0);
  expect(told["nodejs_eventloop_lag_p99_seconds"]).toBeCloseTo(0.3);
  expect(told["nodejs_eventloop_lag_stddev_seconds"]).toBe(0.1);
});
