// Who is given the console, and what the answer forbids a browser.

import { gunzipSync, gzipSync } from "node:zlib";
import { KeyGuard, createKey, readKeys } from "@winnow/cluster";
import { systemClock } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { send } from "../fixtures/http-client.ts";
import type { PageFiles } from "../http-observer.ts";
import { closeAll, start } from "../server/fixtures/running-server.ts";

afterEach(closeAll);

const file = (text: string, contentType: string) => {
  const body = Buffer.from(text);
  return { body, contentType, gzip: gzipSync(body) };
};
const pages: PageFiles = new Map([
  ["/console/", file("<!doctype html>", "text/html; charset=utf-8")],
  ["/console/console.js", file("let a;", "text/javascript; charset=utf-8")],
]);
const HTML = { accept: "text/html,*/*;q=0.8" };

describe("the console", () => {
  test("is a browser's answer to /, and nobody else's", async () => {
    const { port } = await start({}, {}, { pages });

    const browser = await send(port, { method: "GET", path: "/", headers: HTML });
    const short = await send(port, { method: "GET", path: "/console" });
    const program = await send(port, { method: "GET", path: "/" });
    const posted = await send(port, { method: "POST", path: "/", headers: HTML, body: "{}" });

    expect([browser.status, browser.headers.location]).toEqual([302, "/console/"]);
    expect([short.status, short.headers.location]).toEqual([302, "/console/"]);
    expect([program.status, program.headers.location]).toEqual([404, undefined]);
    expect([posted.status, posted.headers.location]).toEqual([404, undefined]);
  });

  test("may run nothing but its own files, ask nobody else, and stand in no frame", async () => {
    const { port } = await start({}, {}, { pages });

    const { status, text, headers } = await send(port, { method: "GET", path: "/console/" });

    expect([status, text]).toEqual([200, "<!doctype html>"]);
    expect(headers).toMatchObject({
      "content-type": "text/html; charset=utf-8",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cache-control": "no-cache",
    });
    const policy = String(headers["content-security-policy"]).split("; ");
    expect(policy).toEqual(
      expect.arrayContaining([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
      ]),
    );
    expect(policy.join()).not.toMatch(/unsafe|http|\*/);
  });

  test.each([
    ["gzip, br", true],
    ["br", false],
    ["gzip;q=0, br", false],
  ])("is packed for who accepts %s: %s", async (accepted, isPacked) => {
    const { port } = await start({}, {}, { pages });
    const headers = { "accept-encoding": accepted };

    const response = await fetch(`http://127.0.0.1:${port}/console/console.js`, { headers });

    expect(response.headers.get("content-encoding")).toBe(isPacked ? "gzip" : null);
    expect(await response.text()).toBe("let a;");
    expect(gunzipSync(pages.get("/console/console.js")!.gzip).toString()).toBe("let a;");
  });

  test.each(["/console/../etc/passwd", "/console/%2e%2e/x", "/console/index.html", "/console/?a"])(
    "has no file at %s",
    async (path) => {
      const { port } = await start({}, {}, { pages });

      expect((await send(port, { method: "GET", path })).status).toBe(404);
    },
  );

  test("is not there unless it is served", async () => {
    const { port } = await start();
    const off = await start({ ownPaths: false }, {}, { pages });

    expect((await send(port, { method: "GET", path: "/console/" })).status).toBe(404);
    expect((await send(port, { method: "GET", path: "/", headers: HTML })).status).toBe(404);
    expect((await send(off.port, { method: "GET", path: "/console/" })).status).toBe(404);
  });

  test("needs no key, so that a person can give one; what it asks for does", async () => {
    const { line } = createKey({ id: "ops", roles: ["status"] });
    const keys = new KeyGuard(readKeys(line, "file"), systemClock);
    const report = { json: () => Buffer.from("{}") };
    const { port } = await start({}, {}, { pages, keys, report });
    const statusOf = async (path: string): Promise<number> =>
      (await send(port, { method: "GET", path, headers: HTML })).status;

    expect(await statusOf("/console/")).toBe(200);
    expect(await statusOf("/console/console.js")).toBe(200);
    expect(await statusOf("/")).toBe(302);
    expect(await statusOf("/v1/cluster")).toBe(401);
    expect(await statusOf("/console/other")).toBe(401);
  });
});
