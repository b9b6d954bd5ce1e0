// The server as clients meet it, over sockets: headers, bodies, own paths.

import { Socket } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, test, vi } from "vitest";
import { postPredict, send } from "../fixtures/http-client.ts";
import { BODY, closeAll, errorOf, start, until } from "./fixtures/running-server.ts";

afterEach(closeAll);

describe("an answer", () => {
  test("carries version, coverage, length and date, and no charset", async () => {
    const { port, predictor } = await start();

    const received = await postPredict(port, BODY);

    expect(received.status).toBe(200);
    expect(received.headers).toMatchObject({
      "content-type": "application/json",
      "content-length": String(received.bytes.length),
      "x-winnow-model-version": "1",
      "x-winnow-coverage": "1",
    });
    expect(received.headers.date).toBeDefined();
    expect(received.headers["transfer-encoding"]).toBeUndefined();
    expect(predictor.pins).toBe(0);
  });

  test("has the request's id: the client's, or one of its own", async () => {
    const { port, answered } = await start();

    const own = await postPredict(port, BODY, { headers: { "X-Request-Id": "trace-17" } });
    const made = await postPredict(port, BODY);
    const refused = await postPredict(port, "{", { headers: { "X-Request-Id": "two words" } });

    const ids = [own, made, refused].map(({ headers }) => headers["x-request-id"]);
    expect(ids).toEqual([
      "trace-17",
      expect.stringMatching(/^\w{8}-1$/),
      expect.stringMatching(/-2$/),
    ]);
    expect(answered.map(({ requestId }) => requestId)).toEqual(ids);
    expect(answered.map(({ version }) => version)).toEqual(["1", "1", undefined]);
  });

  test("tells its coverage and never rounds it up to 1", async () => {
    const { port, predictor } = await start();
    predictor.coverage = 0.999_999_9;

    const received = await postPredict(port, BODY, {
      headers: { "X-Winnow-Allow-Partial": "true" },
    });

    expect(received.headers["x-winnow-coverage"]).toBe("0.999999");
    expect(predictor.requests[0]?.allowPartial).toBe(true);
  });

  test("has k candidates without those excluded", async () => {
    const { port } = await start();

    const body = { instances: ["42", "1"], k: 2, exclude: [["Brazil (1985)"], []] };
    const received = await postPredict(port, JSON.stringify(body));

    expect(JSON.parse(received.text)).toEqual({
      predictions: [
        { output_1: [6.1, 3], output_2: ["Alien (1979)", "Heat (1995)"] },
        { output_1: [7, 2], output_2: ["Brazil (1985)", "Speed (1994)"] },
      ],
    });
  });

  test.each([
    "application/json",
    "foo",
    "multipart/form-data",
    "application/x-www-form-urlencoded",
  ])("does not depend on the content type %s", async (type) => {
    const { port } = await start();

    const received = await postPredict(port, BODY, { headers: { "Content-Type": type } });

    expect(received.status).toBe(200);
  });

  test("is for the unpacked body where gzip is named in any way", async () => {
    const { port } = await start();

    const packed = await postPredict(port, gzipSync(BODY), {
      headers: { "Content-Encoding": "x-gzip" },
    });
    const upperCase = await postPredict(port, gzipSync(BODY), {
      headers: { "Content-Encoding": "GZIP" },
    });

    expect(packed.status).toBe(200);
    expect(errorOf(upperCase.text)).toContain("Invalid value. at offset: 0");
  });

  test.each([
    ["/v1/models/retrieval:predict", "br"],
    ["/v1/models/retrieval:predict", "gzip, Deflate"],
    ["/v2/models/retrieval/infer", "br"],
    ["/v2/models/retrieval/infer", "zstd"],
  ])("of %s in %s is refused, with the coding that is read", async (path, coding) => {
    const { port } = await start();
    const headers = { "Content-Encoding": coding };

    const received = await send(port, { method: "POST", path, headers, body: "packed" });

    expect([received.status, received.headers["accept-encoding"]]).toEqual([415, "gzip"]);
    expect(errorOf(received.text)).toMatch(
      /^A body with Content-Encoding \w+ cannot be unpacked; send it plain, or packed with gzip$/,
    );
  });

  test("is read as it is where Content-Encoding names no coding", async () => {
    const { port } = await start();

    const received = await postPredict(port, BODY, { headers: { "Content-Encoding": "utf-8" } });

    expect(received.status).toBe(200);
  });

  test("that is short is one piece with its headers", async () => {
    const { port } = await start();
    const written = Reflect.get(Socket.prototype, "_writev") as (...pieces: unknown[]) => void;
    const joined = vi.spyOn(Socket.prototype, "_writev");
    const ports: (number | undefined)[] = [];
    joined.mockImplementation(function (this: Socket, ...pieces) {
      ports.push(this.localPort);
      Reflect.apply(written, this, pieces);
    });

    const received = await postPredict(port, BODY);

    joined.mockRestore();
    expect(received.status).toBe(200);
    expect(ports).not.toContain(port);
  });

  test("has the bytes of a text beyond ASCII", async () => {
    const { port } = await start();
    const model = encodeURIComponent("é→𝄞");

    const received = await postPredict(port, BODY, { model });

    expect(received.status).toBe(404);
    expect(received.headers["content-length"]).toBe(String(received.bytes.length));
    expect(errorOf(received.text)).toContain("é→𝄞");
  });

  test("to HEAD has no body", async () => {
    const { port } = await start();

    const received = await send(port, { method: "HEAD", path: "/v1/models/retrieval" });

    expect([received.status, received.text]).toEqual([400, ""]);
  });

  test("to a version beyond int64 is empty", async () => {
    const { port } = await start();

    const path = "/v1/models/retrieval/versions/9999999999999999999:predict";
    const received = await send(port, { method: "POST", path, body: BODY });

    expect([received.status, received.text, received.headers["content-type"]]).toEqual([
      400,
      "",
      "application/json",
    ]);
  });

  test.each([
    ["https://a.example", 200],
    ["file:", 400],
  ])("to a preflight from %s is %d and empty", async (origin, status) => {
    const { port } = await start({ cors: true });

    const received = await send(port, {
      method: "OPTIONS",
      path: "/v1/models/retrieval:predict",
      headers: { Origin: origin },
    });

    expect([received.status, received.text]).toEqual([status, ""]);
    expect(received.headers["access-control-allow-methods"]).toBe("POST, GET");
  });

  test("is reported to the observer", async () => {
    const { port, answered } = await start();

    await postPredict(port, '{"instances": ["1", "2"]}');
    await postPredict(port, "{", { model: "unknown" });

    await until(() => answered.length === 2);
    expect(answered[0]).toMatchObject({
      api: "predict",
      model: "retrieval",
      code: "OK",
      instances: 2,
    });
    expect(answered[1]).toMatchObject({
      model: "unknown",
      status: 400,
      code: "INVALID_ARGUMENT",
      instances: 0,
    });
  });
});

describe("own paths", () => {
  test("answer probes, the list of models and the description", async () => {
    const { port, predictor } = await start();
    const get = (path: string): Promise<{ status: number; text: string }> =>
      send(port, { method: "GET", path });

    const models = await get("/v1/models");

    expect((await get("/healthz")).status).toBe(200);
    expect((await get("/livez")).status).toBe(200);
    expect((await get("/readyz")).status).toBe(200);
    expect(JSON.parse(models.text)).toEqual({
      models: [
        { name: "broken", versions: [{ version: "2", state: "LOADING" }] },
        { name: "ranking", versions: [{ version: "1", state: "AVAILABLE" }] },
        { name: "retrieval", versions: [{ version: "1", state: "AVAILABLE" }] },
      ],
    });
    expect(JSON.parse((await get("/openapi.json")).text)).toHaveProperty("openapi", "3.1.0");
    predictor.ready = false;
    expect((await get("/readyz")).status).toBe(503);
  });

  test("the state is a 503 with the same document until the router is ready, as a probe on it needs", async () => {
    const { port, predictor } = await start();
    const paths = ["/v1/models/retrieval", "/v1/models/retrieval/versions/1"];
    const ask = (): Promise<{ status: number; text: string }[]> =>
      Promise.all(paths.map((path) => send(port, { method: "GET", path })));

    const ready = await ask();
    predictor.ready = false;
    const starting = await ask();

    expect(ready.map(({ status }) => status)).toEqual([200, 200]);
    expect(starting.map(({ status }) => status)).toEqual([503, 503]);
    expect(starting.map(({ text }) => text)).toEqual(ready.map(({ text }) => text));
  });

  test("tell how the cluster is, to nobody's cache; any other path than that is malformed", async () => {
    const report = { json: () => Buffer.from('{"health":{}}\n') };
    const { port, answered } = await start({ cors: true }, {}, { report });

    const told = await send(port, { method: "GET", path: "/v1/cluster" });
    const longer = await send(port, { method: "GET", path: "/v1/cluster/" });

    expect([told.status, told.text]).toEqual([200, '{"health":{}}\n']);
    expect(told.headers).toMatchObject({
      "content-type": "application/json",
      "cache-control": "no-store",
    });
    expect(told.headers["access-control-allow-origin"]).toBeUndefined();
    expect([longer.status, errorOf(longer.text)]).toEqual([
      400,
      "Malformed request: GET /v1/cluster/",
    ]);
    expect(answered.map(({ api }) => api)).toEqual(["cluster", "malformed"]);
  });

  test("are TensorFlow Serving's where they are switched off", async () => {
    const report = { json: () => Buffer.from("{}") };
    const { port } = await start({ ownPaths: false }, {}, { report });

    const cluster = await send(port, { method: "GET", path: "/v1/cluster" });
    const page = await send(port, { method: "GET", path: "/healthz" });
    const models = await send(port, { method: "GET", path: "/v1/models" });

    expect([page.status, page.headers["content-type"], page.headers.connection]).toEqual([
      404,
      "text/html",
      "close",
    ]);
    expect(errorOf(models.text)).toBe("Missing model name in request.");
    expect([cluster.status, errorOf(cluster.text)]).toEqual([
      400,
      "Malformed request: GET /v1/cluster",
    ]);
  });
});
