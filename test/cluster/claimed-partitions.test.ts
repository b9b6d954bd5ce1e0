// Somebody writes workers of his own into the Redis of a cluster without a secret, and has them claim to hold
// all that the real workers hold. These must go on holding it, since nobody else can answer for it; and they must
// still give up what a real worker takes over.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Announcement, announcementToJson } from "@winnow/cluster";
import { incarnation, workerId } from "@winnow/core";
import { writeDemo } from "@winnow/model-writer";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { redisClient } from "../../packages/cluster/src/membership/fixtures/redis-server.ts";
import { supplyPorts } from "../port-supply.ts";
import { RedisProcess, hasRedisServer } from "./redis-process.ts";
import { RunningCluster, pause } from "./running-cluster.ts";
import { WAIT_MS, predict } from "./served-model.ts";

const directory = mkdtempSync(path.join(tmpdir(), "winnow-claims-"));
const FORGED = Array.from({ length: 12 }, (_, index) => `forged${index}`);

describe.skipIf(!hasRedisServer)("records of workers that nobody meets", () => {
  let redis: RedisProcess;
  let cluster: RunningCluster;
  let client: ReturnType<typeof redisClient>;

  beforeAll(async () => {
    await writeDemo(directory, { items: 6000, dim: 8, users: 50, k: 5, seed: 1 });
    redis = await RedisProcess.start();
    const workerArgs = ["--extra-memory", "0"];
    cluster = await RunningCluster.start({
      models: directory,
      workers: 2,
      redis: redis.url,
      workerArgs,
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

  const store = async (id: string, text: string): Promise<void> => {
    await client.zadd("winnow:default:members", 0, id);
    await client.set(`winnow:default:worker:${id}`, text, "PX", 600_000);
  };

  /** How many partitions a worker says that it holds. */
  const heldBy = async (name: string): Promise<number> => {
    const { versions = [] } = (await cluster.announcement(name)) ?? {};
    return versions.flatMap(({ tables }) => tables.flatMap(({ held }) => held)).length;
  };

  const isWhole = async (name: string): Promise<boolean> => {
    const { versions = [] } = (await cluster.announcement(name)) ?? {};
    return versions.length > 0 && versions.every(({ state }) => state === "ready");
  };

  /** Everything predictions gave for so long. */
  const statusesOf = async (durationMs: number): Promise<ReadonlySet<number>> => {
    const statuses = new Set<number>();
    for (const endMs = Date.now() + durationMs; Date.now() < endMs; await pause(50)) {
      statuses.add((await predict(cluster.url, { model: "movies" })).status);
    }
    return statuses;
  };

  /** What both workers hold, as one worker of another name and place. */
  const claimOf = (id: string, address: string, real: readonly Announcement[]): string => {
    const [first, second] = real as [Announcement, Announcement];
    const versions = first.versions.map((version, at) => ({
      ...version,
      tables: version.tables.map((table, position) => {
        const others = second.versions[at]?.tables[position]?.held ?? [];
        const held = new Map([...table.held, ...others].map((each) => [each.partition, each]));
        return { ...table, held: [...held.values()].toSorted((a, b) => a.partition - b.partition) };
      }),
    }));
    const claim = { ...first, workerId: workerId(id), incarnation: incarnation(1), address };
    return announcementToJson({ ...claim, versions });
  };

  test("make no real worker give up what nobody else holds: every request is answered", async () => {
    await vi.waitFor(
      async () => {
        expect(await isWhole("w0")).toBe(true);
        expect(await isWhole("w1")).toBe(true);
      },
      { timeout: WAIT_MS, interval: 200 },
    );
    const before = (await heldBy("w0")) + (await heldBy("w1"));
    const real = [(await cluster.announcement("w0"))!, (await cluster.announcement("w1"))!];
    const [nobody] = await supplyPorts(1);

    const claims = FORGED.map((id, index) => {
      // Some where nobody listens, some where a real worker does, under another name.
      const address = index % 2 === 0 ? `127.0.0.1:${nobody}` : real[0]!.address;
      return { id, claim: claimOf(id, address, real) };
    });
    // Whoever reads records that would live for longer than a worker's lets them live as long as those.
    const forge = () => Promise.all(claims.map(({ id, claim }) => store(id, claim)));
    await forge();
    const forging = setInterval(() => void forge(), 500);
    const kept = "keeps partitions that another worker is announced to hold and does not confirm";
    try {
      const statuses = await statusesOf(8000);

      expect([...statuses]).toEqual([200]);
      expect((await heldBy("w0")) + (await heldBy("w1"))).toBe(before);
      await vi.waitFor(() => expect(cluster.events("w0", kept).length).toBeGreaterThan(0), {
        timeout: WAIT_MS,
        interval: 200,
      });
    } finally {
      clearInterval(forging);
    }
  });

  test("are no reason to keep what a real worker takes over later", async () => {
    const before = (await heldBy("w0")) + (await heldBy("w1"));

    for (const id of FORGED) {
      await store(id, JSON.stringify({ withdrawn: true, worker_id: id, incarnation: 2 }));
    }
    await cluster.addWorker("w2");
    await vi.waitFor(
      async () => {
        const held = (await heldBy("w0")) + (await heldBy("w1"));
        expect(held).toBeLessThan(before);
        expect(held + (await heldBy("w2"))).toBe(before);
      },
      { timeout: WAIT_MS, interval: 500 },
    );

    expect([...(await statusesOf(1000))]).toEqual([200]);
  });
});
