// An order is given to all or to none, stands for those that are away, and travels to whoever lacks it.

import { WinnowError, silentLogger, workerId } from "@winnow/core";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { OrderBook, RefusedRecords, isAbove, noSecret } from "@winnow/cluster";
import type { OrderMark, OrderMessage, OrderedModel } from "@winnow/cluster";
import { describe, expect, test } from "vitest";
import { RequestContext } from "../request-context.ts";
import type { WorkerStatus } from "../workers/cluster-status.ts";
import { ModelOrders } from "./model-orders.ts";

const MODELS: readonly OrderedModel[] = [
  { model: "movies", basePath: "/m", policy: { kind: "all" }, labels: new Map() },
];
const author = { by: "test", at: "" };

/** A worker that follows what it is told, unless it is away or refuses. */
class PretendedWorker {
  readonly id: string;
  readonly book: OrderBook;
  isConnected = true;
  isAnnounced = true;
  hasDecided = true;
  fault: WinnowError | undefined;
  told = 0;

  constructor(id: string, clock: ManualClock) {
    this.id = id;
    this.book = bookOn(clock);
  }

  get status(): WorkerStatus {
    const { newest } = this.book;
    const order: OrderMark | undefined = newest && { number: newest.number, id: newest.id };
    return {
      id: workerId(this.id),
      address: this.id,
      askable: this.isConnected,
      trusted: true,
      questions: 0,
      isLive: this.isConnected || this.isAnnounced,
      hasDecided: this.hasDecided,
      order,
    };
  }
}

function bookOn(clock: ManualClock): OrderBook {
  const environment = { clock, random: () => 0.5, log: silentLogger };
  const refused = new RefusedRecords(silentLogger);
  return new OrderBook({ environment, cluster: "default", secret: noSecret(), refused });
}

class Stage {
  readonly clock = new ManualClock();
  readonly workers = ["w0", "w1", "w2"].map((id) => new PretendedWorker(id, this.clock));
  readonly router = this.startRouter();

  /** A router; its book was opened unless it says otherwise. */
  startRouter(orders = bookOn(this.clock)): ModelOrders {
    void orders.open();
    const environment = { clock: this.clock, random: () => 0.5, log: silentLogger };
    const reach = (address: string): PretendedWorker => {
      const worker = this.workers.find(({ id }) => id === address)!;
      worker.told += 1;
      if (!worker.isConnected) throw new WinnowError("UNAVAILABLE", "nobody there");
      if (worker.fault !== undefined) throw worker.fault;
      return worker;
    };
    return new ModelOrders({
      environment,
      orders,
      settings: { orderPassMs: 1000, orderTimeoutMs: 5000 },
      workers: () => this.workers.map(({ status }) => status),
      connector: {
        tellOrder: async (address: string, { kind, signed }: OrderMessage) => {
          const { book } = reach(address);
          if (kind === "draft") book.readDraft(signed);
          else await book.offer(signed, "router");
        },
        askOrder: async (address) => reach(address).book.signed(),
      },
    });
  }

  give(models: readonly OrderedModel[] | undefined = MODELS) {
    const context = new RequestContext(this.clock, { timeoutMs: 9000 });
    return this.router.give(models, author, context).finally(() => context.finish());
  }

  numbers(): (number | undefined)[] {
    return this.workers.map(({ book }) => book.newest?.number);
  }
}

describe("orders of models", () => {
  test("are followed by all that are connected", async () => {
    const stage = new Stage();

    const order = await stage.give();
    await stage.clock.advanceSettled(0);

    expect(stage.numbers()).toEqual([1, 1, 1]);
    expect(stage.router.laggards(order)).toEqual([]);
    expect(stage.router.status()).toEqual({ number: 1, following: 3, behind: 0 });
  });

  test("that one worker refuses change nothing, and name the worker", async () => {
    const stage = new Stage();
    stage.workers[1]!.fault = new WinnowError("PERMISSION_DENIED", "outside");

    await expect(stage.give()).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: "Cannot reload, nothing was changed: worker w1: outside",
    });
    await stage.clock.advanceSettled(60_000);
    expect(stage.numbers()).toEqual([undefined, undefined, undefined]);
  });

  test("that all workers refuse for one reason name the reason once", async () => {
    const stage = new Stage();
    for (const worker of stage.workers) worker.fault = new WinnowError("INTERNAL", "no root");
    stage.workers[1]!.fault = new WinnowError("PERMISSION_DENIED", "outside");

    await expect(stage.give()).rejects.toMatchObject({
      message: "Cannot reload, nothing was changed: workers w0, w2: no root; worker w1: outside",
    });
  });

  test("stand for a worker that is away, which follows when it is back", async () => {
    const stage = new Stage();
    const [, away] = stage.workers;
    away!.isConnected = false;

    const order = await stage.give();
    await stage.clock.advanceSettled(5000);

    expect(stage.numbers()).toEqual([1, undefined, 1]);
    expect(stage.router.laggards(order)).toEqual([
      { worker: "w1", reason: "not connected to this router", isLive: true },
    ]);
    expect(stage.router.status()).toEqual({ number: 1, following: 2, behind: 1 });
    away!.isAnnounced = false;
    expect(stage.router.laggards(order)).toMatchObject([{ reason: "away", isLive: false }]);
    expect(stage.router.status()).toMatchObject({ behind: 0 });

    away!.isConnected = true;
    await stage.clock.advanceSettled(1000);
    expect(stage.numbers()).toEqual([1, 1, 1]);
  });

  test("pass over a worker that hangs, and give its reason", async () => {
    const stage = new Stage();
    const [, hanging] = stage.workers;
    hanging!.fault = new WinnowError("DEADLINE_EXCEEDED", "No answer");

    const order = await stage.give();
    await stage.clock.advanceSettled(60_000);

    expect(stage.router.laggards(order)).toMatchObject([{ worker: "w1", reason: "No answer" }]);
    // Every 10 s at last, and once to be asked for its consent.
    expect(hanging!.told).toBeLessThan(12);
    hanging!.fault = undefined;
    await stage.clock.advanceSettled(10_000);
    expect(stage.numbers()).toEqual([1, 1, 1]);
  });

  test("need a worker that answers", async () => {
    const stage = new Stage();
    for (const worker of stage.workers) worker.fault = new WinnowError("UNAVAILABLE", "gone");
    await expect(stage.give()).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("no worker answers; nothing was changed") as string,
    });

    for (const worker of stage.workers) worker.isConnected = false;
    await expect(stage.give()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("are known to a router that starts anew once it follows what the workers follow, and from then on", async () => {
    const stage = new Stage();
    await stage.give();
    await stage.clock.advanceSettled(0);
    stage.router.close();

    const router = stage.startRouter();
    await stage.clock.advanceSettled(0);
    expect(router.isKnown).toBe(false);
    router.pass();
    await stage.clock.advanceSettled(0);
    expect(router.isKnown).toBe(true);

    await stage.workers[0]!.book.make(undefined, { author, above: 6 });
    expect(router.newest?.number).toBe(1);
    expect(router.isKnown).toBe(true);
  });

  test("are not known before the own file was read and a worker has said which models it serves", async () => {
    const stage = new Stage();
    stage.router.close();
    for (const worker of stage.workers) worker.hasDecided = false;

    const router = stage.startRouter();
    stage.workers[1]!.hasDecided = true;
    expect(router.isKnown).toBe(false);
    stage.workers[1]!.hasDecided = false;
    await stage.clock.advanceSettled(0);
    expect(router.isKnown).toBe(false);

    stage.workers[1]!.hasDecided = true;
    expect(router.isKnown).toBe(true);
  });

  test("that cannot be fetched are not waited for", async () => {
    const stage = new Stage();
    await stage.give();
    await stage.clock.advanceSettled(0);
    stage.router.close();
    for (const worker of stage.workers) worker.fault = new WinnowError("UNAUTHENTICATED", "who?");

    const router = stage.startRouter();
    await stage.clock.advanceSettled(0);
    expect(router.isKnown).toBe(false);

    router.pass();
    await stage.clock.advanceSettled(0);
    expect(router.newest).toBeUndefined();
    expect(router.isKnown).toBe(true);
  });

  test("are learnt from a worker by a router that starts anew, and counted on from there", async () => {
    const stage = new Stage();
    await stage.give();
    await stage.clock.advanceSettled(0);
    stage.router.close();
    stage.workers[2]!.isConnected = false;
    const last = await stage.workers[1]!.book.make(undefined, { author, above: 6 });

    const router = stage.startRouter();
    await stage.clock.advanceSettled(3000);

    expect(router.newest?.id).toBe(last.id);
    expect(stage.numbers()).toEqual([7, 7, 1]);
    const context = new RequestContext(stage.clock, { timeoutMs: 0 });
    expect((await router.give(MODELS, author, context)).number).toBe(8);
  });

  test("of one number, given by two routers that did not hear of each other, become one", async () => {
    const stage = new Stage();
    const [one, other] = stage.workers;
    const a = await one!.book.make(MODELS, { author: { by: "a", at: "" } });
    const b = await other!.book.make(MODELS, { author: { by: "b", at: "" } });

    await stage.clock.advanceSettled(5000);

    const winner = isAbove(a, b) ? a : b;
    expect(stage.workers.map(({ book }) => book.newest?.id)).toEqual(
      stage.workers.map(() => winner.id),
    );
  });
});
