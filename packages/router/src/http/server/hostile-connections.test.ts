// Clients that keep to HTTP and mean harm all the same: connections that rest, chunks of a byte, requests
// without end on one connection, answers that nobody waits for.

import type { IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { Transfers, systemClock } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import {
  RawClient,
  postPredict,
  predictHead,
  send,
  sendRaw,
  speaking,
} from "../fixtures/http-client.ts";
import { readBody } from "../body/request-body.ts";
import { BODY, closeAll, gate, heldBytes, start, until } from "./fixtures/running-server.ts";

afterEach(closeAll);

const HEALTH = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

describe("connections that rest", () => {
  test("make room for new ones, the longest first, whatever they have sent", async () => {
    const { port, gaveUp } = await start({ connectionsMax: 3 });
    const silent = await RawClient.open(port, "");
    await sleep(20);
    const slow = await RawClient.open(port, "GET /healthz HT");
    await sleep(20);
    const idle = await RawClient.open(port, HEALTH);
    await until(() => idle.statuses.length === 1);

    const first = await send(port, { method: "GET", path: "/healthz" });
    await until(() => silent.isClosed);
    const open = [slow.isClosed, idle.isClosed];
    const kept = await RawClient.open(port, HEALTH);
    await until(() => kept.statuses.length === 1);
    const last = await send(port, { method: "GET", path: "/healthz" });
    await until(() => slow.isClosed);

    expect([first.status, last.status, open]).toEqual([200, 200, [false, false]]);
    expect(idle.isClosed).toBe(false);
    expect(gaveUp).toEqual(["connection resting", "connection resting"]);
  });

  test("are none that have a request under way: a new one is refused then", async () => {
    const { port, predictor, gaveUp } = await start({ connectionsMax: 2 });
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const asking = await Promise.all(
      [1, 2].map(() => RawClient.open(port, predictHead(BODY.length) + BODY)),
    );
    await until(() => predictor.requests.length === 2);

    const refused = await RawClient.open(port, HEALTH);
    await until(() => refused.isClosed);
    held.open();
    await until(() => asking.every(({ statuses }) => statuses.length === 1));
    const next = await send(port, { method: "GET", path: "/healthz" });

    expect([refused.statuses, next.status]).toEqual([[], 200]);
    expect(asking.flatMap(({ statuses }) => statuses)).toEqual([200, 200]);
    // Over TLS the refused one is one whose handshake failed as well.
    const losses = gaveUp.filter((each) => each !== "connection handshake");
    expect(losses).toEqual(["connection refused", "connection resting"]);
  });
});

describe("a client that has ended its side of the connection", () => {
  const request = predictHead(BODY.length) + BODY;

  test.skipIf(speaking.tls !== undefined)(
    "gets its answer, after interim ones where it takes long",
    async () => {
      const { port, predictor } = await start();
      const held = gate();
      const client = await RawClient.open(port, "");
      client.socket.end(request);
      await until(() => client.isClosed);
      predictor.beforeAnswer = () => held.opened;
      const waiting = await RawClient.open(port, "");
      waiting.socket.end(request);
      await until(() => waiting.statuses.length === 2);
      held.open();
      await until(() => waiting.isClosed);

      expect(client.statuses).toEqual([200]);
      expect(waiting.statuses.slice(0, 2)).toEqual([100, 100]);
      expect(waiting.statuses.at(-1)).toBe(200);
    },
  );

  test("and has left is noticed, and its request is given up", async () => {
    const { port, predictor, answered } = await start();
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const client = await RawClient.open(port, request);
    await until(() => predictor.requests.length === 1);

    client.close();
    await until(() => answered.length === 1);
    held.open();

    expect(answered.map(({ code }) => code)).toEqual(["CANCELLED"]);
  });

  test("and has no request under way has its connection closed", async () => {
    const { port } = await start();
    const client = await RawClient.open(port, HEALTH);
    await until(() => client.statuses.length === 1);

    client.socket.end();
    await until(() => client.isClosed);

    expect(client.statuses).toEqual([200]);
  });
});

describe("a body in pieces of a byte", () => {
  test("is kept in few pieces", async () => {
    const bodies = new Transfers(systemClock, {
      bytesMax: 1e6,
      smallBytes: 0,
      reserveBytes: 0,
      stallMs: 1e6,
      timeoutMs: 1e6,
      lookMs: 1e6,
    });
    const request = Object.assign(new PassThrough({ highWaterMark: 1e6 }), { headers: {} });
    const { signal } = new AbortController();
    const reading = readBody(request as unknown as IncomingMessage, {
      bodies,
      bodyBytesMax: 1e6,
      signal,
      onGivenUp: () => undefined,
    });
    const sent = Buffer.from(Array.from({ length: 100_000 }, (_, at) => at % 251));
    for (let at = 0; at < sent.length; at += 1) request.write(sent.subarray(at, at + 1));
    request.write(Buffer.alloc(30_000, 7));
    request.end(sent.subarray(0, 10));

    const body = await reading;
    const length = body.bytes;
    const pieces = body.take();
    bodies.close();

    const whole = Buffer.concat([sent, Buffer.alloc(30_000, 7), sent.subarray(0, 10)]);
    expect(Buffer.concat(pieces).equals(whole)).toBe(true);
    expect([length, pieces.length < 12, body.bytes]).toEqual([whole.length, true, length]);
  });

  test("is answered like any other", async () => {
    const { port } = await start();
    const chunks = [...Buffer.from(BODY)].map((byte) => `1\r\n${String.fromCharCode(byte)}\r\n`);

    const answer = await sendRaw(
      port,
      "POST /v1/models/retrieval:predict HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
        `Transfer-Encoding: chunked\r\n\r\n${chunks.join("")}0\r\n\r\n`,
    );

    expect(answer).toMatch(/^HTTP\/1.1 200 /);
  });

  test.each([
    ["trailers", `0\r\n${"x: y\r\n".repeat(20_000)}\r\n`],
    ["chunk extensions", `1;${"x".repeat(100_000)}\r\n \r\n0\r\n\r\n`],
    ["headers", undefined],
  ])("is refused with endless %s", async (_, end) => {
    const { port } = await start();
    const head = "POST /v1/models/retrieval:predict HTTP/1.1\r\nHost: x\r\n";
    const whole =
      end === undefined
        ? `${head}${"x: y\r\n".repeat(20_000)}\r\n`
        : `${head}Transfer-Encoding: chunked\r\n\r\n${end}`;

    const client = await RawClient.open(port, whole);
    await until(() => client.isClosed);

    expect(client.statuses.every((status) => status >= 400)).toBe(true);
    expect((await postPredict(port, BODY)).status).toBe(200);
  });
});

describe("requests on one connection", () => {
  // Node's HTTPS fails with HPE_PAUSED once answers to requests sent ahead wait; no client sends so many.
  test.skipIf(speaking.tls)("are all answered in order, however many are sent ahead", async () => {
    const { port } = await start();
    const one = predictHead(BODY.length) + BODY;

    const client = await RawClient.open(port, (one + HEALTH).repeat(500));
    await until(() => client.statuses.length === 1000 || client.isClosed);

    expect(client.statuses).toEqual(Array.from({ length: 1000 }, () => 200));
    const types = Array.from(client.bytes.toString("latin1").matchAll(/content-type: (\S+)/g));
    expect(new Set(types.filter((_, at) => at % 2 === 0).map(([, type]) => type)).size).toBe(1);
    client.close();
  });

  test("leave nothing behind when their client is gone before or amid the answer", async () => {
    const running = await start({}, { instancesMax: 20_000 });
    const { port, predictor } = running;
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const users = Array.from({ length: 20_000 }, () => "42");
    const body = JSON.stringify({ instances: users });
    const clients = await Promise.all(
      Array.from({ length: 10 }, () => RawClient.open(port, predictHead(body.length) + body)),
    );
    await until(() => predictor.requests.length === 10);
    for (const client of clients.slice(0, 5)) client.close();
    held.open();
    await until(() => clients.slice(5).some(({ bytes }) => bytes.length > 0));
    for (const client of clients) client.close();

    await until(() => heldBytes(running, "answers") + heldBytes(running, "requests") === 0);

    expect(predictor.pins).toBe(0);
    expect((await postPredict(port, BODY)).status).toBe(200);
  });
});
