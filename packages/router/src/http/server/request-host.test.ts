// By which names a server answers: what a page whose name was pointed here (DNS rebinding) sends is refused.

import { afterEach, describe, expect, test } from "vitest";
import { send } from "../fixtures/http-client.ts";
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
