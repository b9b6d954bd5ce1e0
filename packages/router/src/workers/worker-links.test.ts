// Workers die, freeze, restart and move under a whole router; the store fails or forgets.

import { incarnation, silentLogger, workerId } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { Clock } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { fakeData } from "../doubles/fake-cluster.ts";
import { FakeMembership, FakeNetwork } from "../doubles/fake-network.ts";
import { benchProgram, plainOutputs, RouterBench } from "../fixtures/router-bench.ts";
import { resolveRouterOptions } from "../router-settings.ts";
import { WorkerLinks } from "./worker-links.ts";

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

  test("I3: a process is never asked again once its successor was met", async () => {
    const bench = await RouterBench.started({ held: twice });
    const old = bench.workers[0]!;
    const next = bench.network.add("w0", [...old.held], { address: "elsewhere:7600" });
    next.incarnation = incarnation(2);
    const others = bench.workers.slice(1).map((worker) => bench.network.announcementOf(worker));

    bench.membership.publish([bench.network.announcementOf(next), ...others]);
    await bench.clock.advanceSettled(20);
    const asked = old.queries;
    bench.membership.publish([bench.network.announcementOf(old), ...others]);
    const prediction = await bench.settle(bench.predict([1]));
    bench.network.kill(next);
    await bench.clock.advanceSettled(5000);
    await bench.settle(bench.predict([2]));

    expect(plainOutputs(prediction)).toEqual(bench.expected([1]));
    expect(next.queries).toBeGreaterThan(0);
    expect(old.queries).toBe(asked);
  });

  test("I3: of two that live the older is not asked, whatever the store says last", async () => {
    const bench = await RouterBench.started({ held: twice });
    const [worker] = bench.workers;
    const older = bench.network.add("w0", [...worker!.held], { address: "elsewhere:7600" });
    older.incarnation = incarnation(0);

    bench.membership.publish(
      [older, ...bench.workers.slice(1)].map((each) => bench.network.announcementOf(each)),
    );
    await bench.clock.advanceSettled(500);
    await bench.settle(bench.predict([1]));

    expect(older.queries).toBe(0);
    expect(worker!.queries).toBeGreaterThan(0);
  });

  test("L3: a worker that restarts with its clock set back is asked, and numbers itself anew", async () => {
    const bench = await RouterBench.started({ held: [[0, 1, 2, 3]] });
    const worker = bench.workers[0]!;
    worker.incarnation = incarnation(1000);
    bench.network.announce(worker);
    await bench.clock.advanceSettled(10);

    bench.network.kill(worker);
    await bench.clock.advanceSettled(50);
    bench.network.restart(worker, 10);
    await bench.clock.advanceSettled(1500);

    expect(plainOutputs(await bench.settle(bench.predict([1])))).toEqual(bench.expected([1]));
    expect(worker.incarnation).toBe(1001);
  });

  test("L3: the same at another address, while the old stream is open and silent", async () => {
    const bench = await RouterBench.started({ held: [[0, 1, 2, 3]] });
    const old = bench.workers[0]!;
    const next = bench.network.add("w0", [0, 1, 2, 3], { address: "elsewhere:7600" });
    next.incarnation = incarnation(0);
    next.heedsPredecessors = false;

    old.frozen = true;
    bench.membership.publish([bench.network.announcementOf(next)]);
    await bench.clock.advanceSettled(1500);
    const prediction = await bench.settle(bench.predict([1]), 100);
    old.frozen = false;
    await bench.clock.advanceSettled(1000);
    const asked = old.queries;
    await bench.settle(bench.predict([2]), 100);

    expect(plainOutputs(prediction)).toEqual(bench.expected([1]));
    expect(old.queries).toBe(asked);
  });

  test("L3: a process that was replaced is asked as a new incarnation once its successor is long gone", async () => {
    const bench = await RouterBench.started({ held: [[0, 1, 2, 3]] });
    const old = bench.workers[0]!;
    const next = bench.network.add("w0", [0, 1, 2, 3], { address: "elsewhere:7600" });
    next.incarnation = incarnation(5);
    bench.membership.publish([bench.network.announcementOf(next)]);
    await bench.clock.advanceSettled(100);

    bench.network.kill(next);
    bench.membership.publish([bench.network.announcementOf(old)]);
    await bench.clock.advanceSettled(9000);
    await expect(bench.settle(bench.predict([1]))).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await bench.clock.advanceSettled(6000);

    expect(plainOutputs(await bench.settle(bench.predict([1])))).toEqual(bench.expected([1]));
    expect(old.incarnation).toBe(6);
  });

  test("a forged record takes nothing away from a worker that answers, nor from its next life", async () => {
    const bench = await RouterBench.started({ held: [[0, 1, 2, 3]] });
    const worker = bench.workers[0]!;
    const record = bench.network.announcementOf(worker);
    const forged = { ...record, incarnation: incarnation(2 ** 52), address: "nobody:7600" };
    const errors: unknown[] = [];
    const ask = async (): Promise<void> => {
      await bench.settle(bench.predict([1])).catch((error: unknown) => errors.push(error));
    };

    bench.membership.publish([forged]);
    for (let each = 0; each < 20; each += 1) await ask();
    bench.membership.publish([{ ...forged, address: worker.address }]);
    for (let each = 0; each < 20; each += 1) await ask();
    bench.network.kill(worker);
    bench.network.restart(worker);
    await bench.clock.advanceSettled(1000);
    await ask();

    expect(errors).toEqual([]);
    expect(bench.network.streams).toBe(1);
  });

  test("L1: a router that is cut off from the store meets whom its workers know", async () => {
    const bench = await RouterBench.started({ held: [[0, 1, 2, 3]] });
    const [first] = bench.workers;
    bench.membership.publish([bench.network.announcementOf(first!)], false);

    const next = bench.network.add("w9", [0, 1, 2, 3]);
    bench.network.tell(first!, [next]);
    await bench.clock.advanceSettled(100);
    bench.network.kill(first!);
    const prediction = await bench.settle(bench.predict([1]));

    expect(plainOutputs(prediction)).toEqual(bench.expected([1]));
    expect(next.queries).toBeGreaterThan(0);
  });

  test("who is told of and is nowhere is forgotten once the store has not named it for long", async () => {
    const bench = await RouterBench.started({ held: [[0, 1, 2, 3]] });
    const [first] = bench.workers;
    const gone = bench.network.add("w9", []);
    gone.down = true;

    bench.network.tell(first!, [gone]);
    await bench.clock.advanceSettled(9000);
    expect(bench.router.workers().map(({ id }) => id)).toEqual(["w0", "w9"]);
    await bench.clock.advanceSettled(2000);

    expect(bench.router.workers().map(({ id }) => id)).toEqual(["w0"]);
  });

  test("who is told of while the store is away is called until a worker says that it is gone", async () => {
    const bench = await RouterBench.started({ held: [[0, 1, 2, 3]] });
    const [first] = bench.workers;
    const gone = bench.network.add("w9", []);
    gone.down = true;
    bench.membership.publish([bench.network.announcementOf(first!)], false);

    bench.network.tell(first!, [gone]);
    await bench.clock.advanceSettled(60_000);
    expect(bench.router.workers().map(({ id }) => id)).toEqual(["w0", "w9"]);
    bench.network.tell(first!, [gone], true);
    await bench.clock.advanceSettled(100);

    expect(bench.router.workers().map(({ id }) => id)).toEqual(["w0"]);
  });

  test("another worker at a worker's address is not asked in its place, and told once", async () => {
    const warned: unknown[] = [];
    const warn = (text: string, fields?: object): void => void warned.push([text, fields]);
    const log = { ...silentLogger, warn };
    const bench = await RouterBench.started({ held: twice, log });
    const [first, second] = bench.workers;
    const strays = first!.queries;

    bench.network.kill(second!);
    const record = { ...bench.network.announcementOf(second!), address: first!.address };
    bench.membership.publish([bench.network.announcementOf(first!), record]);
    await bench.clock.advanceSettled(20_000);

    expect(bench.router.workers().map(({ askable }) => askable)).toEqual([true, false, true]);
    expect(first!.queries).toBe(strays);
    expect(bench.network.streams).toBe(2);
    expect(warned.filter((line) => String(line).startsWith("address answers"))).toEqual([
      ["address answers as another worker", expect.objectContaining({ answersAs: "w0" })],
    ]);
  });

  test("names that somebody made up hide no worker, and are called a few at a time", async () => {
    const bench = new RouterBench({ held: twice, options: { workersMax: 100, callsMax: 20 } });
    const real = bench.workers.map((worker) => bench.network.announcementOf(worker));
    const forged = Array.from({ length: 300 }, (_, each) => ({
      ...real[0]!,
      workerId: workerId(`a${each}`),
      address: `nowhere${each}:7600`,
    }));
    let calls = 0;
    const open = bench.network.open.bind(bench.network);
    bench.network.open = (address, handlers) => {
      calls += Number(address.startsWith("nowhere"));
      return open(address, handlers);
    };

    bench.membership.publish([...forged, ...real]);
    for (let each = 0; each < 100; each += 1) {
      await bench.clock.advanceSettled(100);
      bench.membership.publish([...forged, ...real]);
    }

    expect(plainOutputs(await bench.settle(bench.predict([1])))).toEqual(bench.expected([1]));
    expect(bench.router.workers()).toHaveLength(100);
    expect(bench.network.streams).toBe(3);
    expect(calls).toBeLessThan(20 + 10 * 40);
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

describe("workers that cannot be reached", () => {
  /** What links with this membership log of unreachable workers. */
  function listening() {
    const clock = new ManualClock();
    const data = fakeData({ rows: 4, dim: 1, partitions: 1 }, () => 0);
    const program = benchProgram(data, 2);
    const network = new FakeNetwork(clock, data, { program, inlineTables: new Map(), warmUp: [] });
    const membership = new FakeMembership();
    const told: unknown[] = [];
    const warn = (event: string, fields?: object): void => {
      if (event === "worker cannot be reached") told.push(fields);
    };
    const log = { ...silentLogger, warn };
    const environment = { clock, random: () => 0.5, log };
    const settings = resolveRouterOptions();
    const links = new WorkerLinks(
      { environment, connector: network, membership, settings, defer: queueMicrotask },
      () => undefined,
    );
    return { clock, network, membership, told, links };
  }

  test("are told once with the reason, and again after they were connected", async () => {
    const { clock, network, membership, told, links } = listening();
    const worker = network.add("w0", [0]);
    network.kill(worker);
    membership.publish([network.announcementOf(worker)]);

    await clock.advanceSettled(4900);
    expect(told).toEqual([]);
    await clock.advanceSettled(30_000);
    expect(told).toEqual([
      { worker: "w0", address: worker.address, message: expect.any(String) as string },
    ]);

    network.restart(worker, 2);
    await clock.advanceSettled(5000);
    expect(links.peers.get(worker.id)!.connected).toBe(true);
    network.kill(worker);
    await clock.advanceSettled(30_000);
    expect(told).toHaveLength(2);
    links.close();
  });

  test("are not told where they come back in time, nor in thousands", async () => {
    const { clock, network, membership, told, links } = listening();
    const worker = network.add("w0", [0]);
    membership.publish([network.announcementOf(worker)]);
    await clock.advanceSettled(1000);
    network.kill(worker);
    await clock.advanceSettled(3000);
    network.restart(worker, 2);
    await clock.advanceSettled(10_000);
    expect(told).toEqual([]);

    const invented = Array.from({ length: 100 }, (_, index) => {
      const added = network.add(`x${index}`, [0]);
      network.kill(added);
      return network.announcementOf(added);
    });
    membership.publish(invented);
    await clock.advanceSettled(40_000);
    expect(told).toHaveLength(16);
    links.close();
  });
});

describe("a router whose own event loop is late", () => {
  /** Links to one worker from a process that can stand still. */
  async function linked() {
    const clock = new ManualClock();
    const data = fakeData({ rows: 4, dim: 1, partitions: 1 }, () => 0);
    const program = benchProgram(data, 2);
    const network = new FakeNetwork(clock, data, { program, inlineTables: new Map(), warmUp: [] });
    const worker = network.add("w0", [0]);
    const held = { ms: 0, perTimerMs: 0 };
    const loop: Clock = {
      nowMs: () => clock.nowMs() + held.ms,
      setTimer: (delayMs, run) =>
        clock.setTimer(delayMs, () => {
          held.ms += held.perTimerMs;
          run();
        }),
      clearTimer: (timer) => clock.clearTimer(timer),
    };
    const membership = new FakeMembership();
    const links = new WorkerLinks(
      {
        environment: { clock: loop, random: () => 0.5, log: silentLogger },
        connector: network,
        membership,
        settings: resolveRouterOptions(),
        defer: queueMicrotask,
      },
      () => undefined,
    );
    membership.publish([network.announcementOf(worker)]);
    await clock.advanceSettled(2000);
    return { clock, worker, held, peer: links.peers.get(worker.id)! };
  }

  test("does not take a block of seconds for its worker's silence", async () => {
    const { clock, worker, held, peer } = await linked();
    const addressBefore = peer.channel;

    worker.frozen = true;
    for (let each = 0; each < 8; each += 1) {
      await clock.advanceSettled(90);
      held.ms += 4000;
    }
    worker.frozen = false;
    await clock.advanceSettled(200);

    expect([peer.trusted, peer.connected]).toEqual([true, true]);
    expect(peer.channel).toBe(addressBefore);
  });

  test("finds a silent worker though it is late all the time", async () => {
    const { clock, worker, held, peer } = await linked();

    held.perTimerMs = 40;
    worker.frozen = true;
    await clock.advanceSettled(2500);

    expect(peer.trusted).toBe(false);
  });
});

describe("at rest", () => {
  test("workers that nobody asks wake the router for their pings alone, until one is asked", async () => {
    const bench = await RouterBench.started({ held: twice });
    await bench.clock.advanceSettled(10_000);
    let wakes = 0;
    const setTimer = bench.clock.setTimer.bind(bench.clock);
    bench.clock.setTimer = (delayMs, run) =>
      setTimer(delayMs, () => {
        wakes += 1;
        run();
      });
    const pings = (): number => bench.workers.reduce((sum, worker) => sum + worker.pings, 0);

    const before = pings();
    await bench.clock.advanceSettled(6000);
    const atRest = { wakes, pings: pings() - before };
    const frozen = bench.workers[1]!;
    frozen.frozen = true;
    const during = await bench.settle(bench.predict([2]), 600);

    expect(atRest.pings).toBe(3 * 4);
    // Each ping and its pong are a timer of the network; for each round of pings there are two ticks.
    expect(atRest.wakes - 2 * atRest.pings).toBeLessThanOrEqual(3 * 4);
    expect(plainOutputs(during)).toEqual(bench.expected([2]));
    bench.router.close();
    expect(bench.clock.pendingTimers).toBe(0);
  });
});
