// By which names a server answers: what a page whose name was pointed here (DNS rebinding) sends is refused.

import { afterEach, describe, expect, test } from "vitest";
import { send, sendRaw } from "../fixtures/http-client.ts";
import { BODY, closeAll, errorOf, start } from "./fixtures/running-server.ts";

afterEach(closeAll);

const hosts = new Set(["recommender.example.org"]);
const predict = { method: "POST", path: "/v1/models/retrieval:predict", body: BODY };
const report = { json: () => Buffer.from("{}") };

describe("a server that is called by names", () => {
  test.each([
    "127.0.0.1:8501",
    "10.0.0.7",
    "[::1]:8501",
    "localhost:8501",
    "LOCALHOST.",
    "router.localhost",
    "host.docker.internal:8501",
    "router",
    "Recommender.Example.ORG:443",
  ])("answers what is asked of %s", async (host) => {
    const { port } = await start({}, {}, { hosts });

    const { status } = await send(port, { ...predict, headers: { host } });

    expect(status).toBe(200);
  });

  test.each([
    "evil.example.org:8501",
    "127.0.0.1.example.org",
    "localhost.example.org",
    "x.recommender.example.org",
    "internal.example.org:80",
    "[evil.example.org]:8501",
    "a.example.org:b",
    "::1",
  ])("refuses what is asked of %s, whatever it is", async (host) => {
    const { port, answered } = await start({}, {}, { hosts, report });
    const metricsPath = "/monitoring/prometheus/metrics";
    const paths = ["/v1/models/retrieval", "/v1/cluster", "/v2/models/retrieval", metricsPath];

    const refused = await send(port, { ...predict, headers: { host } });
    const others = [];
    for (const path of paths) {
      others.push((await send(port, { method: "GET", path, headers: { host } })).status);
    }

    expect([refused.status, ...others]).toEqual([403, 403, 403, 403, 403]);
    expect(errorOf(refused.text)).toContain("--allowed-hosts");
    expect(answered[0]).toMatchObject({ status: 403, code: "PERMISSION_DENIED" });
  });

  test("tells anybody whether it is ready", async () => {
    const { port } = await start({}, {}, { hosts });

    const headers = { host: "evil.example.org" };
    const { status } = await send(port, { method: "GET", path: "/healthz", headers });

    expect(status).toBe(200);
  });

  test("without names answers what is asked of any", async () => {
    const { port } = await start();

    const { status } = await send(port, { ...predict, headers: { host: "evil.example.org" } });

    expect(status).toBe(200);
  });
});

describe("a request has one host", () => {
  const probe = (headers: string, version = "1.1"): string =>
    `GET /healthz HTTP/${version}\r\n${headers}Connection: close\r\n\r\n`;

  test.each([
    ["two of them", "Host: x\r\nhOST: x\r\n", "The request has 2 Host headers; send one"],
    [
      "none",
      "",
      "The request has no Host header, which HTTP/1.1 needs; send one, which may be empty",
    ],
    [
      "one of two words",
      "Host: a b\r\n",
      '"a b" is no Host: it must be a name or address, with :port or without',
    ],
    [
      "a path",
      "Host: x/y\r\n",
      '"x/y" is no Host: it must be a name or address, with :port or without',
    ],
    [
      "a user",
      "Host: u@x\r\n",
      '"u@x" is no Host: it must be a name or address, with :port or without',
    ],
  ])("and is refused with %s", async (_name, headers, error) => {
    const { port } = await start();

    const answer = await sendRaw(port, probe(headers));

    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(errorOf(answer.split("\r\n\r\n")[1]!)).toBe(error);
  });

  test.each([
    ["an address of IPv6", "Host: [::1]:8501\r\n", "1.1"],
    ["an empty one", "Host:\r\n", "1.1"],
    ["a name with an underscore", "Host: my_router\r\n", "1.1"],
    ["none in HTTP/1.0", "", "1.0"],
    ["as many headers as are looked at", `Host: x\r\n${"a:\r\n".repeat(997)}`, "1.1"],
  ])("and is answered with %s", async (_name, headers, version) => {
    const { port } = await start();

    const answer = await sendRaw(port, probe(headers, version));

    expect(answer).toMatch(/^HTTP\/1\.1 200 /);
  });

  test("and not more headers than are looked at, of which the last could be another host", async () => {
    const { port } = await start();

    const answer = await sendRaw(port, probe(`Host: x\r\n${"a:\r\n".repeat(1500)}Host: y\r\n`));

    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
  });
});
