// Clients that stall, trickle or vanish while they send: each costs itself its request, and nobody else
// anything. Over raw sockets, for no well-behaved client does this.

import { constants, gzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { RawClient, postPredict, predictHead, send } from "../fixtures/http-client.ts";
import {
  BODY,
  closeAll,
  gate,
  heldBytes,
  start,
  until,
} from "../server/fixtures/running-server.ts";

const KIBIBYTE = 1024;
const clients: RawClient[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  await closeAll();
});

async function connect(port: number, bytes: Uint8Array | string): Promise<RawClient> {
  const client = await RawClient.open(port, bytes);
  clients.push(client);
  return client;
}

/** A body of about so many bytes that are worked on to the end: those of one user's name. */
const longName = (bytes: number): string => `{"instances": ["${"x".repeat(bytes)}"]}`;

/** Writes one byte every few milliseconds until the connection is closed. */
function trickle(client: RawClient, everyMs = 10): void {
  const timer = setInterval(() => {
    if (client.isClosed) clearInterval(timer);
    else client.socket.write("1");
  }, everyMs);
}

describe("bodies that do not arrive", () => {
  const options = {
    bodyBytesMax: 100 * KIBIBYTE,
    bodyBytesInFlightMax: 300 * KIBIBYTE,
    bodyReserveBytes: 0,
    smallBodyBytes: KIBIBYTE,
    bodyStallMs: 1000,
    connectionCheckMs: 20,
  };

  test("R1: cost what has arrived, not what was announced, and nothing once they are given up", async () => {
    const running = await start(options);
    const { port } = running;
    const stalled = await Promise.all(
      Array.from({ length: 20 }, () => connect(port, predictHead(100 * KIBIBYTE) + "x".repeat(50))),
    );
    await until(() => heldBytes(running, "requests") === 20 * 50);

    const during = await postPredict(port, BODY);
    await until(() => stalled.every((client) => client.isClosed));
    const after = await postPredict(port, BODY);

    expect([during.status, after.status]).toEqual([200, 200]);
    expect(stalled.map((client) => client.statuses)).toEqual(stalled.map(() => [408]));
    expect(heldBytes(running, "requests")).toBe(0);
    expect(running.gaveUp).toEqual(stalled.map(() => "body stalled"));
  });

  test("R1: give their bytes back when the client vanishes, and when the server drains", async () => {
    const running = await start({ ...options, bodyStallMs: 60_000, drainTimeoutMs: 200 });
    const { port, server } = running;
    const reset = await connect(port, predictHead(1000) + "x".repeat(50));
    const closed = await connect(port, predictHead(1000) + "x".repeat(50));
    await connect(port, predictHead(1000) + "x".repeat(50));
    await until(() => heldBytes(running, "requests") === 150);

    reset.reset();
    closed.socket.end();
    await until(() => heldBytes(running, "requests") === 50);
    await server.drain();
    await until(() => heldBytes(running, "requests") === 0);

    expect([reset.statuses, closed.statuses]).toEqual([[], [400]]);
  });

  test("R1: give their bytes back at the deadline of the request", async () => {
    const running = await start({ ...options, bodyStallMs: 60_000, requestTimeoutMs: 100 });

    const client = await connect(running.port, predictHead(1000) + "x".repeat(50));
    await until(() => client.isClosed);

    expect([client.statuses, heldBytes(running, "requests")]).toEqual([[504], 0]);
  });

  test("make room at once for those that do, where memory is short", async () => {
    const running = await start({ ...options, bodyStallMs: 60_000 });
    const { port } = running;
    const nearlyWhole = predictHead(100 * KIBIBYTE) + " ".repeat(99 * KIBIBYTE);
    const stalled = await Promise.all([1, 2, 3].map(() => connect(port, nearlyWhole)));
    await until(() => heldBytes(running, "requests") === 3 * 99 * KIBIBYTE);

    // The first look has to come before anybody is known to stall.
    while ((await postPredict(port, BODY.padEnd(90 * KIBIBYTE))).status === 503);
    await until(() => stalled.some((client) => client.statuses.length > 0));

    expect(stalled.flatMap((client) => client.statuses)).toEqual([503]);
  });

  test("leave room for small bodies, however large they are", async () => {
    const running = await start({
      ...options,
      bodyStallMs: 60_000,
      bodyReserveBytes: 100 * KIBIBYTE,
    });
    const { port, predictor } = running;
    const held = gate();
    predictor.beforeAnswer = ({ inputs }) =>
      inputs.size > 0 && predictor.requests.length <= 2 ? held.opened : Promise.resolve();
    const large = [1, 2].map(() => postPredict(port, longName(90 * KIBIBYTE)));
    await until(() => predictor.requests.length === 2);

    const refused = await postPredict(port, longName(90 * KIBIBYTE));
    const small = await postPredict(port, BODY);
    held.open();

    expect([refused.status, refused.headers["retry-after"], small.status]).toEqual([503, "1", 200]);
    expect((await Promise.all(large)).map(({ status }) => status)).toEqual([200, 200]);
  });

  test("are refused before they are read where there is no room for what they announce", async () => {
    const running = await start(options);
    const { port, predictor } = running;
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const first = [1, 2, 3].map(() => postPredict(port, longName(90 * KIBIBYTE)));
    await until(() => predictor.requests.length === 3);

    const client = await connect(port, predictHead(90 * KIBIBYTE));
    await until(() => client.statuses.length === 1);
    held.open();

    expect(client.statuses).toEqual([503]);
    expect((await Promise.all(first)).map(({ status }) => status)).toEqual([200, 200, 200]);
  });

  test("are not asked for by 100 Continue before they are refused", async () => {
    const { port } = await start(options);

    const refused = await connect(port, predictHead(200 * KIBIBYTE, "Expect: 100-continue\r\n"));
    const wanted = await connect(port, predictHead(BODY.length, "Expect: 100-continue\r\n"));
    await until(() => refused.statuses.length > 0 && wanted.statuses.length > 0);
    wanted.socket.write(BODY);
    await until(() => wanted.statuses.length > 1);

    expect([refused.statuses, wanted.statuses]).toEqual([[413], [100, 200]]);
  });

  test("unpacked, count as what they are", async () => {
    const running = await start({ ...options, bodyBytesMax: 250 * KIBIBYTE });
    const { port } = running;
    const bomb = gzipSync(Buffer.alloc(200 * KIBIBYTE, 0x20), { level: constants.Z_BEST_SPEED });
    const head = predictHead(bomb.length + 1, "Content-Encoding: gzip\r\n");

    const bombs = await Promise.all(
      Array.from({ length: 20 }, () => connect(port, Buffer.concat([Buffer.from(head), bomb]))),
    );
    let most = 0;
    await until(() => {
      most = Math.max(most, heldBytes(running, "requests"));
      return bombs.every((client) => client.isClosed);
    });

    expect(most).toBeGreaterThan(100 * KIBIBYTE);
    expect(most).toBeLessThanOrEqual(300 * KIBIBYTE);
    expect(bombs.flatMap((client) => client.statuses)).toHaveLength(20);
    expect(heldBytes(running, "requests")).toBe(0);
  });
});

describe("exactly one answer", () => {
  test.each([
    { name: "the deadline", options: { requestTimeoutMs: 150 }, status: 504 },
    { name: "the time of a body", options: { bodyTimeoutMs: 150 }, status: 408 },
    { name: "its stall", options: { bodyStallMs: 150 }, status: 408 },
  ])("is written for a body that trickles past $name, and then the end", async (given) => {
    const { port } = await start({ ...given.options, connectionCheckMs: 20 });

    const client = await connect(port, predictHead(100_000));
    trickle(client);
    await until(() => client.isClosed);

    expect(client.statuses).toEqual([given.status]);
  });

  test.each([
    { name: "an unknown path", head: "POST /nowhere HTTP/1.1\r\nHost: x\r\n" },
    { name: "a status request", head: "GET /v1/models/retrieval HTTP/1.1\r\nHost: x\r\n" },
    {
      name: "a body that is too long",
      head: "POST /v1/models/retrieval:predict HTTP/1.1\r\nHost: x\r\n",
    },
  ])("is written for $name with a body that trickles on", async ({ head }) => {
    const { port } = await start({ bodyBytesMax: 1000, discardMs: 150 });

    const client = await connect(port, `${head}Content-Length: 100000\r\n\r\n`);
    trickle(client);
    await until(() => client.isClosed);

    expect(client.statuses).toHaveLength(1);
  });

  test("is written for a body that turns out malformed after it was refused", async () => {
    const { port } = await start({ bodyBytesMax: 1000 });
    const chunk = `800\r\n${" ".repeat(2048)}\r\n`;

    const client = await connect(
      port,
      "POST /v1/models/retrieval:predict HTTP/1.1\r\nHost: x\r\n" +
        `Transfer-Encoding: chunked\r\n\r\n${chunk}`,
    );
    await until(() => client.statuses.length === 1);
    client.socket.write("this is no chunk\r\n");
    await until(() => client.isClosed);

    expect(client.statuses).toEqual([413]);
  });

  test("a connection serves on after a body that was refused and has come to its end", async () => {
    const { port } = await start({ bodyBytesMax: 1000 });

    const client = await connect(port, predictHead(2000));
    await until(() => client.statuses.length === 1);
    client.socket.write(" ".repeat(2000));
    client.socket.write(predictHead(BODY.length) + BODY);
    await until(() => client.statuses.length === 2);

    expect(client.statuses).toEqual([413, 200]);
  });
});

describe("/readyz", () => {
  test("says no while there has been no memory for requests for long, and yes again after", async () => {
    const { port, predictor, server } = await start({
      bodyBytesInFlightMax: 1000,
      bodyReserveBytes: 0,
      smallBodyBytes: 500,
      unreadyAfterMs: 100,
      connectionCheckMs: 20,
    });
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const ready = async (): Promise<number> =>
      (await send(port, { method: "GET", path: "/readyz" })).status;
    const first = postPredict(port, BODY.padEnd(900));
    await until(() => server.held()[0]!.bytes === 900);

    const atOnce = await ready();
    while ((await ready()) === 200);
    held.open();
    await first;
    while ((await ready()) === 503);

    expect(atOnce).toBe(200);
  });
});
