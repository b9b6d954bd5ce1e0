// The recent past of requests, on a clock that moves when told.

import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { TrafficWindow } from "./traffic-window.ts";
import type { SeenRequest } from "./traffic-window.ts";

const request = (changes: Partial<SeenRequest> = {}): SeenRequest => ({
  model: "movies",
  code: "OK",
  instances: 1,
  elapsedMs: 5,
  ...changes,
});

describe("a traffic window", () => {
  test("counts requests by whole seconds, for a minute", () => {
    const clock = new ManualClock();
    const window = new TrafficWindow(clock);

    for (let second = 0; second < 100; second += 1) {
      for (let each = 0; each < second % 3; each += 1) window.note(request());
      clock.advance(1000);
    }
    const { perSecond, requests, requestsPerSecond } = window.report();

    expect(perSecond).toEqual(Array.from({ length: 60 }, (_, at) => (at + 40) % 3));
    expect(requests).toBe(60);
    expect(requestsPerSecond).toBe(0.9);
  });

  test("divides by the time it has seen, as long as that is less than ten seconds", () => {
    const clock = new ManualClock();
    const window = new TrafficWindow(clock);

    for (let each = 0; each < 8; each += 1) window.note(request());
    clock.advance(2000);

    expect(window.report().requestsPerSecond).toBe(4);
  });

  test("tells percentiles of ten seconds, and failures and refusals of a minute", () => {
    const clock = new ManualClock();
    const window = new TrafficWindow(clock);
    for (let elapsedMs = 1; elapsedMs <= 100; elapsedMs += 1) window.note(request({ elapsedMs }));
    window.note(request({ code: "UNAVAILABLE", elapsedMs: 0.5 }));
    window.refused("time");
    window.refused("time");

    const now = window.report();
    clock.advance(11_000);
    const later = window.report();
    clock.advance(60_000);
    const last = window.report();

    expect(now.latency).toEqual({ p50Ms: 50, p99Ms: 99 });
    expect([later.latency, later.failures, later.refusals]).toEqual([
      undefined,
      { UNAVAILABLE: 1 },
      { time: 2 },
    ]);
    expect([last.failures, last.refusals, last.requests]).toEqual([{}, {}, 0]);
  });

  test("tells what the requests of ten seconds were like: instances, and each stage", () => {
    const clock = new ManualClock();
    const window = new TrafficWindow(clock);
    window.note(request({ instances: 1, stages: new Map([["scan", 3]]) }));
    window.note(
      request({
        instances: 4,
        stages: new Map([
          ["scan", 1],
          ["merge", 0.5],
        ]),
      }),
    );

    expect(window.report().recent).toEqual({ instances: 2.5, stages: { scan: 2, merge: 0.25 } });
    clock.advance(12_000);
    expect(window.report().recent).toBeUndefined();
  });

  test("keeps the 32 slowest of five minutes, with their stages", () => {
    const clock = new ManualClock();
    const window = new TrafficWindow(clock);
    const stages = new Map([["topK", 900.0004]]);
    window.note(request({ elapsedMs: 1000, stages, requestId: "first", version: "7" }));
    clock.advance(250_000);
    for (let elapsedMs = 1; elapsedMs <= 50; elapsedMs += 1) window.note(request({ elapsedMs }));

    const slowest = window.slowest();
    clock.advance(60_000);
    const later = window.slowest();
    window.note(request({ elapsedMs: 0.1 }));

    expect(slowest).toHaveLength(32);
    expect(slowest[0]).toEqual({
      agoMs: 250_000,
      elapsedMs: 1000,
      model: "movies",
      version: "7",
      code: "OK",
      instances: 1,
      requestId: "first",
      stages: { topK: 900 },
    });
    expect(slowest.slice(1).map(({ elapsedMs }) => elapsedMs)).toEqual(
      Array.from({ length: 31 }, (_, at) => 50 - at),
    );
    expect(later).toHaveLength(31);
    expect(window.slowest().at(-1)?.elapsedMs).toBe(0.1);
  });
});
