// Keys over REST: who is answered what, and attacks on the door.

import { KeyGuard, createKey, readKeys } from "@winnow/cluster";
import type { KeyRole } from "@winnow/cluster";
import { systemClock } from "@winnow/core";
import type { Tracer } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { RawClient, postPredict, predictHead, send } from "../fixtures/http-client.ts";
import { BODY, closeAll, errorOf, gate, start, until } from "./fixtures/running-server.ts";

afterEach(closeAll);

const made = (id: string, roles: readonly KeyRole[], limits = {}) =>
  createKey({ id, roles, ...limits });
const shop = made("shop", ["predict"]);
const monitor = made("monitor", ["status"]);
const slow = made("slow", ["predict"], { concurrency: 1 });
const rare = made("rare", ["predict"], { rate: 1 });
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

const NOWHERE = { traceId: "1".repeat(32), spanId: "2".repeat(16), isSampled: true };

const report = { json: () => Buffer.from("{}") };

/** A server that asks for one of these keys, and what its guard told. */
async function guarded() {
  const lines = [shop, monitor, slow, rare].map(({ line }) => line).join("\n");
  const outcomes: string[] = [];
  const guard = new KeyGuard(readKeys(lines, "file"), systemClock, (key, outcome) =>
    outcomes.push(`${key} ${outcome}`),
  );
  return { outcomes, ...(await start({}, {}, { keys: guard, report })) };
}

describe("a server with keys", () => {
  const paths = [
    ["POST", "/v1/models/retrieval:predict"],
    ["POST", "/v1/models/retrieval:classify"],
    ["GET", "/v1/models/retrieval/metadata"],
    ["GET", "/v1/models/retrieval"],
    ["GET", "/v1/models"],
    ["GET", "/v1/cluster"],
    ["GET", "/openapi.json"],
    ["GET", "/v1/models/"],
    ["GET", "/healthz"],
    ["GET", "/readyz"],
  ] as const;

  test("holds the Open Inference Protocol's paths to the same roles", async () => {
    const { port } = await guarded();
    const input = { name: "input_1", shape: [1], datatype: "BYTES", data: ["42"] };
    const asked = [
      ["POST", "/v2/models/retrieval/infer"],
      ["GET", "/v2/models/retrieval"],
      ["GET", "/v2/models/retrieval/ready"],
      ["GET", "/v2"],
      ["GET", "/v2/nothing"],
      ["GET", "/v2/health/live"],
      ["GET", "/v2/health/ready"],
    ] as const;
    const statusesOf = async (headers: Readonly<Record<string, string>>): Promise<number[]> => {
      const statuses = [];
      for (const [method, path] of asked) {
        const body = method === "POST" ? JSON.stringify({ inputs: [input] }) : undefined;
        statuses.push((await send(port, { method, path, headers, body })).status);
      }
      return statuses;
    };

    expect(await statusesOf({})).toEqual([401, 401, 401, 401, 401, 200, 200]);
    expect(await statusesOf(bearer(shop.key))).toEqual([200, 200, 200, 200, 404, 200, 200]);
    expect(await statusesOf(bearer(monitor.key))).toEqual([403, 200, 200, 200, 404, 200, 200]);
  });

  test("answers each key what its roles are for, and everybody's probes", async () => {
    const { port } = await guarded();
    const statusesOf = async (headers: Readonly<Record<string, string>>): Promise<number[]> => {
      const statuses = [];
      for (const [method, path] of paths) {
        const body = method === "POST" ? BODY : undefined;
        statuses.push((await send(port, { method, path, headers, body })).status);
      }
      return statuses;
    };

    expect(await statusesOf({})).toEqual([401, 401, 401, 401, 401, 401, 401, 401, 200, 200]);
    expect(await statusesOf(bearer(shop.key))).toEqual([
      200, 400, 200, 403, 403, 403, 200, 400, 200, 200,
    ]);
    expect(await statusesOf(bearer(monitor.key))).toEqual([
      403, 403, 200, 200, 200, 200, 200, 400, 200, 200,
    ]);
  });

  test("says in TensorFlow Serving's format what is wrong, and who may come back when", async () => {
    const { port, predictor, answered } = await guarded();
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const first = postPredict(port, BODY, { headers: bearer(slow.key) });
    await until(() => predictor.requests.length === 1);
    const busy = await postPredict(port, BODY, { headers: bearer(slow.key) });
    held.open();
    const served = await first;
    const again = await postPredict(port, BODY, { headers: bearer(slow.key) });
    const once = await postPredict(port, BODY, { headers: bearer(rare.key) });
    const twice = await postPredict(port, BODY, { headers: bearer(rare.key) });
    const without = await postPredict(port, BODY);
    const wrong = await postPredict(port, BODY, { headers: bearer(monitor.key) });

    expect([served.status, again.status, once.status]).toEqual([200, 200, 200]);
    expect([busy.status, busy.headers["retry-after"], errorOf(busy.text)]).toEqual([
      429,
      "1",
      'The key "slow" has 1 requests under way, as many as it may; try again',
    ]);
    expect([twice.status, twice.headers["retry-after"], errorOf(twice.text)]).toEqual([
      429,
      "1",
      'The key "rare" may ask 1 times a second; try again later',
    ]);
    expect([without.status, without.headers["www-authenticate"], errorOf(without.text)]).toEqual([
      401,
      "Bearer",
      "A key is needed here: Authorization: Bearer <key>",
    ]);
    expect([wrong.status, errorOf(wrong.text)]).toEqual([
      403,
      'The key "monitor" may not do this: it needs the role predict',
    ]);
    expect(answered.map(({ key }) => key)).toContain("slow");
  });
});

describe("attacks on a server with keys", () => {
  test("a request without a key is refused before its body is read", async () => {
    const { port, predictor } = await guarded();
    const client = await RawClient.open(port, predictHead(50_000_000));

    await until(() => client.statuses.length === 1);

    expect(client.statuses).toEqual([401]);
    expect(predictor.requests).toEqual([]);
    client.close();
  });

  test.each([
    ["twice the same", `Authorization: Bearer ${shop.key}\r\n`.repeat(2)],
    [
      "a good and a bad one",
      `Authorization: Bearer ${shop.key}\r\nauthorization: Bearer ${monitor.key}\r\n`,
    ],
    ["a bad and a good one", `AUTHORIZATION: Bearer x\r\nAuthorization: Bearer ${shop.key}\r\n`],
  ])("a header that comes %s is refused", async (_, headers) => {
    const { port } = await guarded();

    const client = await RawClient.open(port, predictHead(BODY.length, headers) + BODY);
    await until(() => client.statuses.length === 1);

    expect(client.statuses).toEqual([401]);
    expect(client.bytes.toString()).toContain("more than one Authorization header");
    client.close();
  });

  test("a key in a query string or a cookie counts for nothing, and is not told back", async () => {
    const { port } = await guarded();
    const path = `/v1/models/retrieval:predict?key=${shop.key}&authorization=Bearer%20${shop.key}`;
    const headers = { cookie: `authorization=${shop.key}`, "x-api-key": shop.key };

    const answer = await send(port, { method: "POST", path, body: BODY, headers });

    expect(answer.status).toBe(401);
    expect(answer.text + JSON.stringify(answer.headers)).not.toContain(shop.key);
  });

  test("a key in a path is in no error, no span and no id that is told", async () => {
    const names: string[] = [];
    const child = () => SPAN;
    const SPAN = { context: NOWHERE, child, end: () => undefined };
    const tracer: Tracer = {
      begin: ({ attributes }) => {
        names.push(JSON.stringify(attributes));
        return SPAN;
      },
    };
    const keys = new KeyGuard(readKeys(`${shop.line}\n${monitor.line}`, "file"), systemClock);
    const { port } = await start({}, {}, { keys, tracer });
    const paths = [
      `/v1/models/${shop.key}`,
      `/v1/models/a?key=${shop.key}`,
      `/v1/models/${shop.key}/labels/x/metadata`,
      `/v2/models/${shop.key}`,
      `/v2/${shop.key}`,
      `/v1/models/a/b/${shop.key}`,
    ];

    const told: string[] = [];
    for (const path of paths) {
      const headers = { ...bearer(monitor.key), "x-request-id": shop.key };
      const { text, headers: answered } = await send(port, { method: "GET", path, headers });
      told.push(text, JSON.stringify(answered));
    }

    expect(names.length).toBeGreaterThan(3);
    expect(told.filter((each) => each.includes("winnow_…")).length).toBeGreaterThan(3);
    expect([...names, ...told].filter((each) => each.includes(shop.key))).toEqual([]);
  });

  test.each(["/healthz", "/readyz", "/", "/console/"])(
    "metrics that are configured to %s need the role for them",
    async (metricsPath) => {
      const keys = new KeyGuard(readKeys(`${shop.line}\n${monitor.line}`, "file"), systemClock);
      const metrics = { text: async () => "secret 1\n" };
      const page = { contentType: "text/html", body: Buffer.from(""), gzip: Buffer.from("") };
      const pages = new Map([["/console/", page]]);
      const { port } = await start({ metricsPath }, {}, { keys, metrics, pages });
      const ask = (headers: Readonly<Record<string, string>>) =>
        send(port, { method: "GET", path: metricsPath, headers });

      const answers = [await ask({}), await ask(bearer(shop.key)), await ask(bearer(monitor.key))];

      expect(answers.map(({ status }) => status)).toEqual([401, 403, 200]);
      expect(answers[2]!.text).toBe("secret 1\n");
    },
  );

  test("headers of 15 KiB and thousands of wrong keys cost little, and others are answered", async () => {
    const { port, outcomes } = await guarded();
    const wrongKeys = Array.from({ length: 500 }, (_, at) =>
      at % 2 === 0 ? made("shop", ["predict"]).key : "x".repeat(15_000),
    );
    const heads = wrongKeys.map((key) =>
      predictHead(BODY.length, `Authorization: Bearer ${key}\r\n`),
    );

    const client = await RawClient.open(port, heads.map((head) => head + BODY).join(""));
    await until(() => client.statuses.length === 500 || client.isClosed);
    const answer = await postPredict(port, BODY, { headers: bearer(shop.key) });

    expect(client.statuses).toEqual(heads.map(() => 401));
    expect(outcomes.filter((outcome) => outcome === " unknown")).toHaveLength(500);
    expect(answer.status).toBe(200);
    client.close();
  });
});
