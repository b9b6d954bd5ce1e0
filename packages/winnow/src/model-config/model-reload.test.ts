// What a reload asks of workers and when it is answered: all of it or, told in full, less.

import type { ModelsOrder } from "@winnow/cluster";
import { WinnowError, silentLogger, systemClock } from "@winnow/core";
import type { ReloadedModel, VersionLabels, VersionStatus, WorkerStanding } from "@winnow/router";
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

/** A pretended cluster: what was ordered, and what goes wrong. */
class Cluster {
  readonly orders: string[] = [];
  readonly labels: VersionLabels[] = [];
  readonly absent = new Set<string>();
  statuses: readonly VersionStatus[] = [available(1)];
  refuse: (worker: string, order: ModelsOrder) => WinnowError | undefined = () => undefined;
  readonly reload = new ModelReload({
    clock: systemClock,
    log: silentLogger,
    allowUnavailableLabels: false,
    connector: {
      setModels: async (address, order) => {
        const error = this.refuse(address, order);
        if (error !== undefined) throw error;
        const names = order.models.map(({ model: name }) => name).join();
        this.orders.push(`${order.checkOnly ? "check" : "set"} ${address} ${names}`);
      },
    },
    router: {
      workers: () => ["w0", "w1"].map((id) => this.#standing(id)),
      setLabels: (labels) => void this.labels.push(labels),
      status: () => this.statuses,
    },
  });

  #standing(id: string): WorkerStanding {
    const askable = !this.absent.has(id);
    return { id: id as WorkerStanding["id"], address: id, askable, trusted: true, questions: 0 };
  }

  run(models: readonly ReloadedModel[], withinMs = 1000): Promise<string | undefined> {
    const deadlineMs = systemClock.nowMs() + withinMs;
    return this.reload.run(models, { deadlineMs, signal: new AbortController().signal });
  }
}

const denied = (): WinnowError => new WinnowError("PERMISSION_DENIED", "outside");

describe("a reload", () => {
  test("asks every worker before it tells any, and sets labels last", async () => {
    const cluster = new Cluster();

    const notice = await cluster.run([model({ labels: new Map([["stable", 1]]) })]);

    expect(notice).toBeUndefined();
    expect(cluster.orders).toEqual([
      "check w0 movies",
      "check w1 movies",
      "set w0 movies",
      "set w1 movies",
    ]);
    expect(cluster.labels).toEqual([new Map([["movies", new Map([["stable", 1]])]])]);
  });

  test("that one worker refuses changes nothing and names the worker", async () => {
    const cluster = new Cluster();
    cluster.refuse = (worker) => (worker === "w1" ? denied() : undefined);

    await expect(cluster.run([model()])).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: "Cannot reload, nothing was changed: worker w1: outside",
    });
    expect(cluster.orders).toEqual(["check w0 movies"]);
    expect(cluster.labels).toEqual([]);
  });

  test("that fails half way says who has taken it", async () => {
    const cluster = new Cluster();
    cluster.refuse = (worker, { checkOnly }) =>
      worker === "w0" && !checkOnly ? new WinnowError("UNAVAILABLE", "gone") : undefined;

    await expect(cluster.run([model()])).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message:
        "Cannot reload, labels are unchanged; the new models were taken by w1: worker w0: gone",
    });
    expect(cluster.labels).toEqual([]);
  });

  test("tells which workers were not there; without any it is UNAVAILABLE", async () => {
    const cluster = new Cluster();
    cluster.absent.add("w1");

    await expect(cluster.run([model()])).resolves.toMatch(/not connected .*: w1$/);
    cluster.absent.add("w0");
    await expect(cluster.run([model()])).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("waits until the model can be asked", async () => {
    const cluster = new Cluster();
    cluster.statuses = [];
    const state = { isOver: false };

    const running = cluster.run([model()]).then(() => (state.isOver = true));
    await expect.poll(() => cluster.labels).toHaveLength(1);
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
    await expect.poll(() => cluster.labels).toHaveLength(1);
    const ended = first.catch((error: unknown) => error);
    await cluster.run([]);

    expect(await ended).toMatchObject({ code: "ABORTED" });
  });

  test.each<[string, readonly ReloadedModel[]]>([
    ["a model needs a name", [model({ name: "" })]],
    ["listed twice", [model(), model()]],
    ["absolute base_path", [model({ basePath: "movies" })]],
    ["mount the bucket", [model({ basePath: "gs://bucket/movies" })]],
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
    expect(cluster.orders).toEqual([]);
  });
});
