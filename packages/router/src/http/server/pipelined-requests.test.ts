// Clients that send requests before the ones ahead of them are answered: all are answered, in order, and others are not
// delayed by them.

import { IncomingMessage, ServerResponse, createServer } from "node:http";
import { Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { systemClock } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { RawClient, predictHead } from "../fixtures/http-client.ts";
import { PipelinedRequests } from "./pipelined-requests.ts";
import { BODY, closeAll, gate, speakTls, start, until } from "./fixtures/running-server.ts";

afterEach(async () => {
  speakTls(false);
  await closeAll();
});

const PREDICT = predictHead(BODY.length) + BODY;
const HEALTH = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
const UNDER_WAY_MAX = 32;
const BEGUN_IN_TURN_MAX = 16;

const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

async function turns(count: number): Promise<void> {
  for (let at = 0; at < count; at++) await turn();
}

describe.each([
  ["without TLS", false],
  ["with TLS", true],
])(
  "requests on one connection, before those ahead of them are answered, %s",
  (_title, isSecure) => {
    test("begin up to 32 at a time, and are all answered", async () => {
      speakTls(isSecure);
      const { port, predictor } = await start();
      const held = gate();
      predictor.beforeAnswer = () => held.opened;

      const client = await RawClient.open(port, PREDICT.repeat(200));
      await until(() => predictor.requests.length >= UNDER_WAY_MAX);
      await turns(50);
      const begun = predictor.requests.length;
      held.open();
      await until(() => client.statuses.length === 200 || client.isClosed);

      expect(begun).toBe(UNDER_WAY_MAX);
      expect(new Set(client.statuses)).toEqual(new Set([200]));
      expect(client.statuses).toHaveLength(200);
    });

    test("begin a few in each turn of the event loop, however many there are", async () => {
      speakTls(isSecure);
      const { port, answered } = await start();
      const client = await RawClient.open(port, HEALTH);
      await until(() => answered.length === 1);

      client.socket.write(HEALTH.repeat(3000));
      let most = 0;
      while (answered.length < 3001) {
        const before = answered.length;
        await turn();
        most = Math.max(most, answered.length - before);
      }

      // The first one begins at once, and two turns may pass between two looks.
      expect(most).toBeLessThanOrEqual(2 * (BEGUN_IN_TURN_MAX + 1));
    });

    test("are answered in their order, with bodies longer than what is read at once", async () => {
      speakTls(isSecure);
      const { port } = await start();
      const long = BODY + " ".repeat(200_000);
      const others = ["/v1/models/nothing", "/healthz"].map((path) =>
        HEALTH.replace("/healthz", path),
      );
      const three = predictHead(long.length) + long + others.join("");

      const client = await RawClient.open(port, three.repeat(20));
      await until(() => client.statuses.length === 60 || client.isClosed);

      expect(client.statuses).toEqual(Array.from({ length: 20 }, () => [200, 404, 200]).flat());
    });

    test("are answered before what follows them and is no request", async () => {
      speakTls(isSecure);
      const { port } = await start();

      const client = await RawClient.open(port, `${HEALTH.repeat(40)}garbage\r\n\r\n`);
      await until(() => client.isClosed);

      expect(client.statuses).toEqual([...Array.from({ length: 40 }, () => 200), 400]);
    });

    test("do not begin once the client has left", async () => {
      speakTls(isSecure);
      const { port, predictor } = await start();
      const held = gate();
      predictor.beforeAnswer = () => held.opened;
      const client = await RawClient.open(port, PREDICT.repeat(100));
      await until(() => predictor.requests.length >= UNDER_WAY_MAX);

      client.reset();
      await until(() => client.isClosed);
      await turns(20);
      held.open();
      await turns(50);

      expect(predictor.requests.length).toBe(UNDER_WAY_MAX);
    });
  },
);

test("are not made of the bytes long before they begin, once some connections have sent thousands", async () => {
  let made = 0;
  class CountedRequest extends IncomingMessage {
    constructor(...socket: ConstructorParameters<typeof IncomingMessage>) {
      super(...socket);
      made += 1;
    }
  }
  const begun = new Set<unknown>();
  const pipelined = new PipelinedRequests(systemClock);
  const unanswered = pipelined.listener(({ socket }) => void begun.add(socket));
  const server = createServer({ IncomingMessage: CountedRequest }, unanswered);
  server.on("connection", (socket) => pipelined.opened(socket));
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;

  const clients: RawClient[] = [];
  for (let at = 0; at < 40; at++) clients.push(await RawClient.open(port, HEALTH.repeat(3000)));
  await until(() => begun.size === clients.length);
  await turns(200);
  for (const client of clients) client.reset();
  server.closeAllConnections();
  server.close();

  // Of a connection 64 KiB, two thousand requests, before it is known; of each other one 32 that begin, and a piece.
  expect(made).toBeLessThan(3000 + 40 * (UNDER_WAY_MAX + 20));
});

/** A request on a connection of its own, whose body is announced to be so long. */
function requestOf(bodyBytes: number): readonly [IncomingMessage, ServerResponse] {
  const request = new IncomingMessage(new Socket());
  request.headers["content-length"] = String(bodyBytes);
  return [request, new ServerResponse(request)];
}

describe("first requests of many connections that come in one turn", () => {
  test("begin some at once and a few in each later turn, those with short bodies first", async () => {
    const begun: unknown[] = [];
    const take = new PipelinedRequests(systemClock).listener((request) => void begun.push(request));
    const all = Array.from({ length: 600 }, () => requestOf(5000));
    const short = requestOf(22);

    for (const each of [...all, short]) take(...each);
    const atOnce = begun.length;
    const places: number[] = [];
    while (begun.length < all.length + 1) {
      const before = begun.length;
      await turn();
      places.push(begun.length - before);
    }

    expect(atOnce).toBe(128);
    expect(begun.indexOf(short[0])).toBe(128);
    expect(Math.max(...places)).toBeLessThanOrEqual(32);
    expect(new Set(begun).size).toBe(begun.length);
    const [long] = all.at(-1)!;
    expect(begun.at(-1)).toBe(long);
  });

  test("with long bodies begin beside ever more with short ones", async () => {
    const begun = new Set<unknown>();
    const take = new PipelinedRequests(systemClock).listener((request) => void begun.add(request));
    for (let at = 0; at < 128; at++) take(...requestOf(22));
    const long = requestOf(5000);
    for (let at = 0; at < 200; at++) take(...requestOf(22));
    take(...long);

    await turns(2);

    expect(begun.size).toBeLessThan(200);
    expect(begun).toContain(long[0]);
  });

  test("are told of as idle, once they have begun, if the rest of their body is broken", async () => {
    const begun: unknown[] = [];
    const pipelined = new PipelinedRequests(systemClock);
    const take = pipelined.listener((request) => void begun.push(request));
    for (let at = 0; at < 128; at++) take(...requestOf(22));
    const [broken, whole] = [requestOf(5000), requestOf(22)];
    whole[0].complete = true;
    take(...broken);
    take(...whole);
    const told: unknown[] = [];

    for (const [request] of [broken, whole]) {
      pipelined.whenIdle(request.socket, () => void told.push(begun.includes(request) && request));
    }
    await turns(5);

    expect(begun).toHaveLength(130);
    expect(told).toEqual([broken[0]]);
  });

  test("begin once, in order, with what follows them on their connection, or never once it is closed", async () => {
    const begun: unknown[] = [];
    const take = new PipelinedRequests(systemClock).listener((request) => void begun.push(request));
    for (let at = 0; at < 128; at++) take(...requestOf(22));
    const [first, second, left] = [requestOf(5000), requestOf(22), requestOf(22)];
    const { socket } = first[0];
    const follower = new IncomingMessage(socket);
    take(...first);
    take(follower, new ServerResponse(follower));
    take(...second);
    take(...left);
    left[0].socket.destroy();

    await turns(10);

    expect(begun.slice(128)).toEqual(expect.arrayContaining([first[0], follower, second[0]]));
    expect(begun).toHaveLength(131);
    expect(begun.indexOf(first[0])).toBeLessThan(begun.indexOf(follower));
  });
});
