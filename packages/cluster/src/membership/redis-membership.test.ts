// The common cases on a real Redis, and its faults: killed, emptied, flushed, frozen, lying.

import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { silentLogger, workerId } from "@winnow/core";
import { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../fixtures/eventually.ts";
import { announced } from "../fixtures/announcement-words.ts";
import type { WorkerWords } from "../fixtures/announcement-words.ts";
import { ClusterSecret, noSecret } from "../trust/cluster-secret.ts";
import { RefusedRecords } from "../trust/refused-records.ts";
import { encodeRecord } from "./membership-record.ts";
import { seededEnvironment as environment } from "../../../../test/doubles/seeded-environment.ts";
import { Watcher, membershipCases } from "./membership.cases.ts";
import type { MembershipStore } from "./membership.ts";
import { loadRedis } from "./redis-connection.ts";
import { LEFT_OUT, readIds, readTexts } from "./redis-reading.ts";
import { RedisMembership } from "./redis-membership.ts";
import type { RedisMembershipSettings } from "./redis-membership.ts";
import { RedisProcess, isRedisInstalled, redisClient } from "./fixtures/redis-server.ts";

const openRedis = await loadRedis();
const quick = { leaseMs: 1000, renewMs: 100, pollMs: 40, forgottenMs: 500 };

const secretOf = (...keys: string[]): ClusterSecret =>
  new ClusterSecret({ cluster: "default", keys, acceptsUnsigned: false });

/** What stands for a service or a name in front of Redis: new connections go where it leads now, open ones stay. */
class Forwarder {
  connections = 0;
  port: number;
  readonly #server = createServer((near) => {
    const far = connect(this.port, "127.0.0.1");
    this.connections += 1;
    for (const socket of [near, far]) socket.on("error", () => undefined);
    near.pipe(far).pipe(near);
  });

  constructor(port: number) {
    this.port = port;
  }

  async listen(): Promise<string> {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    return `redis://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
  }
}

/** A Redis with workers in it. */
class RedisStage {
  readonly server: RedisProcess;
  readonly #settings: Partial<RedisMembershipSettings>;
  readonly #workers = new Map<string, RedisMembership>();
  readonly #others: MembershipStore[] = [];

  constructor(server: RedisProcess, settings: Partial<RedisMembershipSettings> = {}) {
    this.server = server;
    this.#settings = { ...quick, ...settings };
  }

  join(settings: Partial<RedisMembershipSettings> = {}): RedisMembership {
    const found = { url: this.server.url, ...this.#settings, ...settings };
    const store = new RedisMembership(environment, found, openRedis);
    this.#others.push(store);
    return store;
  }

  async announce(words: WorkerWords): Promise<void> {
    const store = this.#workers.get(words.id) ?? this.join();
    this.#workers.set(words.id, store);
    await store.announce(announced(words));
  }

  async leave(id: string): Promise<void> {
    await this.#workers.get(id)!.withdraw();
    await this.kill(id);
  }

  async kill(id: string): Promise<void> {
    await this.#workers.get(id)!.close();
    this.#workers.delete(id);
  }

  async command(run: (redis: Redis) => Promise<unknown>): Promise<void> {
    const redis = new Redis(this.server.url);
    await run(redis);
    redis.disconnect();
  }

  async close(): Promise<void> {
    for (const store of this.#others) await store.close();
    await this.server.close();
  }
}

describe.skipIf(!isRedisInstalled)("with redis-server installed", () => {
  membershipCases("Redis", async () => {
    const stage = new RedisStage(await RedisProcess.start());
    return {
      isListed: false,
      announce: (words) => stage.announce(words),
      leave: (id) => stage.leave(id),
      kill: (id) => stage.kill(id),
      watcher: (refused) => stage.join(refused && { refused }),
      breakStore: () => stage.server.kill(),
      mendStore: () => stage.server.start(),
      poison: () =>
        stage.command(async (redis) => {
          await redis.zadd("winnow:default:members", 0, "w1");
          await redis.set("winnow:default:worker:w1", '{"worker_id":"w1"}');
        }),
      close: () => stage.close(),
    };
  });

  describe("RedisMembership", () => {
    let stage: RedisStage;
    let store: RedisMembership;
    let refused: RefusedRecords;
    let watcher: Watcher;

    beforeEach(async () => {
      stage = new RedisStage(await RedisProcess.start(), { secret: secretOf("s3cret") });
      refused = new RefusedRecords(silentLogger);
      store = stage.join({ refused });
      watcher = new Watcher(store);
      for (const id of ["w0", "w1", "w2", "w3"]) await stage.announce({ id });
      await watcher.sees("w0 w1 w2 w3");
      watcher.views.length = 0;
    });
    afterEach(() => stage.close());

    const expectNeverFewerThan = (count: number): void => {
      expect(Math.min(...watcher.views.map((view) => view.workers.length))).toBe(count);
      expect(watcher.views.every((view) => view.placementWorkers.length === 4)).toBe(true);
    };

    test("L1: loses nobody when Redis is killed and comes back empty", async () => {
      await stage.server.kill();
      await watcher.sees("w0 w1 w2 w3", false);
      await stage.server.start();
      await watcher.sees("w0 w1 w2 w3");
      await new Promise((resolve) => setTimeout(resolve, 3 * quick.forgottenMs));

      expectNeverFewerThan(4);
    });

    test("L1: loses nobody when Redis is flushed again and again", async () => {
      for (let round = 0; round < 4; round += 1) {
        await stage.command((redis) => redis.flushall());
        await new Promise((resolve) => setTimeout(resolve, 150));
      }
      await stage.announce({ id: "w0", versions: [{ version: 1 }] });
      await eventually(() => expect(watcher.last?.workers[0]?.versions).toHaveLength(1));

      expectNeverFewerThan(4);
    });

    test("L1: loses nobody when Redis freezes for longer than the lease", async () => {
      stage.server.freeze();
      await watcher.sees("w0 w1 w2 w3", false);
      await new Promise((resolve) => setTimeout(resolve, 2 * quick.leaseMs));
      stage.server.thaw();
      await watcher.sees("w0 w1 w2 w3");

      expectNeverFewerThan(4);
    });

    test("L3: lets a worker go that died as the clock of Redis was set back or records lost their expiry, and none that lives", async () => {
      const hours = 6 * 3_600_000;
      await stage.leave("w0");
      await watcher.sees("w1 w2 w3");
      await stage.kill("w1");

      // A clock that is set back by hours leaves hours to each key.
      await stage.command(async (redis) => {
        for (const id of ["w0", "w1", "w2", "w3"])
          await redis.pexpire(`winnow:default:worker:${id}`, hours);
      });
      await watcher.sees("w2 w3");
      // What copies keys without their expiry leaves for ever what it finds.
      await stage.kill("w2");
      await stage.command(async (redis) => {
        for (const id of ["w0", "w2", "w3"]) await redis.persist(`winnow:default:worker:${id}`);
      });
      await watcher.sees("w3");

      expect(Math.min(...watcher.views.map((view) => view.workers.length))).toBe(1);
      await stage.command(async (redis) => {
        const left = await redis.pttl("winnow:default:worker:w0");
        expect(left).toBeGreaterThan(quick.leaseMs);
        expect(left).toBeLessThanOrEqual(60_000);
      });
    });

    test("L1: loses nobody when Redis ends records before their time, again and again", async () => {
      // As with a clock that is set forward, or with `maxmemory-policy allkeys-lru`.
      const untilMs = Date.now() + 2 * quick.leaseMs;
      await stage.command(async (redis) => {
        while (Date.now() < untilMs) {
          for (const id of ["w1", "w2"]) await redis.del(`winnow:default:worker:${id}`);
          for (let read = 0; read < 3; read += 1) {
            await redis.publish("winnow:default:changed", "");
            await new Promise((resolve) => setTimeout(resolve, 10));
          }
          // Time in which they renew, and are read.
          await new Promise((resolve) => setTimeout(resolve, 3 * quick.renewMs));
        }
      });
      await stage.announce({ id: "w0", versions: [{ version: 1 }] });
      await eventually(() => expect(watcher.last?.workers[0]?.versions).toHaveLength(1));

      expectNeverFewerThan(4);
    });

    test("L3: announces itself to the new primary, where the old one stays as a replica", async () => {
      const next = await RedisProcess.start();
      const primary = redisClient(next.url);
      await primary.replicaof("127.0.0.1", stage.server.port);
      const service = new Forwarder(stage.server.port);
      const url = await service.listen();
      const worker = stage.join({ url });
      const key = "winnow:default:worker:w9";
      await worker.announce(announced({ id: "w9" }));
      await watcher.sees("w0 w1 w2 w3 w9");

      await eventually(async () => expect(await primary.exists(key)).toBe(1));
      await primary.replicaof("NO", "ONE");
      service.port = next.port;
      await stage.command((redis) => redis.replicaof("127.0.0.1", next.port));
      await primary.del(key);
      await eventually(async () => expect(await primary.exists(key)).toBe(1));

      expect(service.connections).toBeGreaterThan(1);
      primary.disconnect();
      await worker.close();
      service.close();
      await next.close();
    });

    test("ignores hostile records: unsigned, wrongly signed, replayed for another worker", async () => {
      const expected = { malformed: 0, signature: 3, name: 1, address: 0, stale: 0, excess: 0 };
      await stage.command(async (redis) => {
        const own = await redis.get("winnow:default:worker:w0");
        await redis.zadd("winnow:default:members", 0, "x1", 0, "x2", 0, "x3", 0, "x4", 0, "\n");
        await redis.set("winnow:default:worker:x1", JSON.stringify(announced({ id: "x1" })));
        await redis.set("winnow:default:worker:x2", own!);
        await redis.set("winnow:default:worker:x3", `hmac-sha256 ${"0".repeat(64)} {}`);
        await redis.set("winnow:default:worker:x4", Buffer.alloc(100_000, 0xff));
        await redis.lpush("winnow:default:worker:\n", "not even a string");
      });
      await eventually(() => expect(refused.counts).toEqual(expected));
      await stage.announce({ id: "w0", versions: [{ version: 1 }] });
      await eventually(() => expect(watcher.last?.workers[0]?.versions).toHaveLength(1));

      expect(watcher.ids).toBe("w0 w1 w2 w3");
      expect(refused.counts).toEqual(expected);
    });

    test("takes in no forged text, id or order that is too long, and finds workers behind many long ones", async () => {
      await stage.command(async (redis) => {
        const long = Buffer.alloc(32 * 2 ** 20, "a");
        await redis.set("winnow:default:order", long);
        await redis.set("winnow:default:worker:a0", long);
        await redis.zadd("winnow:default:members", 0, "a0", 0, long);
        for (let at = 1; at < 9; at += 1) {
          await redis.set(`winnow:default:worker:a${at}`, long.subarray(0, 2 ** 20));
          await redis.zadd("winnow:default:members", 0, `a${at}`);
        }
      });

      await stage.announce({ id: "w9" });
      await watcher.sees("w0 w1 w2 w3 w9");
      const replaced = await store.orders.replace("an order", await store.orders.read());

      expect(replaced).toBe(true);
      expect(await store.orders.read()).toBe("an order");
      expect(refused.counts.malformed).toBeGreaterThan(0);
    });

    test("replaces what is no text in the place of the order", async () => {
      await stage.command((redis) => redis.lpush("winnow:default:order", "of another program"));

      const replaced = await store.orders.replace("an order", await store.orders.read());

      expect(replaced).toBe(true);
      expect(await store.orders.read()).toBe("an order");
    });

    test("reads texts up to a number of bytes each and together, and keeps the places of the others", async () => {
      const [long, short] = ["winnow:default:long", "winnow:default:short"];
      await stage.command(async (redis) => {
        await redis.mset(long, "aaaa", short, "bb");
        await redis.zadd("winnow:default:ids", 0, "aaaa", 1, "bb");
        const ids = { from: 0, to: 9, bytesMax: 3 };

        const each = await readTexts(redis, [long, "none", short], { most: 3, all: 9 });
        const together = await readTexts(redis, [short, short, short], { most: 9, all: 5 });
        const many = await readTexts(redis, Array<string>(9000).fill(short), { most: 9, all: 1e6 });

        expect(each).toEqual(["", null, "bb"]);
        expect(together).toEqual(["bb", "bb", LEFT_OUT]);
        expect(many).toEqual(Array(9000).fill("bb"));
        expect(await readIds(redis, "winnow:default:ids", ids)).toEqual(["", "bb"]);
      });
    });

    describe("more ids than are read at once", () => {
      /** Ids that sort before all workers'. */
      const crowd = (count: number): string[] =>
        Array.from({ length: count }, (_, index) => `a${String(index).padStart(6, "0")}`);
      const forge = (count: number, record?: (id: string) => string): Promise<void> =>
        stage.command(async (redis) => {
          await redis.zadd("winnow:default:members", ...crowd(count).flatMap((id) => [0, id]));
          if (record === undefined) return;
          const pairs = crowd(count).flatMap((id) => [`winnow:default:worker:${id}`, record(id)]);
          await redis.mset(...pairs);
        });

      const unsigned = (id: string): string =>
        encodeRecord({ kind: "announced", announcement: announced({ id }) }, noSecret());

      test("hide no worker from a process that starts, whoever forged them", async () => {
        await forge(9000);
        const fresh = new Watcher(stage.join());
        await fresh.sees("w0 w1 w2 w3");
        await stage.kill("w3");

        await fresh.sees("w0 w1 w2");
        await watcher.sees("w0 w1 w2");
        const withRecords = new RefusedRecords(silentLogger);
        await forge(4200, unsigned);
        const late = new Watcher(stage.join({ refused: withRecords }));
        await late.sees("w0 w1 w2");

        // Records that were written without an end have one lease, in which a busy machine may not read them all.
        await eventually(async () => {
          await forge(4200, unsigned);
          expect(withRecords.counts.signature).toBeGreaterThanOrEqual(4096);
        });
      });

      test("take no known worker away", async () => {
        await forge(9000);
        await stage.announce({ id: "w9" });
        await watcher.sees("w0 w1 w2 w3 w9");
        watcher.views.length = 0;

        await new Promise((resolve) => setTimeout(resolve, 4 * quick.forgottenMs));
        await stage.announce({ id: "w0", versions: [{ version: 1 }] });
        await eventually(() => expect(watcher.last?.workers[0]?.versions).toHaveLength(1));

        expect(Math.min(...watcher.views.map((view) => view.workers.length))).toBe(5);
      });

      test("without a secret: known workers stay, and what finds no place is counted", async () => {
        const open = stage.join({ secret: noSecret(), refused });
        const seen = new Watcher(open);
        await seen.sees("w0 w1 w2 w3");

        await eventually(async () => {
          await forge(4200, unsigned);
          expect(refused.counts.excess).toBeGreaterThan(0);
          expect(seen.last!.workers).toHaveLength(4096);
        });

        expect(seen.ids.endsWith("w0 w1 w2 w3")).toBe(true);
      });
    });

    test("L3: tells the next life of a worker what is stored of the last", async () => {
      const fresh = stage.join();
      await stage.announce({ id: "w0", incarnation: 7000 });
      expect(await fresh.lastIncarnation(workerId("w0"))).toBe(7000);

      await stage.leave("w0");
      expect(await fresh.lastIncarnation(workerId("w0"))).toBe(7000);
      expect(await fresh.lastIncarnation(workerId("w7"))).toBeUndefined();
      await stage.command((redis) => redis.set("winnow:default:worker:w7", "anything"));
      expect(await fresh.lastIncarnation(workerId("w7"))).toBeUndefined();
      await stage.server.kill();

      expect(await fresh.lastIncarnation(workerId("w0"))).toBeUndefined();
    });

    test("a worker that suspends its lease is left out, and comes back with the next announcement", async () => {
      const worker = stage.join();
      await worker.announce(announced({ id: "w9" }));
      await watcher.sees("w0 w1 w2 w3 w9");

      worker.suspend();
      await watcher.sees("w0 w1 w2 w3");
      expect(watcher.last!.placementWorkers).toContain("w9");
      await worker.announce(announced({ id: "w9" }));
      await watcher.sees("w0 w1 w2 w3 w9");
    });

    test("that no worker has a record is told once, while those that are known stay, and that they have again", async () => {
      const logged: string[] = [];
      const note = (event: string): void => void logged.push(event);
      const log = { ...silentLogger, info: note, warn: note };
      const settings = { url: stage.server.url, ...quick, cluster: "stale" };
      const reader = new RedisMembership({ ...environment, log }, settings, openRedis);
      const known = new Watcher(reader);
      const worker = stage.join({ cluster: "stale" });
      await worker.announce(announced({ id: "w9" }));
      await known.sees("w9");

      worker.suspend();
      await eventually(() => expect(logged).toHaveLength(1));
      await new Promise((resolve) => void setTimeout(resolve, 2 * quick.pollMs));
      expect(known.ids).toBe("w9");
      await worker.announce(announced({ id: "w9" }));
      await eventually(() => expect(logged).toHaveLength(2));
      await reader.close();

      expect(logged).toEqual([
        "membership store has no record of any worker",
        "membership store has records of workers again",
      ]);
    });

    test("clusters of different names do not see each other, and secrets keep strangers out", async () => {
      const elsewhere = new Watcher(stage.join({ cluster: "elsewhere" }));
      const stranger = new Watcher(stage.join({ secret: secretOf("other") }));
      const open = new Watcher(stage.join({ secret: noSecret() }));

      await open.sees("w0 w1 w2 w3");
      await eventually(() => expect(elsewhere.last?.healthy).toBe(true));
      await eventually(() => expect(stranger.last?.healthy).toBe(true));

      expect([elsewhere.ids, stranger.ids]).toEqual(["", ""]);
    });
  });
});

test.runIf(!isRedisInstalled)("redis-server is not installed: its cases did not run", () => {
  expect(isRedisInstalled).toBe(false);
});
