// Seen items in a real Redis: what is read, and what happens to readings while it is killed, frozen or crowded.

import { inspect } from "node:util";
import { type WinnowError, silentLogger } from "@winnow/core";
import type { Redis } from "ioredis";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../fixtures/eventually.ts";
import {
  RedisProcess,
  isRedisInstalled,
  redisClient,
} from "../membership/fixtures/redis-server.ts";
import { loadRedis } from "../membership/redis-connection.ts";
import { RedisSeenItems } from "./redis-seen-items.ts";
import { ManualClock } from "../../../../test/doubles/manual-clock.ts";
import type { SeenQuestion } from "./seen-items.ts";

const openRedis = await loadRedis();

describe.skipIf(!isRedisInstalled)("seen items in Redis", () => {
  let server: RedisProcess;
  let client: Redis;
  let items: RedisSeenItems;
  let logged: string[] = [];
  const note = (event: string, fields?: object): void => void logged.push(event + inspect(fields));
  const log = { ...silentLogger, warn: note, info: note };
  let clock = new ManualClock();

  beforeEach(async () => {
    server = await RedisProcess.start();
    client = redisClient(server.url);
    client.on("error", () => undefined);
    logged = [];
    clock = new ManualClock();
    items = new RedisSeenItems(openRedis, server.url, { log, clock });
  });
  afterEach(async () => {
    items.close();
    client.disconnect();
    server.thaw();
    await server.close();
  });

  const asked = (question: Partial<SeenQuestion> = {}): SeenQuestion => {
    return { key: "seen:7", type: "set", countMax: 3, ...question };
  };
  const texts = async (question?: Partial<SeenQuestion>) => {
    const { members, isCut } = await items.read(asked(question));
    return { members: members.map((each) => Buffer.from(each).toString("latin1")), isCut };
  };

  test("are the whole set as bytes, and none for a key that does not exist", async () => {
    const bytes = Buffer.from([0xff, 0x00, 0x0d, 0x0a]);
    await client.sadd("seen:7", "a", "b", bytes);
    const { members, isCut } = await texts();
    expect(members.toSorted()).toEqual(["a", "b", bytes.toString("latin1")].toSorted());
    expect(isCut).toBe(false);
    expect(await texts({ key: "seen:8" })).toEqual({ members: [], isCut: false });
  });

  test("of a set with more members are so many different ones, and told as cut", async () => {
    const all = ["a", "b", "c", "d", "e"];
    await client.sadd("seen:7", ...all);
    const { members, isCut } = await texts();
    expect(isCut).toBe(true);
    expect(new Set(members).size).toBe(3);
    expect(all).toEqual(expect.arrayContaining(members));
  });

  test("of a sorted set are the members with the largest scores", async () => {
    await client.zadd("seen:7", 1, "old", 5, "newest", 3, "new", 4, "newer");
    const sorted = { members: ["newest", "newer", "new"], isCut: false };
    expect(await texts({ type: "sorted_set" })).toEqual(sorted);
  });

  test("are refused where the key holds something else", async () => {
    await client.set("seen:7", "text");
    await expect(items.read(asked())).rejects.toThrow("WRONGTYPE");
    const refused = { code: "FAILED_PRECONDITION" };
    await expect(items.read(asked({ type: "sorted_set" }))).rejects.toMatchObject(refused);
  });

  test("fail while Redis is away, also from the start, and are there again with it", async () => {
    await client.sadd("seen:7", "a");
    expect(await texts()).toMatchObject({ members: ["a"] });
    await server.kill();
    await expect(items.read(asked())).rejects.toMatchObject({ code: "UNAVAILABLE" });
    const early = new RedisSeenItems(openRedis, server.url, { log: silentLogger, clock });
    await expect(early.read(asked())).rejects.toMatchObject({ code: "UNAVAILABLE" });

    await server.start();

    await eventually(() => items.read(asked()));
    await eventually(() => early.read(asked()));
    early.close();
  });

  test("that cannot be read are logged once with the reason, and once when they are read again", async () => {
    await texts();
    await server.kill();
    await eventually(async () => {
      await items.read(asked()).catch(() => undefined);
      expect(logged).toHaveLength(1);
    });
    await Promise.allSettled(Array.from({ length: 20 }, () => items.read(asked())));
    const { host: store } = new URL(server.url);
    expect(logged).toEqual([
      `seen items cannot be read${inspect({ store, message: `connect ECONNREFUSED ${store}` })}`,
    ]);

    await server.start();
    await eventually(() => items.read(asked()));
    await texts();
    expect(logged.slice(1)).toEqual(["seen items are read againundefined"]);
  });

  test("of a Redis that is away from the start are logged with the reason, without its password", async () => {
    const early = new RedisSeenItems(openRedis, "redis://:secret@127.0.0.1:1", { log, clock });
    await expect(early.read(asked())).rejects.toThrow("cannot be reached");
    early.close();
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain("connect ECONNREFUSED 127.0.0.1:1");
    expect(logged[0]).not.toContain("secret");
  });

  test("fail while Redis stands still: at first after a while, then at once", async () => {
    await client.sadd("seen:7", "a");
    expect(await texts()).toMatchObject({ members: ["a"] });
    server.freeze();
    const first = await Promise.allSettled(Array.from({ length: 50 }, () => items.read(asked())));
    expect(first.map(({ status }) => status)).toEqual(first.map(() => "rejected"));

    const startMs = performance.now();
    const second = await Promise.allSettled(Array.from({ length: 50 }, () => items.read(asked())));
    expect(second.map(({ status }) => status)).toEqual(second.map(() => "rejected"));
    expect(performance.now() - startMs).toBeLessThan(400);

    server.thaw();
    await eventually(async () => expect(await texts()).toMatchObject({ members: ["a"] }));
  });

  test("are not asked for beyond what may be under way", async () => {
    await items.read(asked());
    server.freeze();
    const many = asked({ countMax: 16_384 });
    const settled = await Promise.allSettled(Array.from({ length: 65 }, () => items.read(many)));
    const codes = settled.map((each) =>
      each.status === "rejected" ? (each.reason as WinnowError).code : "OK",
    );
    expect(codes).toEqual([
      ...Array.from({ length: 64 }, () => "UNAVAILABLE"),
      "RESOURCE_EXHAUSTED",
    ]);
    server.thaw();
    await eventually(() => items.read(many));
  });

  test("that are no ids but megabytes end the connection of all once a minute, and are not read meanwhile", async () => {
    const megabyte = Buffer.alloc(2 ** 20, 1);
    for (let at = 0; at < 20; at += 1) {
      megabyte[0] = at;
      await client.sadd("seen:large", megabyte);
    }
    await client.sadd("seen:7", "a");
    await texts();
    const large = asked({ key: "seen:large", countMax: 100 });
    const refused = { code: "UNAVAILABLE", message: expect.stringContaining("at most 4194304") };
    const untilRead = async () => expect(await texts()).toMatchObject({ members: ["a"] });

    const beside = await Promise.allSettled([texts(), items.read(large), texts()]);
    expect(beside.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
    await eventually(untilRead);
    for (let at = 0; at < 5; at += 1) {
      await expect(items.read(large)).rejects.toMatchObject(refused);
      await untilRead();
    }
    expect(logged.filter((line) => line.includes("too large"))).toHaveLength(1);

    clock.advance(60_000);
    await client.del("seen:large");
    await client.sadd("seen:large", "b");
    expect(await texts(large)).toEqual({ members: ["b"], isCut: false });
  });
});
