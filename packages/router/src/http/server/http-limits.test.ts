// Every limit of the server: reaching it is an answer, never growth.

import { Server } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, test, vi } from "vitest";
import { postPredict, sendRaw } from "../fixtures/http-client.ts";
import { BODY, closeAll, gate, start, until } from "./fixtures/running-server.ts";

afterEach(closeAll);

describe("limits", () => {
  test("refuse a body announced too long before it is read", async () => {
    const { port, predictor } = await start({ bodyBytesMax: 1000 });

    const answer = await sendRaw(
      port,
      "POST /v1/models/retrieval:predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
        "Content-Length: 100000000\r\n\r\n",
    );

    expect(answer).toMatch(/^HTTP\/1.1 413 /);
    expect(answer).toContain("longer than 1000 bytes");
    expect(predictor.requests).toEqual([]);
  });

  test("refuse a body of unknown length once it is too long", async () => {
    const { port } = await start({ bodyBytesMax: 1000 });

    const answer = await sendRaw(
      port,
      "POST /v1/models/retrieval:predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
        `Transfer-Encoding: chunked\r\n\r\n1000\r\n${" ".repeat(4096)}\r\n0\r\n\r\n`,
    );

    expect(answer).toMatch(/^HTTP\/1.1 413 /);
  });

  test("survive a body of 100 MB", async () => {
    const { port } = await start();

    const received = await postPredict(port, Buffer.alloc(100_000_000, 0x20));

    expect(received.status).toBe(413);
    expect((await postPredict(port, BODY)).status).toBe(200);
  });

  test("refuse what unpacks to too much", async () => {
    const { port } = await start({ bodyBytesMax: 1000 });

    const received = await postPredict(port, gzipSync(Buffer.alloc(1_000_000)), {
      headers: { "Content-Encoding": "gzip" },
    });

    expect(received.status).toBe(413);
  });

  test("refuse bodies that together are too long, with a time to come back", async () => {
    const { port } = await start({ bodyBytesInFlightMax: 10 });

    const received = await postPredict(port, BODY);

    expect([received.status, received.headers["retry-after"]]).toEqual([503, "1"]);
  });

  test("refuse more requests at once than there are places, at once", async () => {
    const { port, predictor } = await start({ inFlightMax: 2, retryAfterSeconds: 3 });
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const first = [postPredict(port, BODY), postPredict(port, BODY)];
    await until(() => predictor.requests.length === 2);

    const refused = await postPredict(port, BODY);
    held.open();
    const answers = await Promise.all(first);

    expect([refused.status, refused.headers["retry-after"]]).toEqual([503, "3"]);
    expect(answers.map((answer) => answer.status)).toEqual([200, 200]);
    expect((await postPredict(port, BODY)).status).toBe(200);
    expect(predictor.pins).toBe(0);
  });

  test("refuse too many instances and too long an answer", async () => {
    const { port } = await start({}, { instancesMax: 2, answerBytesMax: 200 });

    const many = await postPredict(port, '{"instances": ["1", "2", "3"]}');
    const long = await postPredict(port, '{"instances": ["1", "2"], "k": 5}');

    expect([many.status, long.status]).toEqual([400, 429]);
  });

  test("refuse headers that are too long", async () => {
    const { port } = await start({ headerBytesMax: 2000 });

    const answer = await sendRaw(
      port,
      `GET /v1/models/m HTTP/1.1\r\nX: ${"x".repeat(9000)}\r\n\r\n`,
    );

    expect(answer).toMatch(/^HTTP\/1.1 431 /);
    expect(answer).toContain('"error"');
  });

  test("end a request that never arrives", async () => {
    const { port } = await start({
      headersTimeoutMs: 100,
      bodyTimeoutMs: 100,
      connectionCheckMs: 20,
    });

    const slowHead = await sendRaw(port, "POST /v1/models/m:predict HTTP/1.1\r\nHost: ");
    const slowBody = await sendRaw(
      port,
      "POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{",
    );

    expect(slowHead).toMatch(/^HTTP\/1.1 408 /);
    expect(slowBody).toMatch(/^HTTP\/1.1 408 /);
  });

  test("answer what is not HTTP with an error", async () => {
    const { port } = await start();

    const answer = await sendRaw(port, "BLAH\r\n\r\n");

    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer).toContain('"error": "The request is not valid HTTP"');
  });

  test("let thousands of clients that come at once wait to be accepted, who would be dropped otherwise", async () => {
    const listen = vi.spyOn(Server.prototype, "listen");

    await start();

    expect(listen.mock.calls).toEqual([[expect.objectContaining({ backlog: 4096 })]]);
    listen.mockRestore();
  });
});
