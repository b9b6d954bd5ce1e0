// A whole router: resolving, wishes, limits, deadlines, drain. The network is pretended.

import { OrderBook, RefusedRecords, noSecret } from "@winnow/cluster";
import { WinnowError, silentLogger, stringTensor, tensor } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/doubles/manual-clock.ts";
import { idleCounters, plainOutputs, RouterBench } from "./fixtures/router-bench.ts";
import { RequestContext } from "./request-context.ts";

/** An order of the model "movies" with these labels, as a worker gives it to routers. */
async function orderOf(labels: Readonly<Record<string, number>>) {
  const environment = { clock: new ManualClock(), random: () => 0.5, log: silentLogger };
  const refused = new RefusedRecords(silentLogger);
  const book = new OrderBook({ environment, cluster: "default", secret: noSecret(), refused });
  const policy = { kind: "all" } as const;
  const models = [
    { model: "movies", basePath: "/m", policy, labels: new Map(Object.entries(labels)) },
  ];
  const { number, id } = await book.make(models, { author: { by: "test", at: "" } });
  return { mark: { number, id }, signed: book.signed()! };
}

const twice = [
  [0, 1, 2],
  [1, 2, 3],
  [0, 3],
];

describe("a router", () => {
  test("answers what brute force answers, lookup and search over workers", async () => {
    const bench = await RouterBench.started({ held: twice });

    const prediction = await bench.settle(bench.predict([3, 17, 3]));

    expect(bench.router.ready).toBe(true);
    expect(prediction.coverage).toBe(1);
    expect(plainOutputs(prediction)).toEqual(bench.expected([3, 17, 3]));
  });

  test("fetches a program once, from one of the workers that hold it", async () => {
    const bench = await RouterBench.started({ held: twice });

    await bench.settle(bench.predict([1]));

    expect(bench.network.programsSent).toBe(1);
  });

  test("is not ready, and says UNAVAILABLE, before any worker is reached", async () => {
    const bench = new RouterBench({ held: twice });

    const pin = bench.router.pin({ model: "movies" });

    expect(bench.router.ready).toBe(false);
    await expect(pin).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test.each([
    [{ model: "books" }, "NOT_FOUND", "Servable not found for request: Latest(books)"],
    [
      { model: "movies", version: 9 },
      "NOT_FOUND",
      "Servable not found for request: Specific(movies, 9)",
    ],
    [
      { model: "books", label: "stable" },
      "INVALID_ARGUMENT",
      "Unrecognized servable version label: stable",
    ],
  ])("says of %j what TensorFlow Serving says", async (target, code, message) => {
    const bench = await RouterBench.started({ held: twice });

    const pin = bench.router.pin(target);

    await expect(pin).rejects.toMatchObject({ code, message });
  });

  test("waits for the workers' order before it says what a label means, or is ready", async () => {
    const labels = new Map([["movies", new Map([["stable", 7]])]]);
    const bench = new RouterBench({ held: twice, options: { labels } });
    const target = { model: "movies", label: "canary" };
    const { signed, mark } = await orderOf({ canary: 7 });
    let give: () => void = () => undefined;
    const given = new Promise<void>((resolve) => (give = resolve));
    bench.network.order = { mark, ask: () => given.then(() => signed) };

    await expect(bench.router.pin(target)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    bench.announceAll();
    await bench.clock.advanceSettled(100);
    for (const label of ["canary", "stable"]) {
      await expect(bench.router.pin({ ...target, label })).rejects.toMatchObject({
        code: "UNAVAILABLE",
        message: expect.stringContaining("does not know yet what labels mean") as string,
      });
    }
    (await bench.router.pin({ model: "movies" })).release();
    expect(bench.router.ready).toBe(false);

    give();
    await bench.clock.advanceSettled(0);
    expect(bench.router.ready).toBe(true);
    (await bench.router.pin(target)).release();
    await expect(bench.router.pin({ ...target, label: "stable" })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });

  test("resolves a label to its version", async () => {
    const labels = new Map([["movies", new Map([["stable", 7]])]]);
    const bench = await RouterBench.started({ held: twice, options: { labels } });

    const pinned = await bench.router.pin({ model: "movies", label: "stable" });

    expect(pinned.version).toBe(7);
    pinned.release();
  });

  test("tells models and versions as the status endpoint does", async () => {
    const bench = await RouterBench.started({ held: twice });

    expect(bench.router.models()).toEqual(["movies"]);
    expect(bench.router.status("movies")).toEqual([
      { version: 7, state: "AVAILABLE", errorCode: "OK", errorMessage: "" },
    ]);
    expect(bench.router.status("books")).toBeUndefined();
  });
});

describe("what a client may wish", () => {
  test("k is asked instead of the model's, at most the rows there are", async () => {
    const bench = await RouterBench.started({ held: twice });

    const few = await bench.settle(bench.predict([1], { k: 2 }));
    const all = await bench.settle(bench.predict([1], { k: 99 }));

    expect(plainOutputs(few)).toEqual(bench.expected([1], 2));
    expect(plainOutputs(all)).toEqual(bench.expected([1], 40));
  });

  test("excluded ids are left out", async () => {
    const bench = await RouterBench.started({ held: twice });
    const [best = ""] = bench.expected([1]).ids;

    const prediction = await bench.settle(bench.predict([1], { exclude: [stringTensor([best])] }));

    expect(plainOutputs(prediction).ids).toHaveLength(5);
    expect(plainOutputs(prediction).ids).not.toContain(best);
  });

  test.each([
    ["k of 0", { k: 0 }],
    ["k beyond the limit", { k: 5000 }],
    ["too many excluded ids", { exclude: [stringTensor(["a", "b", "c"])] }],
  ])("refuses %s before any work", async (_, wish) => {
    const bench = await RouterBench.started({ held: twice, options: { excludedIdsMax: 2 } });

    const refused = bench.predict([1], wish);

    await expect(refused).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(bench.workers.map((worker) => worker.queries)).toEqual([0, 0, 0]);
  });

  test("refuses excluded ids by their bytes, saying how many, and what would do", async () => {
    const bench = await RouterBench.started({ held: twice, options: { excludedBytesMax: 30 } });
    const lists = ["one that is long", "another"].map((id) => stringTensor([id]));

    const refused = bench.predict([1, 2], { exclude: lists });
    await expect(refused).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message:
        "Cannot answer for 2 excluded ids of 31 bytes; a request takes at most 30 bytes of them " +
        "(excludedBytesMax)",
    });
    const taken = await bench.settle(bench.predict([1], { exclude: lists.slice(0, 1) }));
    expect(plainOutputs(taken).ids).toHaveLength(5);
  });

  test("refuses keys by their bytes", async () => {
    const bench = await RouterBench.started({ held: twice, options: { lookupBytesMax: 16 } });

    await expect(bench.settle(bench.predict([1, 2, 3]))).rejects.toThrow(
      'Cannot answer for 3 keys of 24 bytes to look up in table "users"; a look-up takes at most ' +
        "16 bytes of them (lookupBytesMax)",
    );
    expect(plainOutputs(await bench.settle(bench.predict([1, 2])))).toEqual(bench.expected([1, 2]));
  });

  test("reckons a request with the ids it excludes", async () => {
    const options = { sliceBytesMax: 1024, sliceQueriesMax: 256 };
    const bench = await RouterBench.started({ held: twice, options });
    for (const worker of bench.workers) worker.behave = () => "silent";
    const wish = { exclude: [stringTensor(["x".repeat(508)])], timeoutMs: 300 };

    const late = bench.predict([1], wish).catch((error: unknown) => error);
    await bench.clock.advanceSettled(10);
    const { rows } = bench.router.counters;
    await bench.clock.advanceSettled(400);

    expect(await late).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    // 85 vectors fill a slice of 256 rows, and the list half of one.
    expect(rows).toBe(4 + 128);
  });

  test("refuses more instances than one request may bring", async () => {
    const bench = await RouterBench.started({ held: twice, options: { instancesMax: 2 } });

    await expect(bench.predict([1, 2, 3])).rejects.toThrow("at most 2");
  });
});

describe("limits and ends", () => {
  test("a version that is unloaded under a request that names it is not found", async () => {
    const bench = await RouterBench.started({ held: twice });
    for (const worker of bench.workers) worker.behave = () => "NO_VERSION";
    const target = { model: "movies", version: 7 };
    const asked = bench.predict([1], { target });
    for (const worker of bench.workers) {
      worker.versions = [];
      bench.network.announce(worker);
    }
    await expect(bench.settle(asked)).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: "Servable not found for request: Specific(movies, 7)",
    });
  });

  test("what is wrong with a request is said though its version is unloaded meanwhile", async () => {
    const bench = await RouterBench.started({ held: twice });
    for (const worker of bench.workers) {
      worker.delayMs = 50;
      worker.behave = () => "INVALID_KEY";
    }
    const target = { model: "movies", version: 7 };
    const asked = bench.predict([1], { target });
    for (const worker of bench.workers) {
      worker.versions = [];
      bench.network.announce(worker);
    }
    await expect(bench.settle(asked)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("(S2) a request whose version is lost under it is answered by the version that took its place", async () => {
    const bench = await RouterBench.started({ held: twice });
    let refusals = bench.workers.length;
    for (const worker of bench.workers) {
      worker.behave = () => (refusals-- > 0 ? "NO_VERSION" : "answer");
    }
    const asked = bench.predict([1]);
    for (const worker of bench.workers) {
      worker.versions = [8];
      bench.network.announce(worker);
    }

    const prediction = await bench.settle(asked);

    expect(prediction.version.version).toBe(8);
    expect(plainOutputs(prediction)).toEqual(bench.expected([1]));
    expect(bench.router.counters).toEqual(idleCounters);
  });

  test("a default version that is unloaded under a request is to be tried again", async () => {
    const bench = await RouterBench.started({ held: twice });
    for (const worker of bench.workers) worker.behave = () => "NO_VERSION";
    await expect(bench.settle(bench.predict([1]))).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("L2: a request ends by its deadline, and its questions are cancelled", async () => {
    const bench = await RouterBench.started({ held: twice });
    for (const worker of bench.workers) worker.behave = () => "silent";

    const late = bench.predict([1], { timeoutMs: 300 });

    await expect(bench.settle(late, 350)).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    await bench.clock.advanceSettled(10);
    const { cancels, queries } = bench.workers.reduce(
      (sum, worker) => ({
        cancels: sum.cancels + worker.cancels,
        queries: sum.queries + worker.queries,
      }),
      { cancels: 0, queries: 0 },
    );
    expect(cancels).toBe(queries);
    expect(bench.router.counters.questions).toBe(0);
  });

  test("a client that leaves ends its request", async () => {
    const bench = await RouterBench.started({ held: twice });
    for (const worker of bench.workers) worker.behave = () => "silent";
    const context = new RequestContext(bench.clock, { timeoutMs: 2000 });

    const left = bench.predict([1], { context });
    await bench.clock.advanceSettled(10);
    context.abort(() => new WinnowError("CANCELLED", "The client closed the connection"));

    await expect(left).rejects.toMatchObject({ code: "CANCELLED" });
    expect(bench.router.counters).toEqual(idleCounters);
  });

  test("(R1) holds what a request found until its answer is written, and refuses what would exceed it", async () => {
    const bench = await RouterBench.started({
      held: twice,
      options: { heldCandidatesMax: 10_000 },
    });
    const users = Array.from({ length: 200 }, (_, at) => at % 8);
    const pinned = await bench.router.pin({ model: "movies" });
    const context = new RequestContext(bench.clock, { timeoutMs: 2000 });
    const keys = BigInt64Array.from(users, (user) => BigInt(user));
    const request = {
      signature: pinned.program.signatures[0]!,
      inputs: new Map([["user", tensor("int64", [users.length], keys)]]),
      k: 40,
      context,
    };
    await bench.settle(bench.router.predict(pinned, request));

    await expect(bench.settle(bench.predict(users, { k: 40 }))).rejects.toThrow(
      "This router is busy with 8000 candidates of answers; try again later",
    );
    await bench.settle(bench.predict([1], { k: 40 }));
    context.finish();
    pinned.release();

    await bench.settle(bench.predict(users, { k: 40 }));
  });

  test("R1: requests beyond the limit are refused at once", async () => {
    const bench = await RouterBench.started({ held: twice, options: { inFlightRequestsMax: 1 } });

    const first = bench.predict([1]);
    const second = bench.predict([2]);

    await expect(second).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(plainOutputs(await bench.settle(first))).toEqual(bench.expected([1]));
  });

  test("I5: drain waits for what runs, and close leaves nothing behind", async () => {
    const bench = await RouterBench.started({ held: twice });
    for (const worker of bench.workers) worker.delayMs = 50;

    const running = bench.predict([1]);
    const drained = bench.router.drain();
    const prediction = await bench.settle(running);
    await bench.settle(drained);
    bench.router.close();
    await bench.clock.advanceSettled(2000);

    expect(bench.router.ready).toBe(false);
    expect(plainOutputs(prediction)).toEqual(bench.expected([1]));
    expect(bench.router.counters).toEqual(idleCounters);
    expect(bench.network.streams).toBe(0);
    expect(bench.clock.pendingTimers).toBe(0);
  });
});
