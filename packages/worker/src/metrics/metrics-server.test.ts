// The worker's HTTP server for metrics and probes, on a real socket.

import { once } from "node:events";
import { request } from "node:http";
import type { IncomingHttpHeaders } from "node:http";
import { request as secureRequest } from "node:https";
import type { RequestOptions } from "node:https";
import { connect } from "node:net";
import type { TLSSocket } from "node:tls";

import { KeyGuard, createKey, readKeys } from "@winnow/cluster";
import { systemClock } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";

import { ReplacedTls, tlsOf } from "../../../../test/doubles/replaced-tls.ts";
import { testAuthority } from "../../../../test/fixtures/certificates.ts";
import { listenForMetrics } from "./metrics-server.ts";
import type { MetricsServer, MetricsServerParts } from "./metrics-server.ts";

const LOOPBACK = { host: "127.0.0.1", port: 0 };
const PAGE = "# HELP winnow_worker_queue_rows rows\nwinnow_worker_queue_rows 3\n";

const open: MetricsServer[] = [];
afterEach(async () => {
  for (const server of open.splice(0)) await server.close();
});

async function serve(parts: Partial<MetricsServerParts> = {}): Promise<string> {
  const metrics = { text: async () => PAGE };
  const server = await listenForMetrics({ metrics, worker: { isReady: true }, ...parts }, LOOPBACK);
  open.push(server);
  return `http://127.0.0.1:${server.port}`;
}

test("/metrics is the page in Prometheus' format, also with a query string", async () => {
  const url = await serve();

  const response = await fetch(`${url}/metrics?name[]=x`);

  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
  expect(await response.text()).toBe(PAGE);
});

test("metrics want one key with the role for states, and refusals say what a client can do", async () => {
  const [monitor, shop] = [
    createKey({ id: "monitor", roles: ["status"], rate: 1 }),
    createKey({ id: "shop", roles: ["predict"] }),
  ];
  const keys = new KeyGuard(readKeys(`${monitor.line}\n${shop.line}`, "file"), systemClock);
  const url = await serve({ keys });
  const ask = (...lines: string[]) =>
    new Promise<[number | undefined, IncomingHttpHeaders]>((resolve, reject) => {
      const headers = lines.flatMap((key) => ["authorization", `Bearer ${key}`]);
      const sent = request(`${url}/metrics`, { headers: ["host", "x", ...headers] }, (response) => {
        response.resume();
        resolve([response.statusCode, response.headers]);
      });
      sent.on("error", reject);
      sent.end();
    });

  const [without, wrong, twice] = [await ask(), await ask(shop.key), await ask(monitor.key, "x")];
  const [good, often] = [await ask(monitor.key), await ask(monitor.key)];

  expect([without, wrong, twice, good, often].map(([status]) => status)).toEqual([
    401, 403, 401, 200, 429,
  ]);
  expect(without[1]["www-authenticate"]).toBe("Bearer");
  expect(often[1]["retry-after"]).toBe("1");
});

test("a page that cannot be made is a 500 with the reason, and the server lives on", async () => {
  const metrics = { text: () => Promise.reject(new Error("no such gauge")) };
  const url = await serve({ metrics });

  const failed = await fetch(`${url}/metrics`);
  const alive = await fetch(`${url}/healthz`);

  expect([failed.status, await failed.text()]).toEqual([500, "no such gauge\n"]);
  expect(alive.status).toBe(200);
});

test("probes are answered beside hundreds of connections that never send a whole request", async () => {
  const url = await serve();
  const silent = Array.from({ length: 300 }, () => connect(Number(new URL(url).port), "127.0.0.1"));
  const opened = silent.map(async (socket) => {
    socket.on("error", () => undefined);
    await once(socket, "connect");
    socket.write("GET /metrics HTTP/1.1\r\nhost: x\r\n");
  });
  await Promise.all(opened);

  const statuses: number[] = [];
  for (let probe = 0; probe < 10; probe += 1) {
    const { status } = await fetch(`${url}/livez`, { headers: { connection: "close" } });
    statuses.push(status);
  }

  expect(statuses).toEqual(Array.from({ length: 10 }, () => 200));
  for (const socket of silent) socket.destroy();
});

test("/readyz follows the worker, /healthz and /livez do not", async () => {
  const worker = { isReady: false };
  const url = await serve({ worker });
  const statuses = async (): Promise<number[]> => {
    const paths = ["/healthz", "/livez", "/readyz"];
    const answers = await Promise.all(paths.map((path) => fetch(url + path)));
    return answers.map(({ status }) => status);
  };

  expect(await statuses()).toEqual([200, 200, 503]);
  worker.isReady = true;
  expect(await statuses()).toEqual([200, 200, 200]);
});

test("other paths are 404, other methods 405, HEAD has no body", async () => {
  const url = await serve();

  const other = await fetch(`${url}/v1/models/movies`);
  const posted = await fetch(`${url}/metrics`, { method: "POST", body: "x" });
  const head = await fetch(`${url}/metrics`, { method: "HEAD" });

  expect([other.status, posted.status, head.status]).toEqual([404, 405, 200]);
  expect(head.headers.get("content-length")).toBe(String(PAGE.length));
  expect(await head.text()).toBe("");
});

test("a request of endless headers is refused", async () => {
  const url = await serve();

  const status = await new Promise<number | undefined>((resolve, reject) => {
    const headers = { "x-long": "a".repeat(20_000) };
    const asked = request(`${url}/metrics`, { headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    asked.on("error", reject);
    asked.end();
  });

  expect(status).toBe(431);
});

test("a port that is taken is told with the flag that moves it", async () => {
  const url = await serve();
  const port = Number(new URL(url).port);
  const parts = { metrics: { text: async () => PAGE }, worker: { isReady: true } };

  const second = listenForMetrics(parts, { host: "127.0.0.1", port });

  await expect(second).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: `Cannot listen for metrics on 127.0.0.1:${port} (EADDRINUSE); choose another with --metrics-port`,
  });
});

describe("with certificates", () => {
  const authority = testAuthority("of metrics");
  const issued = (ca?: string) => tlsOf(authority.issue({ names: ["127.0.0.1"] }), ca);
  const PATHS = ["/metrics", "/healthz", "/livez", "/readyz"];

  /** Status of a page over HTTPS, and the certificate that was shown. */
  function ask(url: string, options: RequestOptions = {}): Promise<[number | undefined, string]> {
    return new Promise((resolve, reject) => {
      const secure = url.replace("http:", "https:");
      const asked = secureRequest(
        secure,
        { ca: authority.cert, agent: false, ...options },
        (response) => {
          const { serialNumber } = (response.socket as TLSSocket).getPeerCertificate();
          response.resume().on("end", () => resolve([response.statusCode, serialNumber]));
        },
      );
      asked.on("error", reject);
      asked.end();
    });
  }
  const statusesOf = async (url: string, options?: RequestOptions) => {
    const answers = await Promise.all(PATHS.map((path) => ask(url + path, options)));
    return answers.map(([status]) => status);
  };

  test("speaks HTTPS alone, with the certificate that is in force when one connects", async () => {
    const tls = new ReplacedTls(issued());
    const url = await serve({ tls });

    const plain = await fetch(`${url}/healthz`).catch((error: unknown) => error);
    const statuses = await statusesOf(url);
    const [, before] = await ask(`${url}/metrics`);
    tls.replace(issued());
    const [status, after] = await ask(`${url}/metrics`);

    expect(plain).toBeInstanceOf(Error);
    expect(statuses).toEqual([200, 200, 200, 200]);
    expect(status).toBe(200);
    expect(after).not.toBe(before);
  });

  test("shows metrics to clients with a certificate alone, where there are authorities; probes need none", async () => {
    const url = await serve({ tls: new ReplacedTls(issued(authority.cert)) });
    const { cert, key } = authority.issue({ names: ["prometheus"] });
    const stranger = testAuthority("of others").issue({ names: ["prometheus"] });

    expect(await statusesOf(url)).toEqual([401, 200, 200, 200]);
    expect(await statusesOf(url, { cert, key })).toEqual([200, 200, 200, 200]);
    await expect(ask(`${url}/metrics`, stranger)).rejects.toThrow(/alert|socket|ECONNRESET/i);
  });
});
