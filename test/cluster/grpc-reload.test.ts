// HandleReloadConfigRequest over clusters of real processes, by a client that knows the .proto files
// alone: models come and go and labels move as told, or nothing changes and the answer says why. What
// was ordered stands, whoever is away, restarts or joins later, until it is withdrawn.

import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type ServingClient,
  clientOf,
  whenConnected,
} from "../../packages/router/src/grpc/fixtures/grpc-client.ts";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import { RunningCluster, repositoryRoot } from "./running-cluster.ts";
import { supplyPorts } from "../port-supply.ts";
import { eventually, predict, versionOf, versionsOf } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-reload-"));
const root = path.join(directory, "models");
const file = path.join(directory, "models.config");

interface Wanted {
  readonly name: string;
  readonly base_path: string;
  readonly model_platform: "tensorflow";
  readonly version_labels?: Readonly<Record<string, number>>;
  readonly model_version_policy?: object;
}

const OK = { status: { error_code: "OK", error_message: "" } };
const movies = (stable: number): Wanted => ({
  name: "movies",
  base_path: path.join(root, "movies"),
  model_platform: "tensorflow",
  model_version_policy: { specific: { versions: [1, 2] } },
  version_labels: { stable },
});
const latest = (name: string, folder: string): Wanted => ({
  name,
  base_path: `${directory}/${folder}`,
  model_platform: "tensorflow",
});
const films = latest("films", "models/movies");
const shows = latest("shows", "models/movies");

beforeAll(async () => {
  for (const version of [1, 2]) {
    const demo = path.join(directory, `demo-${version}`);
    await writeDemo(demo, { items: 300, dim: 8, users: 50, k: 5, seed: version });
    cpSync(path.join(demo, "movies/1"), path.join(root, `movies/${version}`), { recursive: true });
  }
  cpSync(path.join(root, "movies"), path.join(directory, "outside"), { recursive: true });
  symlinkSync(path.join(directory, "outside"), path.join(root, "escape"));
  writeFileSync(
    file,
    `model_config_list { config { name: "movies" base_path: "${root}/movies" } }`,
  );
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** A cluster that takes orders, how its members find each other, and its client. */
class OrderedCluster {
  readonly cluster: RunningCluster;
  readonly members: readonly string[];
  readonly redis: RedisProcess | undefined;
  readonly #client: ServingClient;

  private constructor(
    cluster: RunningCluster,
    client: ServingClient,
    found: { readonly members: readonly string[]; readonly redis: RedisProcess | undefined },
  ) {
    this.cluster = cluster;
    this.#client = client;
    this.members = found.members;
    this.redis = found.redis;
  }

  static async start(kind: string): Promise<OrderedCluster> {
    const redis = kind === "redis" ? await RedisProcess.start() : undefined;
    const [grpcPort] = (await supplyPorts(1)) as [number];
    const state = ["--state-dir", path.join(directory, `state-${kind}`)];
    const cluster = await RunningCluster.start({
      models: root,
      workers: 3,
      ...(redis && { redis: redis.url }),
      routerArgs: ["--grpc-port", String(grpcPort), ...state],
      workerArgs: [`--model_config_file=${file}`, "--model_reload_root", root, ...state],
    });
    const listed = cluster.members.join(",");
    const members = redis === undefined ? ["--members", listed] : ["--redis", redis.url];
    const started = new OrderedCluster(cluster, clientOf("ModelService", grpcPort), {
      members,
      redis,
    });
    await cluster.loaded(["movies"]);
    return started;
  }

  reload(...models: readonly Wanted[]): Promise<object> {
    const request = { config: { model_config_list: { config: models } } };
    return this.#client.callWith("HandleReloadConfigRequest", request, whenConnected());
  }

  /** The version that answers for a label. */
  async labelled(label: string): Promise<string | null> {
    const url = `${this.cluster.url}/v1/models/movies/labels/${label}:predict`;
    const response = await fetch(url, { method: "POST", body: '{"instances":["42"]}' });
    return response.headers.get("x-winnow-model-version");
  }

  /** What requests for a label are answered, one after the other, up to the first that is answered with a prediction. */
  async statusesUntilAnswered(label: string): Promise<readonly number[]> {
    const url = `${this.cluster.url}/v1/models/movies/labels/${label}:predict`;
    const statuses: number[] = [];
    while (statuses.at(-1) !== 200) {
      const asked = fetch(url, { method: "POST", body: '{"instances":["42"]}' });
      const status = await asked.then(
        async (response) => {
          await response.arrayBuffer();
          return response.status;
        },
        () => undefined,
      );
      if (status !== undefined) statuses.push(status);
      if (status !== 200) await pause(10);
    }
    return statuses;
  }

  /** The version that a label means, once it is that one. */
  async means(label: string, version: string | null): Promise<string | null> {
    const look = (): Promise<string | null> => this.labelled(label).catch(() => "nobody there");
    return eventually(this.cluster, look, (seen) => seen === version);
  }

  /** Waits until a worker announces these models and no others that stay. */
  async serves(worker: string, ...names: readonly string[]): Promise<void> {
    const wanted = names.toSorted().join();
    await eventually(
      this.cluster,
      async () => {
        const versions = (await this.cluster.announcement(worker))?.versions ?? [];
        const lasting = versions.filter(({ state }) => state !== "unloading");
        return [...new Set(lasting.map(({ model }) => model))].toSorted().join();
      },
      (seen) => seen === wanted,
    );
  }

  /** `winnow order`. */
  async order(...args: readonly string[]): Promise<string> {
    const script = path.join(repositoryRoot, "packages/winnow/bin/winnow.js");
    const run = promisify(execFile);
    const { stdout } = await run(process.execPath, [script, "order", ...this.members, ...args]);
    return stdout;
  }

  async kill(...names: readonly string[]): Promise<void> {
    for (const name of names) this.cluster.signal(name, "SIGKILL");
    for (const name of names) await this.cluster.ended(name);
  }

  async stop(): Promise<void> {
    this.#client.close();
    await this.cluster.stop();
    await this.redis?.kill();
  }
}

const WORKERS = ["w0", "w1", "w2"];

describe.each([
  { kind: "list", isPossible: true },
  { kind: "redis", isPossible: hasRedisServer },
])("HandleReloadConfigRequest, members by $kind", ({ kind, isPossible }) => {
  let on: OrderedCluster;

  beforeAll(async () => {
    if (isPossible) on = await OrderedCluster.start(kind);
  });
  afterAll(async () => on?.stop());

  test.skipIf(!isPossible)(
    "adds a model and loads versions; all answer when the call does",
    async () => {
      expect(await on.reload(movies(1), films)).toMatchObject(OK);

      expect(await predict(on.cluster.url, { model: "films" })).toMatchObject({
        status: 200,
        version: "2",
      });
      expect(await on.labelled("stable")).toBe("1");
      // What each worker holds, the router hears in its own time: a model answers before its last replica is loaded.
      for (const worker of WORKERS) {
        await eventually(
          on.cluster,
          () => on.cluster.announcement(worker),
          (told) =>
            ["films", "movies"].every((name) => told?.versions.some(({ model }) => model === name)),
        );
      }
    },
  );

  test.skipIf(!isPossible)("moves a label", async () => {
    expect(await on.reload(movies(2), films)).toMatchObject(OK);

    expect(await on.labelled("stable")).toBe("2");
  });

  test.skipIf(!isPossible).each(["outside", "models/escape", "models/../outside"])(
    "changes nothing where a base path leads out of the workers' root: %s",
    async (folder) => {
      await expect(on.reload(latest("stray", folder))).rejects.toMatchObject({
        code: 7,
        details: expect.stringMatching(
          /nothing was changed: workers w0, w1, .*: .*outside of --model_reload_root/,
        ) as string,
      });
      expect(await versionsOf(on.cluster.url, "stray")).toEqual([]);
      expect(await on.labelled("stable")).toBe("2");
      expect((await versionOf(on.cluster.url, "films", 2))?.state).toBe("AVAILABLE");
    },
  );

  test.skipIf(!isPossible)("removes a model", async () => {
    expect(await on.reload(movies(2))).toMatchObject(OK);

    await eventually(
      on.cluster,
      () => versionsOf(on.cluster.url, "films"),
      (told) => told.length > 0 && told.every(({ state }) => state !== "AVAILABLE"),
    );
    expect(await on.labelled("stable")).toBe("2");
  });

  test.skipIf(!isPossible)(
    "stands for a worker that restarts, and for one that is killed meanwhile",
    async () => {
      expect(await on.reload(movies(1), films)).toMatchObject(OK);
      await on.kill("w1");
      on.cluster.restart("w1");
      await on.serves("w1", "films", "movies");

      await on.kill("w2");
      expect(await on.reload(movies(1), shows)).toMatchObject({ status: { error_code: "OK" } });
      on.cluster.restart("w2");

      await on.serves("w2", "movies", "shows");
    },
  );

  test.skipIf(!isPossible)("stands for a worker that is frozen meanwhile", async () => {
    on.cluster.signal("w0", "SIGSTOP");
    try {
      expect(await on.reload(movies(1), films)).toMatchObject({ status: { error_code: "OK" } });
    } finally {
      on.cluster.signal("w0", "SIGCONT");
    }

    await on.serves("w0", "films", "movies");
  });

  test.skipIf(!isPossible)("stands for a router that restarts: its labels too", async () => {
    await on.kill("router0");
    on.cluster.restart("router0");

    expect(await on.means("stable", "1")).toBe("1");
  });

  test.skipIf(!isPossible)(
    "has labels that are waited for, and never unknown, by a router without its state",
    async () => {
      await on.kill("router0");
      const state = path.join(directory, `state-${kind}`);
      const kept = readdirSync(state).filter((name) => name.startsWith("router-order"));
      for (const name of kept) rmSync(path.join(state, name));
      on.cluster.restart("router0");

      const statuses = await on.statusesUntilAnswered("stable");

      expect(kept).toHaveLength(1);
      expect(statuses.filter((status) => status !== 503)).toEqual([200]);
    },
  );

  test.skipIf(kind !== "redis" || !isPossible)(
    "is refused while Redis is away; what stands outlives a Redis that forgets it",
    async () => {
      await on.redis!.kill();
      await expect(on.reload(movies(2))).rejects.toMatchObject({
        code: 14,
        details: expect.stringContaining("Redis, where orders are kept, does not answer") as string,
      });
      expect(await on.labelled("stable")).toBe("1");

      await on.redis!.restart();
      await on.cluster.addWorker("w3");
      await on.serves("w3", "films", "movies");
      expect(await on.reload(movies(2), films)).toMatchObject(OK);
      await on.kill("w3");
      expect(await on.reload(movies(1), films)).toMatchObject({ status: { error_code: "OK" } });
    },
  );

  test.skipIf(!isPossible)("stands when all processes have ended at once", async () => {
    await on.kill(...WORKERS, "router0");
    await on.redis?.kill();
    await on.redis?.restart();
    for (const name of [...WORKERS, "router0"]) on.cluster.restart(name);

    for (const worker of WORKERS) await on.serves(worker, "films", "movies");
    await on.cluster.loaded(["movies", "films"]);
    // A label waits until the router has the order again.
    expect(await on.means("stable", "1")).toBe("1");
  });

  test.skipIf(!isPossible)("is shown and withdrawn by `winnow order`", async () => {
    const shown = await on.order();
    expect(shown).toMatch(/^order \d+, given .* by router on /);
    expect(shown).toContain(`model films in ${root}/movies, latest 1`);
    for (const worker of WORKERS) expect(shown).toContain(`worker ${worker} follows it`);

    expect(await on.order("--withdraw")).toContain("withdrawn, processes follow their own flags");

    for (const worker of WORKERS) await on.serves(worker, "movies");
    expect(await on.means("stable", null)).toBeNull();
  });
});
