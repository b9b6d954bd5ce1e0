// Programs are fetched, checked, loaded, kept while somebody needs them, and then let go.

import { WinnowError, silentLogger, workerId } from "@winnow/core";
import type { Logger, Tensor, WorkerId } from "@winnow/core";
import type { DenseEngine } from "@winnow/accelerator";
import type { RoutingTable, WorkerConnector } from "@winnow/cluster";
import { describe, expect, test } from "vitest";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import { version } from "../doubles/fake-cluster.ts";
import { resolveRouterOptions } from "../router-settings.ts";
import type { WorkerPeer } from "../workers/worker-peer.ts";
import { ProgramStore } from "./program-store.ts";
import { plainOutputs, RouterBench } from "../fixtures/router-bench.ts";

const both = [
  [0, 1, 2, 3],
  [0, 1, 2, 3],
];

/** Counts what is loaded; refuses the first `failures` models. */
class CountingEngine implements DenseEngine {
  loaded = 0;
  failures: number;

  constructor(failures = 0) {
    this.failures = failures;
  }

  async load(): ReturnType<DenseEngine["load"]> {
    if (this.failures > 0) {
      this.failures -= 1;
      throw new RangeError("no memory");
    }
    this.loaded += 1;
    return {
      run: async () => new Map<string, Tensor>(),
      release: async () => {
        this.loaded -= 1;
      },
    };
  }

  async close(): Promise<void> {}
}

describe("the program store", () => {
  test("an item table that is not cut is told of in the log and in the status, beside OK", async () => {
    const warnings: unknown[] = [];
    const log: Logger = {
      ...silentLogger,
      warn: (event, fields) => warnings.push([event, fields]),
    };
    const obstacle = { node: "probabilities", op: "Softmax" };
    const uncutTables = [{ tensor: "kernel", bytes: 4096, ranking: "top", obstacle }];
    const bench = await RouterBench.started({ held: both, uncutTables, log });

    const [status] = bench.router.status("movies") ?? [];

    expect(status).toMatchObject({ state: "AVAILABLE", errorCode: "OK" });
    expect(status?.errorMessage).toBe(
      "Every router holds the 4096 bytes of kernel, which are not cut into partitions: operation " +
        "Softmax (node probabilities) keeps the scores of node top from being searched",
    );
    const fields = { model: "movies", tensor: "kernel", bytes: 4096, obstacle: "probabilities" };
    expect(warnings).toMatchObject([["table not cut: every router holds it", fields]]);
  });

  test("a damaged program is never run, and is asked for again", async () => {
    const bench = new RouterBench({ held: both, options: { programRetryMs: 1000 } });
    bench.network.damage = (bytes) => bytes.slice(0, bytes.length / 2);
    bench.announceAll();
    await bench.clock.advanceSettled(200);

    const early = bench.router.pin({ model: "movies" });
    await expect(early).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(bench.router.ready).toBe(false);
    bench.network.damage = undefined;
    await bench.clock.advanceSettled(2000);

    expect(plainOutputs(await bench.settle(bench.predict([1])))).toEqual(bench.expected([1]));
  });

  test("(L4) a worker that is lost while it is asked is not waited for: another one sends it", async () => {
    const bench = new RouterBench({ held: both });
    const asked: string[] = [];
    const sent = bench.network.program.bind(bench.network);
    // As a machine that vanishes: its connection is not reset, and nothing more comes.
    const hung: WorkerConnector["program"] = (address, _query, signal) => {
      asked.push(address);
      if (asked.length > 1) return sent(address);
      return new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason as Error));
      });
    };
    bench.network.program = hung as typeof bench.network.program;
    bench.announceAll();
    await bench.clock.advanceSettled(200);
    expect(asked).toHaveLength(1);
    expect(bench.router.ready).toBe(false);
    bench.network.kill(bench.workers.find(({ address }) => address === asked[0])!);
    await bench.clock.advanceSettled(200);
    expect(asked).toHaveLength(2);
    expect(plainOutputs(await bench.settle(bench.predict([1])))).toEqual(bench.expected([1]));
  });

  test("(L4) nor is one that came back at its address before a table left it out", async () => {
    const clock = new ManualClock();
    const asked: string[] = [];
    const program: WorkerConnector["program"] = (address, _query, signal) => {
      asked.push(address);
      return new Promise((_resolve, reject) => {
        signal?.addEventListener("abort", () => reject(signal.reason as Error));
      });
    };
    const peer = { askable: true, address: "w0:1", streamNumber: 1 };
    const store = new ProgramStore(
      {
        environment: { clock, random: () => 0.5, log: silentLogger },
        settings: resolveRouterOptions({ programRetryMs: 1000 }),
        connector: { program } as WorkerConnector,
        denseEngine: new CountingEngine(),
        peers: new Map([[workerId("w0"), peer as WorkerPeer]]),
      },
      () => undefined,
    );
    const contents = [{ key: version, holders: [workerId("w0")] }];
    const table = { models: new Map([["movies", { contents }]]) } as unknown as RoutingTable;

    store.follow(table);
    store.follow(table);
    await clock.advanceSettled(2000);
    const before = asked.length;
    peer.streamNumber = 2;
    store.follow(table);
    await clock.advanceSettled(2000);

    expect([before, asked.length]).toEqual([1, 2]);
    store.close();
  });

  test("(L4) nor is one asked that was lost while another one was asked", async () => {
    const clock = new ManualClock();
    const asked: string[] = [];
    let fail: (error: WinnowError) => void = () => undefined;
    const program: WorkerConnector["program"] = (address) => {
      asked.push(address);
      return new Promise((_resolve, reject) => (fail = reject));
    };
    const ids = ["w0", "w1", "w2"].map(workerId);
    const peers = new Map(
      ids.map((id) => [id, { askable: true, address: `${id}:1`, streamNumber: 1 }]),
    );
    const store = new ProgramStore(
      {
        environment: { clock, random: () => 0.5, log: silentLogger },
        settings: resolveRouterOptions({}),
        connector: { program } as WorkerConnector,
        denseEngine: new CountingEngine(),
        peers: peers as unknown as ReadonlyMap<WorkerId, WorkerPeer>,
      },
      () => undefined,
    );
    const contents = [{ key: version, holders: ids }];
    const table = { models: new Map([["movies", { contents }]]) } as unknown as RoutingTable;

    store.follow(table);
    await clock.advanceSettled(10);
    const [first] = asked;
    const [lost, left] = ids.filter((id) => `${id}:1` !== first);
    peers.get(lost!)!.askable = false;
    store.follow(table);
    fail(new WinnowError("UNAVAILABLE", "gone"));
    await clock.advanceSettled(10);

    expect(asked).toEqual([first, `${left}:1`]);
    store.close();
  });

  test("(L4) a program whose small tables no worker can read any more comes without them", async () => {
    const bench = new RouterBench({ held: both, inline: true });
    const sent = bench.network.program.bind(bench.network);
    const wanted: number[] = [];
    const program: WorkerConnector["program"] = async (address, { tableBytesMax }) => {
      wanted.push(tableBytesMax);
      if (tableBytesMax > 0) throw new WinnowError("DATA_LOSS", "replaced in place");
      return await sent(address);
    };
    bench.network.program = program as typeof bench.network.program;
    bench.announceAll();
    await bench.clock.advanceSettled(200);

    expect(wanted.map((bytes) => bytes > 0)).toEqual([true, true, false]);
    expect(plainOutputs(await bench.settle(bench.predict([1])))).toEqual(bench.expected([1]));
  });

  test("the status tells why a program could not be loaded", async () => {
    const bench = new RouterBench({ held: both });
    bench.network.damage = () => new Uint8Array(3);
    bench.announceAll();
    await bench.clock.advanceSettled(200);

    const [status] = bench.router.status("movies") ?? [];

    expect(status).toMatchObject({ version: 7, state: "LOADING", errorCode: "DATA_LOSS" });
  });

  test("dense models are loaded before a version may be asked, and released with it", async () => {
    const denseEngine = new CountingEngine();
    const denseModels = [new Uint8Array(8), new Uint8Array(8)];
    const bench = await RouterBench.started({ held: both, denseEngine, denseModels });

    expect(denseEngine.loaded).toBe(2);
    bench.router.close();
    await bench.clock.advanceSettled(10);

    expect(denseEngine.loaded).toBe(0);
    expect(bench.clock.pendingTimers).toBe(0);
  });

  test("models loaded before one that fails are released again", async () => {
    const denseEngine = new CountingEngine();
    const denseModels = [new Uint8Array(8), new Uint8Array(8)];
    const bench = new RouterBench({ held: both, denseEngine, denseModels });
    const load = denseEngine.load.bind(denseEngine);
    denseEngine.load = () => {
      denseEngine.failures = denseEngine.loaded === 1 ? 1 : 0;
      return load();
    };
    bench.announceAll();
    await bench.clock.advanceSettled(200);

    expect(denseEngine.loaded).toBe(0);
    expect(bench.router.status("movies")?.[0]).toMatchObject({ errorMessage: "no memory" });
  });

  test("a program that the dense engine refuses ends its version, with the reason, and is not tried again", async () => {
    const denseEngine = new CountingEngine();
    let tries = 0;
    denseEngine.load = async () => {
      tries += 1;
      throw new WinnowError("INVALID_ARGUMENT", "Cannot load a dense part: no operator Foo");
    };
    const bench = new RouterBench({ held: both, denseEngine, denseModels: [new Uint8Array(8)] });
    bench.announceAll();
    await bench.clock.advanceSettled(120_000);

    const reason = "movies/7 cannot be served: Cannot load a dense part: no operator Foo";
    expect(bench.router.status("movies")).toMatchObject([
      { version: 7, state: "END", errorCode: "FAILED_PRECONDITION", errorMessage: reason },
    ]);
    for (const target of [{ model: "movies" }, { model: "movies", version: 7 }]) {
      await expect(bench.router.pin(target)).rejects.toMatchObject({
        code: "FAILED_PRECONDITION",
        message: reason,
      });
    }
    expect(tries).toBe(1);
  });

  test("a program for which memory is short is loaded once there is some", async () => {
    const denseEngine = new CountingEngine();
    const load = denseEngine.load.bind(denseEngine);
    let isShort = true;
    denseEngine.load = async () => {
      if (isShort) throw new WinnowError("RESOURCE_EXHAUSTED", "std::bad_alloc");
      return await load();
    };
    const bench = new RouterBench({ held: both, denseEngine, denseModels: [new Uint8Array(8)] });
    bench.announceAll();
    await bench.clock.advanceSettled(200);
    const [before] = bench.router.status("movies") ?? [];
    isShort = false;
    await bench.clock.advanceSettled(120_000);

    expect(before).toMatchObject({ state: "LOADING", errorCode: "RESOURCE_EXHAUSTED" });
    expect(bench.router.status("movies")).toMatchObject([{ state: "AVAILABLE", errorCode: "OK" }]);
  });

  test("a program nobody announces is kept for a while, and as long as it is pinned", async () => {
    const denseEngine = new CountingEngine();
    const bench = await RouterBench.started({
      held: both,
      denseEngine,
      denseModels: [new Uint8Array(8)],
      options: { programKeepMs: 500 },
    });
    const pinned = await bench.router.pin({ model: "movies" });

    for (const worker of bench.workers) {
      worker.versions = [];
      bench.network.announce(worker);
    }
    await bench.clock.advanceSettled(1000);
    const whilePinned = denseEngine.loaded;
    pinned.release();
    await bench.clock.advanceSettled(10);

    expect(whilePinned).toBe(1);
    expect(denseEngine.loaded).toBe(0);
  });

  test("a small table that came with the program is looked up without asking anybody", async () => {
    const bench = await RouterBench.started({ held: both, inline: true });

    const prediction = await bench.settle(bench.predict([1, 39]));
    const refused = bench.predict([40]);

    expect(plainOutputs(prediction)).toEqual(bench.expected([1, 39]));
    expect(bench.workers.reduce((sum, worker) => sum + worker.queries, 0)).toBeLessThanOrEqual(2);
    await expect(refused).rejects.toThrow("indices[0] = 40 is not in [0, 40)");
  });
});
