// Membership in a real Redis that asks for TLS, certificates and passwords, while these are replaced.

import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { inspect } from "node:util";
import { silentLogger } from "@winnow/core";
import { Redis } from "ioredis";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { ReplacedTls, tlsOf } from "../../../../test/doubles/replaced-tls.ts";
import { testAuthority } from "../../../../test/fixtures/certificates.ts";
import { announced } from "../fixtures/announcement-words.ts";
import { eventually } from "../fixtures/eventually.ts";
import { seededEnvironment } from "../../../../test/doubles/seeded-environment.ts";
import { RedisProcess, isRedisInstalled, redisClient } from "./fixtures/redis-server.ts";
import { loadRedis } from "./redis-connection.ts";
import type { RedisAccess } from "./redis-connection.ts";
import type { TlsMaterial } from "../tls/tls-material.ts";
import { RedisMembership } from "./redis-membership.ts";
import { probeRedis } from "./redis-probe.ts";

const PASSWORD = "a password that is nowhere else";
const folder = mkdtempSync(path.join(tmpdir(), "winnow-redis-tls-"));
const authority = testAuthority();
const ended: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).toReversed()) await end();
});

afterAll(() => rmSync(folder, { recursive: true }));

const write = (name: string, text: string): string => {
  const file = path.join(folder, name);
  writeFileSync(file, text);
  return file;
};

async function secureRedis(
  shown: Parameters<typeof authority.issue>[0] = { names: ["127.0.0.1"] },
): Promise<RedisProcess> {
  const { cert, key } = authority.issue(shown);
  const server = await RedisProcess.start([
    "--tls-cert-file",
    write("redis.crt", cert),
    "--tls-key-file",
    write("redis.key", key),
    "--tls-ca-cert-file",
    write("ca.crt", authority.cert),
    "--requirepass",
    PASSWORD,
  ]);
  ended.push(() => server.close());
  return server;
}

test.each([
  ["closes each connection", ""],
  ["takes no further client", "-ERR max number of clients reached\r\n"],
  ["is another server", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"],
])("what listens in the place of Redis and %s is told as such", async (_name, answer) => {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", () => socket.end(answer));
  }).listen(0, "127.0.0.1");
  ended.push(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  const { logged } = await membershipIn(`redis://127.0.0.1:${port}`, {});

  await eventually(() => expect(logged.join()).toContain("membership store does not answer"));
  expect(logged.find((line) => line.startsWith("membership store does not"))).toMatch(
    /does not answer as Redis does; is the port right.*maxclients|ERR max number of clients/,
  );
});

test("a Redis that is away is told once, by its address and with the reason, without the password", async () => {
  const { logged } = await membershipIn(`redis://:${PASSWORD}@127.0.0.1:1`, {});
  await eventually(() => expect(logged.join()).toContain("membership store does not answer"));
  await new Promise((resolve) => void setTimeout(resolve, 200));

  const told = logged.filter((line) => line.includes("membership store does not answer"));
  expect(told).toHaveLength(1);
  expect(told[0]).toContain("store: '127.0.0.1:1'");
  expect(told[0]).toContain("ECONNREFUSED 127.0.0.1:1");
  expect(logged.join()).not.toContain(PASSWORD);
});

/** Whether a worker that announces itself there is seen, and what was logged. */
async function membershipIn(
  url: string,
  access: RedisAccess,
  times: { renewMs?: number; pollMs?: number } = {},
) {
  const logged: string[] = [];
  const note = (event: string, fields?: object): void => void logged.push(event + inspect(fields));
  const log = { ...silentLogger, debug: note, info: note, warn: note, error: note };
  const environment = { ...seededEnvironment, log };
  const settings = { url, pollMs: 20, ...times };
  const store = new RedisMembership(environment, settings, await loadRedis(access));
  ended.push(() => store.close());
  const seen = new Set<string>();
  store.watch(({ workers }) => workers.forEach(({ workerId }) => seen.add(workerId)));
  return { store, seen, logged };
}

test.skipIf(!isRedisInstalled)(
  "a key that another program has filled is told by its name and type, and its removal ends that",
  async () => {
    const server = await RedisProcess.start();
    ended.push(() => server.close());
    const client = redisClient(server.url);
    ended.push(() => client.disconnect());
    await client.sadd("winnow:default:members", "w1");

    const { store, seen, logged } = await membershipIn(server.url, {});

    const told = 'key "winnow:default:members" holds a set, where the ids of the workers are a';
    await eventually(() => expect(logged.join()).toContain(told));
    expect(logged.join()).not.toContain("does not answer");
    await client.del("winnow:default:members");
    await eventually(async () => {
      await store.announce(announced({ id: "w1" }));
      expect([...seen]).toEqual(["w1"]);
    });
    expect(logged.filter((line) => line.includes(told))).toHaveLength(1);
    expect(logged.join()).toContain("membership store answers again");
  },
);

test.skipIf(!isRedisInstalled)(
  "a Redis that is read but takes no announcement is told once with the reason, and that it takes them again",
  async () => {
    const server = await RedisProcess.start();
    ended.push(() => server.close());
    const client = redisClient(server.url);
    ended.push(() => client.disconnect());
    await client.replicaof("127.0.0.1", 1);

    const { store, seen, logged } = await membershipIn(
      server.url,
      {},
      { renewMs: 20, pollMs: 200 },
    );
    await store.announce(announced({ id: "w1" }));

    const event = "membership store does not take announcements";
    await eventually(() => expect(logged.join()).toContain(event));
    await new Promise((resolve) => void setTimeout(resolve, 200));
    const told = logged.filter((line) => line.startsWith("membership"));
    expect(told).toHaveLength(1);
    expect(told[0]).toContain("READONLY You can't write against a read only replica.");

    await client.replicaof("NO", "ONE");
    await eventually(() => expect([...seen]).toEqual(["w1"]));
    expect(logged.join()).toContain("membership store takes announcements again");
  },
);

describe.skipIf(!isRedisInstalled)("a Redis with TLS, certificates and a password", () => {
  const shown = () => tlsOf(authority.issue({ names: ["a member"] }), authority.cert);

  test("holds membership for those who have all three", async () => {
    const { url } = await secureRedis();
    const access = { tls: new ReplacedTls(shown()), password: (): string => PASSWORD };
    const { store, seen, logged } = await membershipIn(url, access);

    await eventually(async () => {
      await store.announce(announced({ id: "w1" }));
      expect([...seen]).toEqual(["w1"]);
    });

    expect(await probeRedis(url, access)).toMatch(/^\d+\.\d+/);
    expect(logged.join("\n")).not.toContain(PASSWORD);
  });

  test.each([
    ["no TLS", { password: (): string => PASSWORD }, "redis:"],
    [
      "another authority",
      { tls: new ReplacedTls(tlsOf(undefined, testAuthority().cert)) },
      "rediss:",
    ],
    ["no certificate", { tls: new ReplacedTls(tlsOf(undefined, authority.cert)) }, "rediss:"],
    ["no password", { tls: new ReplacedTls(shown()) }, "rediss:"],
    [
      "another password",
      { tls: new ReplacedTls(shown()), password: (): string => "wrong" },
      "rediss:",
    ],
  ])(
    "is of no use to those with %s, and no error or log line tells a password",
    async (_, access, scheme) => {
      const { port } = await secureRedis();
      const url = `${scheme}//127.0.0.1:${port}`;
      const { seen, logged } = await membershipIn(url, access);

      const probe = await probeRedis(url, access).catch((error: unknown) => error);
      await eventually(() => expect(logged.join()).toContain("membership store does not answer"));

      expect(probe).toMatchObject({ code: "UNAVAILABLE" });
      expect([...seen]).toEqual([]);
      expect(inspect(probe, { depth: 9 }) + logged.join()).not.toMatch(/nowhere else|wrong'/);
    },
  );

  const stranger = testAuthority("another authority");
  test.each<readonly [string, Parameters<typeof secureRedis>[0], TlsMaterial | undefined, RegExp]>([
    ["an authority that is not trusted", undefined, undefined, /--redis-ca names the file/],
    [
      "a certificate for another host",
      { names: ["redis.example"] },
      shown(),
      /the URL of Redis must have a host for which its certificate is issued/,
    ],
    [
      "a certificate that has ended",
      { names: ["127.0.0.1"], fromDay: -3, days: -1 },
      shown(),
      /certificate has expired; .* is to be replaced/,
    ],
    [
      "a certificate that has not begun",
      { names: ["127.0.0.1"], fromDay: 2, days: 3 },
      shown(),
      /certificate is not yet valid; is the clock/,
    ],
    [
      "no trust in the certificate that it is shown",
      undefined,
      tlsOf(stranger.issue(), authority.cert),
      /(alert unknown ca|ECONNRESET|EPIPE).*--redis-cert, --redis-key/,
    ],
    [
      "the wish for a certificate",
      undefined,
      tlsOf(undefined, authority.cert),
      /--redis-cert, --redis-key/,
    ],
  ])("with %s is told with the setting that mends it", async (...[, itsOwn, own, told]) => {
    const { url } = await secureRedis(itsOwn);
    const access = own === undefined ? {} : { tls: new ReplacedTls(own) };
    const { logged } = await membershipIn(url, access);

    const probe = await probeRedis(url, access).catch((error: unknown) => String(error));
    await eventually(() => expect(logged.join()).toContain("membership store does not answer"));

    const line = logged.find((each) => each.startsWith("membership store does not"));
    expect(line).toMatch(told);
    expect(probe).toMatch(told);
  });

  test("that is asked without TLS is told with the scheme of its URL", async () => {
    const { port } = await secureRedis();
    const { logged } = await membershipIn(`redis://127.0.0.1:${port}`, {});

    await eventually(() => expect(logged.join()).toContain("membership store does not answer"));

    expect(logged.join()).toContain("is it redis:// or, with TLS, rediss://?");
  });

  test("asks for no more rights than docs/security.md names", async () => {
    const { url } = await secureRedis();
    const admin = new Redis(url, { tls: { ...shown() }, password: PASSWORD });
    ended.push(() => admin.disconnect());
    const page = readFileSync(
      path.resolve(import.meta.dirname, "../../../../docs/security.md"),
      "utf8",
    );
    const [, named = ""] = /The user needs the keys ([\s\S]*?)\.\n/.exec(page) ?? [];
    const commands = Array.from(named.matchAll(/`([A-Z]+)`/g), ([, name = ""]) => `+${name}`);
    const rights = ["on", ">pass", "~winnow:*", "&winnow:*", ...commands];
    await admin.call("ACL", "SETUSER", "winnow", ...rights);
    const tls = new ReplacedTls(shown());
    const access = { tls, user: "winnow", password: (): string => "pass" };

    const { store, seen, logged } = await membershipIn(url, access);
    await eventually(async () => {
      await store.announce(announced({ id: "w1" }));
      await store.announce(announced({ id: "w1", incarnation: 2 }));
      expect([...seen]).toEqual(["w1"]);
    });
    const key = "winnow:default:worker:w1";
    await admin.pexpire(key, 3_600_000);
    await eventually(async () => expect(await admin.pttl(key)).toBeLessThanOrEqual(3000));
    expect(await store.orders.replace("an order", undefined)).toBe(true);
    expect(await store.orders.read()).toBe("an order");
    await store.withdraw();

    expect(commands.length).toBeGreaterThan(10);
    expect(await probeRedis(url, access)).toMatch(/^\d+\.\d+/);
    expect(logged.join()).not.toContain("NOPERM");
    expect(await admin.call("ACL", "LOG")).toEqual([]);
  });

  test("is reached again after password and certificates were replaced", async () => {
    const server = await secureRedis();
    let password = PASSWORD;
    const tls = new ReplacedTls(shown());
    const { store, seen } = await membershipIn(server.url, {
      tls,
      password: (): string => password,
    });
    await eventually(async () => {
      await store.announce(announced({ id: "w1" }));
      expect([...seen]).toEqual(["w1"]);
    });
    const admin = new Redis(server.url, { tls: { ...shown() }, password });
    ended.push(() => admin.disconnect());

    await admin.config("SET", "requirepass", "the next password");
    password = "the next password";
    tls.replace(shown());
    await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await eventually(async () => {
      await store.announce(announced({ id: "w2" }));
      expect([...seen]).toContain("w2");
    });

    expect([...seen].toSorted()).toEqual(["w1", "w2"]);
  });
});

describe("a URL of Redis", () => {
  test.each([
    ["http://user:secret@h:1", {}, "must be redis://"],
    ["user:secret@h", {}, "must be redis://"],
    ["redis://user:secret@h:1", { tls: new ReplacedTls(tlsOf(undefined, "")) }, "write rediss://"],
  ])("that does not fit is refused without its password", async (url, access, message) => {
    const open = await loadRedis(access);

    expect(() => open(url)).toThrow(message);
    expect(() => open(url)).not.toThrow("secret");
    await expect(probeRedis(url, access)).rejects.toThrow(message);
  });
});
