// What a process says it leaves open, and when it does not start.

import { silentLogger } from "@winnow/core";
import { describe, expect, test } from "vitest";
import { allowedHosts, checkProtection, isShownToFew, missingProtection } from "./exposure.ts";
import type { Protection } from "./exposure.ts";

const bare: Protection = {
  host: "0.0.0.0",
  role: "router",
  hasTls: false,
  knowsClients: false,
  hasClusterTls: false,
  redis: "redis://redis.example:6379",
};
const whole: Protection = {
  ...bare,
  hasTls: true,
  knowsClients: true,
  hasClusterTls: true,
  redis: "rediss://redis.example:6379",
};
const [tls, clients, cluster, redis] = [
  "TLS for clients (--tls-cert, --tls-key)",
  "who may ask (--api-keys or --tls-client-ca)",
  "TLS between routers and workers (--cluster-tls-…)",
  "TLS to Redis (rediss://)",
];
const [metricsTls, metricsReaders] = [
  "TLS for metrics (--tls-cert, --tls-key; or --metrics-port 0)",
  "who may read metrics (--api-keys or --tls-client-ca)",
];

test.each<[string, Partial<Protection>, readonly (string | undefined)[]]>([
  ["nothing", {}, [tls, clients, cluster, redis]],
  [
    "another Redis without TLS",
    { redis: "rediss://redis.example:6379", seenRedis: "redis://redis.example:6379" },
    [tls, clients, cluster, redis],
  ],
  ["nothing, as a worker", { role: "worker" }, [metricsTls, metricsReaders, cluster, redis]],
  [
    "metrics protected, as a worker",
    { role: "worker", hasTls: true, knowsClients: true },
    [cluster, redis],
  ],
  ["TLS alone", { hasTls: true }, [clients, cluster, redis]],
  ["a list of members", { redis: undefined }, [tls, clients, cluster]],
  [
    "members on this machine",
    { redis: undefined, members: "w0@127.0.0.1:1,[::1]:2" },
    [tls, clients],
  ],
  [
    "one member elsewhere",
    { redis: undefined, members: "127.0.0.1:1,w:2" },
    [tls, clients, cluster],
  ],
  ["Redis beside it", { redis: "redis://localhost" }, [tls, clients, cluster]],
  ["an address of its own", { host: "10.0.0.7" }, [tls, clients, cluster, redis]],
  ["a name", { host: "127.example.org" }, [tls, clients, cluster, redis]],
  ["every IPv6 address", { host: "::" }, [tls, clients, cluster, redis]],
])("with %s: what is missing is named", (_, change, missing) => {
  expect(missingProtection({ ...bare, ...change })).toEqual(missing);
});

test.each(["127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])(
  "on %s nothing is missing",
  (host) => {
    expect(missingProtection({ ...bare, host })).toEqual([]);
  },
);

test("it is said once, or the process does not start", () => {
  const warned: unknown[] = [];
  const log = { ...silentLogger, warn: (_: string, fields?: object) => void warned.push(fields) };

  checkProtection(bare, false, log);
  checkProtection(whole, true, log);

  expect(warned).toEqual([{ host: "0.0.0.0", missing: [tls, clients, cluster, redis] }]);
  expect(() => checkProtection(bare, true, log)).toThrow(
    `--require-security: on --host 0.0.0.0 there is missing: ${tls}; ${clients}`,
  );
  expect(() => checkProtection({ ...bare, host: "127.0.0.1" }, true, log)).not.toThrow();
});

test.each([
  ["127.0.0.1", false, true],
  ["[::1]", false, true],
  ["localhost", false, true],
  ["0.0.0.0", false, false],
  ["10.0.0.7", false, false],
  ["127.example", false, false],
  ["0.0.0.0", true, true],
])(
  "a router on %s that knows its clients: %s, serves the console: %s",
  (host, knowsClients, isShown) => {
    expect(isShownToFew({ host, knowsClients })).toBe(isShown);
  },
);

describe("the names by which a router may be asked", () => {
  const [here, open] = [{ ...bare, host: "127.0.0.1" }, bare];

  test.each<[string, readonly [Protection, string | undefined], readonly string[] | undefined]>([
    ["its own on loopback", [here, undefined], ["box.lan"]],
    ["any on loopback with TLS", [{ ...here, hasTls: true }, undefined], undefined],
    ["any where clients show keys", [{ ...here, knowsClients: true }, undefined], undefined],
    ["any beyond loopback", [open, undefined], undefined],
    ["those given, and its own", [here, "A.example.org, b"], ["a.example.org", "b", "box.lan"]],
    ["those given beyond loopback", [open, "a.example.org"], ["a.example.org", "box.lan"]],
    ["any on loopback if so given", [here, "a,*"], undefined],
  ])("are %s", (_, [protection, list], names) => {
    const allowed = allowedHosts(protection, list, "Box.lan");

    expect(allowed && [...allowed]).toEqual(names);
  });

  test.each(["http://a.example.org", "a.example.org:80", "a,,b", "*.example.org"])(
    "are not %s",
    (list) => {
      expect(() => allowedHosts(here, list, "box")).toThrow("--allowed-hosts takes names such as");
    },
  );
});
