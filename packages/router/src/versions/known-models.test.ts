// What a router tells of models whose versions come, go and are labelled: a whole router over
// pretended workers.

import type { RoutedVersion, RoutingTable } from "@winnow/cluster";
import { WinnowError } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { isSettled } from "./known-models.ts";
import { RouterBench } from "../fixtures/router-bench.ts";

const twice = [
  [0, 1, 2, 3],
  [0, 1, 2, 3],
];
const stable = (version: number) => new Map([["movies", new Map([["stable", version]])]]);

/** All workers hold these versions from now on. */
async function hold(bench: RouterBench, versions: readonly number[], unloading = false) {
  for (const worker of bench.workers) {
    worker.versions = [...versions];
    worker.unloading = unloading;
    bench.network.announce(worker);
  }
  bench.announceAll();
  await bench.clock.advanceSettled(100);
}

async function pinnedVersion(bench: RouterBench, label: string): Promise<number> {
  const pinned = await bench.router.pin({ model: "movies", label });
  pinned.release();
  return pinned.version;
}

describe("a router's start", () => {
  const waits = new WinnowError("UNAVAILABLE", "version 7 has no model file yet");

  /** A table with a model that answers, and one with versions in these states. */
  function tableBeside(...states: readonly RoutedVersion["status"][]): RoutingTable {
    const answers = { coverage: 1, refusal: undefined, status: { state: "AVAILABLE" } };
    const others = states.map((status) => ({ coverage: 0, refusal: waits, status }));
    return {
      models: new Map([
        ["movies", { versions: [answers] }],
        ["books", { versions: others }],
      ]),
    } as unknown as RoutingTable;
  }

  test("waits for models that are being loaded, not for failed ones or files that are not there", () => {
    const failed = { state: "END", error: waits } as const;
    const empty = { state: "START", error: waits } as const;
    const opening = { state: "START", error: undefined } as const;
    const loading = { state: "LOADING", error: undefined } as const;

    const settled = [[failed], [empty], [failed, empty], [empty, opening], [failed, loading]].map(
      (states) => isSettled(tableBeside(...states)),
    );

    expect(settled).toEqual([true, true, true, false, false]);
  });
});

test("no model is missing while all workers have just started and have found none; then one is", async () => {
  const bench = new RouterBench({ held: twice });
  for (const worker of bench.workers) {
    worker.state = "starting";
    worker.versions = [];
  }
  bench.announceAll();
  await bench.clock.advanceSettled(100);
  await expect(bench.router.pin({ model: "movies" })).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message:
      "The workers have just started, and have not said yet which models there are; try again",
  });
  bench.workers[0]!.state = "ready";

  await hold(bench, []);

  await expect(bench.router.pin({ model: "movies" })).rejects.toMatchObject({ code: "NOT_FOUND" });
});

describe("a router's models", () => {
  test("several versions answer side by side, each by its number, the newest by default", async () => {
    const bench = await RouterBench.started({ held: twice });
    await hold(bench, [7, 8]);

    const versions = await Promise.all(
      [undefined, 7, 8].map(async (version) => {
        const pinned = await bench.router.pin({ model: "movies", version });
        pinned.release();
        return pinned.version;
      }),
    );

    expect(versions).toEqual([8, 7, 8]);
    expect(bench.router.status("movies")?.map(({ version }) => version)).toEqual([8, 7]);
  });

  test("L1: while the default lacks partitions, another one that has all of them answers", async () => {
    const bench = await RouterBench.started({ held: [...twice, [0]] });
    await hold(bench, [8]);
    const [first, second] = bench.workers;
    first!.versions = [7];
    second!.versions = [7];
    for (const worker of [first!, second!]) bench.network.announce(worker);
    bench.announceAll();
    await bench.clock.advanceSettled(1000);

    const pinned = await bench.router.pin({ model: "movies" });
    pinned.release();

    expect(bench.router.clusterStatus().models[0]).toMatchObject({ version: 8 });
    expect(pinned.version).toBe(7);
  });

  test("a version that was unloaded stays in the status as END, and is not found", async () => {
    const bench = await RouterBench.started({ held: twice });
    await hold(bench, [7], true);
    expect(bench.router.status("movies")).toMatchObject([{ version: 7, state: "UNLOADING" }]);

    await hold(bench, []);

    expect(bench.router.status("movies")).toEqual([
      { version: 7, state: "END", errorCode: "OK", errorMessage: "" },
    ]);
    expect(bench.router.models()).toEqual([]);
    await expect(bench.router.pin({ model: "movies" })).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: "Servable not found for request: Latest(movies)",
    });
  });

  test("a version that all workers give up before its program came is not found by its number", async () => {
    const bench = new RouterBench({ held: twice });
    bench.network.damage = () => {
      throw new WinnowError("UNAVAILABLE", "it is gone");
    };
    await hold(bench, [7]);
    const seven = { model: "movies", version: 7 };
    await expect(bench.router.pin(seven)).rejects.toMatchObject({ code: "UNAVAILABLE" });

    await hold(bench, [7], true);

    await expect(bench.router.pin(seven)).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: "Servable not found for request: Specific(movies, 7)",
    });
  });

  test("a version that comes back is not over any more", async () => {
    const bench = await RouterBench.started({ held: twice });
    await hold(bench, [7], true);
    await hold(bench, []);

    await hold(bench, [7]);

    expect(bench.router.status("movies")).toMatchObject([{ version: 7, state: "AVAILABLE" }]);
    expect(bench.router.models()).toEqual(["movies"]);
  });

  test("a version whose workers are lost is not over: it is UNAVAILABLE, not unknown", async () => {
    const bench = await RouterBench.started({ held: twice });

    for (const worker of bench.workers) bench.network.kill(worker);
    await bench.clock.advanceSettled(1000);

    await expect(bench.router.pin({ model: "movies" })).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
  });

  test("the status remembers the last 16 versions that ended", async () => {
    const bench = await RouterBench.started({ held: twice });
    for (let version = 8; version < 30; version += 1) {
      await hold(bench, [version], true);
      await hold(bench, []);
    }

    const ended = bench.router.status("movies")?.map(({ version }) => version);

    expect(ended).toEqual(Array.from({ length: 16 }, (_, index) => 29 - index));
  });
});

describe("a router's labels", () => {
  test("can be moved while requests run, and move when their version is available", async () => {
    const bench = await RouterBench.started({ held: twice, options: { labels: stable(7) } });
    expect(await pinnedVersion(bench, "stable")).toBe(7);

    bench.router.setLabels(stable(8));
    expect(await pinnedVersion(bench, "stable")).toBe(7);

    await hold(bench, [7, 8]);
    expect(await pinnedVersion(bench, "stable")).toBe(8);

    bench.router.setLabels(new Map());
    await expect(pinnedVersion(bench, "stable")).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });

  test("that mean unavailable versions are as unavailable as those, where allowed", async () => {
    const options = { labels: stable(9), allowUnavailableLabels: true };
    const bench = await RouterBench.started({ held: twice, options });

    await expect(pinnedVersion(bench, "stable")).rejects.toMatchObject({
      code: "NOT_FOUND",
      message: "Servable not found for request: Specific(movies, 9)",
    });
  });
});
