// Workers die, freeze, restart and move under a whole router; the store fails or forgets.

import { incarnation } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { plainOutputs, RouterBench } from "./router-bench.cases.ts";

const twice = [
  [0, 1, 2],
  [1, 2, 3],
  [0, 3],
];

describe("workers come and go", () => {
  test("L1: a killed worker fails no request", async () => {
    const bench = await RouterBench.started({ held: twice });
    for (const worker of bench.workers) worker.delayMs = 10;

    const running = [1, 2, 3, 4].map((user) => bench.predict([user]));
    await bench.clock.advanceSettled(5);
    bench.network.kill(bench.workers[1]!);
    const after = bench.predict([5]);

    for (const [index, prediction] of running.entries()) {
      expect(plainOutputs(await bench.settle(prediction))).toEqual(bench.expected([index + 1]));
    }
    expect(plainOutputs(await bench.settle(after))).toEqual(bench.expected([5]));
  });

  test("a frozen worker is found out by pings, and used again when it thaws", async () => {
    const bench = await RouterBench.started({ held: twice, options: { attemptTimeoutMs: 5000 } });
    const frozen = bench.workers[1]!;
    frozen.frozen = true;

    const during = await bench.settle(bench.predict([2]), 600);
    const before = frozen.queries;
    const quick = await bench.settle(bench.predict([3]), 30);
    frozen.frozen = false;
    await bench.clock.advanceSettled(4000);
    await bench.settle(bench.predict([3]), 30);

    expect(plainOutputs(during)).toEqual(bench.expected([2]));
    expect(plainOutputs(quick)).toEqual(bench.expected([3]));
    expect(frozen.queries).toBeGreaterThan(before);
  });

  test("an empty or failed read of the store takes nothing away", async () => {
    const bench = await RouterBench.started({ held: twice });

    bench.membership.publish([]);
    await bench.clock.advanceSettled(1000);
    const empty = await bench.settle(bench.predict([1]));
    bench.membership.publish([], false);
    await bench.clock.advanceSettled(1000);
    const failed = await bench.settle(bench.predict([1]));

    expect(plainOutputs(empty)).toEqual(bench.expected([1]));
    expect(plainOutputs(failed)).toEqual(bench.expected([1]));
  });

  test("a dead worker that the store no longer names is let go", async () => {
    const bench = await RouterBench.started({ held: twice });
    const [dead, ...alive] = bench.workers;

    bench.network.kill(dead!);
    bench.membership.publish(alive.map((worker) => bench.network.announcementOf(worker)));
    await bench.clock.advanceSettled(100);
    const prediction = await bench.settle(bench.predict([1]));
    bench.router.close();

    expect(plainOutputs(prediction)).toEqual(bench.expected([1]));
    expect(bench.clock.pendingTimers).toBe(0);
  });

  test("I3: a superseded incarnation is never asked", async () => {
    const bench = await RouterBench.started({ held: twice });
    const old = bench.workers[0]!;
    const asked = old.queries;

    const announcement = bench.network.announcementOf(old);
    const newer = { ...announcement, incarnation: incarnation(2), address: "elsewhere:7600" };
    const others = bench.workers.slice(1).map((worker) => bench.network.announcementOf(worker));
    bench.membership.publish([newer, ...others]);
    const prediction = await bench.settle(bench.predict([1]));

    expect(plainOutputs(prediction)).toEqual(bench.expected([1]));
    expect(old.queries).toBe(asked);
  });

  test("a restarted worker is asked again", async () => {
    const bench = await RouterBench.started({ held: [[0, 1, 2, 3]] });
    const worker = bench.workers[0]!;

    bench.network.kill(worker);
    await bench.clock.advanceSettled(50);
    const lost = bench.predict([1]);
    await expect(bench.settle(lost)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    bench.network.restart(worker);
    await bench.clock.advanceSettled(1500);

    expect(plainOutputs(await bench.settle(bench.predict([1])))).toEqual(bench.expected([1]));
  });

  test("S6: partial answers are marked by their coverage, and only given on request", async () => {
    const bench = await RouterBench.started({ held: [[0, 1, 2, 3], []] });
    bench.workers[0]!.held = new Set([0, 1, 3]);
    bench.network.announce(bench.workers[0]!);
    await bench.clock.advanceSettled(20);
    const user = 3;

    const whole = bench.predict([user], { target: { model: "movies", version: 7 } });
    await expect(bench.settle(whole)).rejects.toThrow(
      'partition 2 of table "candidates" of model movies version 7',
    );
    const partial = await bench.settle(bench.predict([user], { allowPartial: true }));

    expect(partial.coverage).toBe(0.75);
  });

  test("S4: a pinned version is answered by it or not at all", async () => {
    const bench = await RouterBench.started({ held: twice });
    const pinned = await bench.router.pin({ model: "movies", version: 7 });

    for (const worker of bench.workers) {
      worker.versions = [8];
      bench.network.announce(worker);
    }
    await bench.clock.advanceSettled(50);
    const again = bench.router.pin({ model: "movies", version: 7 });

    expect(pinned.version).toBe(7);
    await expect(again).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: "Servable not found for request: Specific(movies, 7)",
    });
    pinned.release();
  });
});
