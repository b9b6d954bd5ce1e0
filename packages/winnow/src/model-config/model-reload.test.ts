// When a reload is answered, and with what: all of it is done, or the answer says what is not.

import type { ModelsOrder, OrderedModels } from "@winnow/cluster";
import { WinnowError, silentLogger, sleep, systemClock } from "@winnow/core";
import { RequestContext } from "@winnow/router";
import type { Laggard, ReloadedModel, VersionStatus } from "@winnow/router";
import { describe, expect, test } from "vitest";
import { ModelReload } from "./model-reload.ts";

const model = (change: Partial<ReloadedModel> = {}): ReloadedModel => ({
  name: "movies",
  basePath: "/models/movies",
  platform: "tensorflow",
  versions: { kind: "latest", count: 1 },
  labels: new Map(),
  ...change,
});

const available = (version: number): VersionStatus => ({
  version,
  state: "AVAILABLE",
  errorCode: "OK",
  errorMessage: "",
});

/** A pretended cluster: what was ordered, who follows, what can be asked. */
class Cluster {
  readonly given: OrderedModels[] = [];
  newest: ModelsOrder | undefined;
  fault: WinnowError | undefined;
  behind: readonly Laggard[] = [];
  statuses: readonly VersionStatus[] = [available(1)];
  readonly reload = new ModelReload({
    clock: systemClock,
    log: silentLogger,
    allowUnavailableLabels: false,
    by: "test",
    wallClock: () => "",
    router: { status: () => this.statuses, orders: this.#orders() },
  });

  run(models: readonly ReloadedModel[], withinMs = 1000): Promise<string | undefined> {
    const context = new RequestContext(systemClock, { timeoutMs: withinMs });
    return this.reload.run(models, context).finally(() => context.finish());
  }

  #orders() {
    const newest = (): ModelsOrder | undefined => this.newest;
    return {
      give: async (models: OrderedModels, author: { by: string; at: string }) => {
        if (this.fault !== undefined) throw this.fault;
        this.given.push(models);
        this.newest = { number: this.given.length, id: "", ...author, text: "", models };
        return this.newest;
      },
      laggards: () => this.behind,
      get newest() {
        return newest();
      },
    };
  }
}

const lagging = (worker: string, isLive: boolean): Laggard => ({
  worker: worker as Laggard["worker"],
  reason: isLive ? "its disk is full" : "away",
  isLive,
});

describe("a reload", () => {
  test("orders models with their policies and labels", async () => {
    const cluster = new Cluster();
    const labels = new Map([["stable", 1]]);

    const notice = await cluster.run([model({ labels })]);

    expect(notice).toBeUndefined();
    const policy = { kind: "latest", count: 1 };
    expect(cluster.given).toEqual([
      [{ model: "movies", basePath: "/models/movies", policy, labels }],
    ]);
  });

  test("that cannot be given fails as the order does", async () => {
    const cluster = new Cluster();
    cluster.fault = new WinnowError("PERMISSION_DENIED", "nothing was changed: worker w1: outside");

    await expect(cluster.run([model()])).rejects.toBe(cluster.fault);
  });

  test("waits for every worker that is there, and at its deadline names those behind", async () => {
    const cluster = new Cluster();
    cluster.behind = [lagging("w1", true), lagging("w2", false)];

    await expect(cluster.run([model()], 200)).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
      message: "Order 1 stands, but is not followed yet by worker w1: its disk is full",
    });

    const running = cluster.run([model()]);
    cluster.behind = [lagging("w2", false)];
    await expect(running).resolves.toBe(
      "Order 2 stands; workers that are away follow it when they are back: w2",
    );
  });

  test("waits on where its order has come from the store before the end of its write", async () => {
    const cluster = new Cluster();
    cluster.behind = [lagging("w1", true)];

    const running = cluster.run([model()]);
    await expect.poll(() => cluster.newest).toBeDefined();
    cluster.newest = { ...cluster.newest! };
    await sleep(systemClock, 300);
    cluster.behind = [];

    await expect(running).resolves.toBeUndefined();
  });

  test("waits until the model can be asked", async () => {
    const cluster = new Cluster();
    cluster.statuses = [];
    const state = { isOver: false };

    const running = cluster.run([model()]).then(() => (state.isOver = true));
    await expect.poll(() => cluster.given).toHaveLength(1);
    expect(state.isOver).toBe(false);
    cluster.statuses = [available(1)];

    await expect(running).resolves.toBe(true);
  });

  test.each<[string, Partial<ReloadedModel>]>([
    ["no available version", { versions: { kind: "specific", versions: [2] } }],
    ["waits for version 2", { labels: new Map([["new", 2]]) }],
  ])("says at its deadline what it waits for: %s", async (text, change) => {
    const cluster = new Cluster();

    await expect(cluster.run([model(change)], 200)).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
      message: expect.stringContaining(text) as string,
    });
  });

  test("tells why a version that is waited for does not load", async () => {
    const cluster = new Cluster();
    const failed = { version: 1, state: "END", errorCode: "DATA_LOSS", errorMessage: "cut off" };
    cluster.statuses = [failed as VersionStatus];

    await expect(cluster.run([model()], 200)).rejects.toThrow("1: cut off");
  });

  test("is refused while another is under way, and ended by a later one", async () => {
    const cluster = new Cluster();
    cluster.statuses = [];

    const first = cluster.run([model()]);
    await expect(cluster.run([model()])).rejects.toMatchObject({ code: "ABORTED" });
    await expect.poll(() => cluster.given).toHaveLength(1);
    const ended = first.catch((error: unknown) => error);
    await cluster.run([]);

    expect(await ended).toMatchObject({ code: "ABORTED" });
  });

  test.each<[string, readonly ReloadedModel[]]>([
    ["a model needs a name", [model({ name: "" })]],
    ["cannot be a model's name", [model({ name: "my movies" })]],
    ["cannot be a model's name", [model({ name: "." })]],
    ["cannot be a model's name", [model({ name: ".." })]],
    ["cannot be a model's name", [model({ name: "a/b" })]],
    ["cannot be a model's name", [model({ name: "m".repeat(2 ** 20) })]],
    ["listed twice", [model(), model()]],
    ["absolute base_path", [model({ basePath: "movies" })]],
    ["mount the store", [model({ basePath: "hdfs://bucket/movies" })]],
    ["only platform", [model({ platform: "pytorch" })]],
    ["names no version", [model({ versions: { kind: "specific", versions: [] } })]],
    ["below 0", [model({ labels: new Map([["stable", -1]]) })]],
    ["label without a name", [model({ labels: new Map([["", 1]]) })]],
  ])("is held to what a file is held to: %s", async (text, models) => {
    const cluster = new Cluster();

    await expect(cluster.run(models)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining(text) as string,
    });
    expect(cluster.given).toEqual([]);
  });
});
