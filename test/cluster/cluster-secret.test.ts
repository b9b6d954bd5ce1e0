// Somebody writes workers of his own into the Redis of a running cluster: nobody is connected to, nobody
// believes him, everybody tells of it. And the cluster's secret is replaced while it serves.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type Server, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { ClusterSecret, announcementToJson } from "@winnow/cluster";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { announced } from "../../packages/cluster/src/fixtures/announcement-words.ts";
import { redisClient } from "../../packages/cluster/src/membership/fixtures/redis-server.ts";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import { RunningCluster } from "./running-cluster.ts";
import { WAIT_MS, predict } from "./served-model.ts";

const OLD = "the secret of this test, for now";
const NEW = "the secret of this test, from now on";
const PROCESSES = ["w0", "w1", "router0"];
const directory = mkdtempSync(path.join(tmpdir(), "winnow-secret-"));
const secretFile = path.join(directory, "secrets");
const writeSecrets = (...keys: string[]): void => writeFileSync(secretFile, `${keys.join("\n")}\n`);
const secretOf = (key: string): ClusterSecret =>
  new ClusterSecret({ cluster: "default", keys: [key], acceptsUnsigned: false });

/** A trap: counts who connects. */
class Trap {
  visits = 0;
  readonly #server: Server = createServer((socket) => {
    this.visits += 1;
    socket.destroy();
  });

  async open(where: { readonly path: string } | { readonly port: 0 }): Promise<number> {
    await new Promise<void>((resolve) => {
      this.#server.listen({ ...where, host: "127.0.0.1" }, resolve);
    });
    const address = this.#server.address();
    return typeof address === "object" ? (address?.port ?? 0) : 0;
  }

  close(): void {
    this.#server.close();
  }
}

describe.skipIf(!hasRedisServer)("a cluster with a secret", () => {
  let redis: RedisProcess;
  let cluster: RunningCluster;
  let client: ReturnType<typeof redisClient>;

  beforeAll(async () => {
    await writeDemo(directory, { items: 300, dim: 8, users: 50, k: 5, seed: 1 });
    writeSecrets(OLD);
    redis = await RedisProcess.start();
    const trust = ["--cluster-secret-file", secretFile, "--worker-addresses", "127.0.0.1"];
    cluster = await RunningCluster.start({
      models: directory,
      workers: 2,
      redis: redis.url,
      routerArgs: trust,
      workerArgs: trust,
    });
    client = redisClient(redis.url);
    await cluster.loaded(["movies"]);
  });
  afterAll(async () => {
    client?.disconnect();
    await cluster?.stop();
    await redis?.kill();
    rmSync(directory, { recursive: true, force: true });
  });

  /** The router's count of refusals for a reason. */
  const refusedFor = async (reason: string): Promise<number> => {
    const page = await (await fetch(`${cluster.url}/monitoring/prometheus/metrics`)).text();
    const line = new RegExp(`winnow_refused_records_total\\{reason="${reason}"\\} (\\d+)`).exec(
      page,
    );
    return Number(line?.[1] ?? 0);
  };
  const store = async (id: string, text: string): Promise<void> => {
    await client.zadd("winnow:default:members", 0, id);
    await client.set(`winnow:default:worker:${id}`, text, "PX", 600_000);
  };

  test("believes no worker but its own, connects to none, and tells of each refusal", async () => {
    const socketTrap = new Trap();
    const portTrap = new Trap();
    const socket = path.join(directory, "trap");
    await socketTrap.open({ path: socket });
    const port = await portTrap.open({ port: 0 });
    const recordOf = (id: string, address: string): string =>
      announcementToJson({ ...announced({ id, versions: [{ version: 1 }] }), address });
    const local = recordOf("evil", `127.0.0.1:${port}`);
    const signed = (text: string, key = OLD): string => secretOf(key).sign("announcement", text);

    await store("evil", local);
    await store("liar", signed(local.replace("evil", "liar"), NEW));
    await store("double", signed(recordOf("w0", `127.0.0.1:${port}`)));
    await store("afar", signed(recordOf("afar", `localhost:${port}`)));
    await store("dark", signed(recordOf("dark", `unix:${socket}:1`)));
    await vi.waitFor(
      async () => {
        expect(await refusedFor("signature")).toBe(2);
        expect(await refusedFor("name")).toBe(1);
        expect(await refusedFor("address")).toBe(1);
        expect(await refusedFor("malformed")).toBe(1);
      },
      { timeout: WAIT_MS, interval: 200 },
    );
    // Long enough for several readings of the store, and for a connection to each address.
    await vi.waitFor(
      () => expect(cluster.events("w0", "record refused").length).toBeGreaterThanOrEqual(5),
      { timeout: WAIT_MS, interval: 200 },
    );
    const page = await (await fetch(`${cluster.url}/monitoring/prometheus/metrics`)).text();

    expect([socketTrap.visits, portTrap.visits]).toEqual([0, 0]);
    expect(page).toMatch(/winnow_membership_workers\{state="trusted"\} 2\n/);
    expect(page).toMatch(/winnow_membership_workers\{state="unreachable"\} 0\n/);
    expect(await predict(cluster.url, { model: "movies" })).toMatchObject({ status: 200 });
    const logged = cluster.events("router0", "record refused").map(({ source }) => source);
    expect(new Set(logged)).toEqual(new Set(["afar", "dark", "double", "evil", "liar"]));
    expect(logged).toHaveLength(5);
    socketTrap.close();
    portTrap.close();
    await client.del(
      ...["evil", "liar", "double", "afar", "dark"].map((id) => `winnow:default:worker:${id}`),
    );
  });

  test("L1: gets another without a restart, and loses nobody and no request meanwhile", async () => {
    const refusedBefore = await refusedFor("signature");
    const steps = [[OLD, NEW], [NEW, OLD], [NEW]];
    let answered = 0;

    for (const [at, keys] of steps.entries()) {
      writeSecrets(...keys);
      await vi.waitFor(
        async () => {
          expect(await predict(cluster.url, { model: "movies" })).toMatchObject({ status: 200 });
          answered += 1;
          for (const name of PROCESSES) {
            expect(cluster.events(name, "configuration changed")).toHaveLength(at + 1);
          }
          // A worker signs anew with its next renewal.
          for (const name of ["w0", "w1"]) {
            const stored = (await client.get(`winnow:default:worker:${name}`)) ?? "";
            const text = secretOf(keys[0]!).verify("announcement", stored);
            expect(text).toContain(`"worker_id":"${name}"`);
          }
        },
        { timeout: WAIT_MS, interval: 100 },
      );
    }

    expect(answered).toBeGreaterThan(3);
    expect(await refusedFor("signature")).toBe(refusedBefore);
  });
});
