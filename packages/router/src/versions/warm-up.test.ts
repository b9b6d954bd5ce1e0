// Warm-up requests over a whole router: they are the first that workers see, and keep nobody waiting
// for ever.

import { type WarmUpRequest, tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { idleCounters, plainOutputs, RouterBench } from "../fixtures/router-bench.ts";

const held = [
  [0, 1, 2, 3],
  [0, 1, 2, 3],
];

function request(...users: readonly number[]): WarmUpRequest {
  const keys = BigInt64Array.from(users, BigInt);
  const user = tensor("int64", [users.length], keys);
  return { signature: "serving_default", inputs: new Map([["user", user]]) };
}

const questions = (bench: RouterBench): number =>
  bench.workers.reduce((sum, worker) => sum + worker.queries, 0);

describe("a version with warm-up requests", () => {
  test("is asked them before it answers anybody, and then answers as ever", async () => {
    const bench = new RouterBench({ held, warmUp: [request(1), request(2, 3)] });
    for (const worker of bench.workers) worker.delayMs = 40;
    bench.announceAll();

    await bench.clock.advanceSettled(60);
    expect(questions(bench)).toBeGreaterThan(0);
    expect(bench.router.ready).toBe(false);
    expect(bench.router.status("movies")).toMatchObject([{ state: "LOADING" }]);
    await expect(bench.router.pin({ model: "movies" })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: "movies/7 is being warmed up",
    });

    await bench.clock.advanceSettled(400);
    expect(bench.router.ready).toBe(true);
    expect(plainOutputs(await bench.settle(bench.predict([3])))).toEqual(bench.expected([3]));
    expect(bench.router.counters).toEqual(idleCounters);
  });

  test("is warmed up once", async () => {
    const bench = await RouterBench.started({ held, warmUp: [request(1)] });
    const before = questions(bench);

    bench.network.announce(bench.workers[0]!);
    await bench.clock.advanceSettled(500);

    expect(bench.router.ready).toBe(true);
    expect(questions(bench)).toBe(before);
  });

  test("answers although one of them fails", async () => {
    const bench = await RouterBench.started({ held, warmUp: [request(-1), request(1)] });

    expect(bench.router.ready).toBe(true);
    expect(plainOutputs(await bench.settle(bench.predict([3])))).toEqual(bench.expected([3]));
  });

  test("(L2) answers when their time is up, however slow they are", async () => {
    const warmUp = Array.from({ length: 50 }, (_, user) => request(user % 10));
    const bench = new RouterBench({ held, warmUp, options: { warmUpMsMax: 1000 } });
    for (const worker of bench.workers) worker.delayMs = 100;
    bench.announceAll();

    await bench.clock.advanceSettled(900);
    expect(bench.router.ready).toBe(false);
    await bench.clock.advanceSettled(600);

    expect(bench.router.ready).toBe(true);
  });

  test("is not asked them where that is switched off", async () => {
    const options = { warmUpMsMax: 0 };
    const bench = await RouterBench.started({ held, warmUp: [request(1)], options });

    expect(bench.router.ready).toBe(true);
    expect(questions(bench)).toBe(0);
  });
});
