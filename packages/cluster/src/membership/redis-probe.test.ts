// The probe of a Redis server says whether it answers, and if not, why.

import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { probeRedis } from "./redis-probe.ts";
import { RedisProcess, isRedisInstalled } from "./fixtures/redis-server.ts";

describe("a probe of Redis", () => {
  test.skipIf(!isRedisInstalled)("gives the server's version", async () => {
    const server = await RedisProcess.start();

    const version = await probeRedis(server.url);
    await server.close();

    expect(version).toMatch(/^\d+\.\d+/);
  });

  test.skipIf(!isRedisInstalled)("refuses a replica that takes no writes", async () => {
    const server = await RedisProcess.start();
    const client = new Redis(server.url);
    await client.replicaof("127.0.0.1", 1);

    const probe = await probeRedis(server.url).catch((error: unknown) => error);
    client.disconnect();
    await server.close();

    expect(probe).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining("name its primary"),
    });
  });

  test("says why nothing answers", async () => {
    const probe = probeRedis("redis://127.0.0.1:1");

    await expect(probe).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await expect(probe).rejects.toThrow("ECONNREFUSED 127.0.0.1:1");
  });
});
