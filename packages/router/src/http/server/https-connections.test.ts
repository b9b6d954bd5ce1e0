// HTTPS: certificates that are replaced while requests are answered, clients' certificates, and clients
// that do not get through a handshake.

import { once } from "node:events";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import tls from "node:tls";
import type { TlsMaterial } from "@winnow/cluster";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { testAuthority } from "../../../../../test/fixtures/certificates.ts";
import { ReplacedTls, tlsOf } from "../../../../../test/doubles/replaced-tls.ts";
import { RawClient, postPredict, predictHead, send, speaking } from "../fixtures/http-client.ts";
import {
  BODY,
  authority,
  closeAll,
  errorOf,
  fixedTls,
  gate,
  speakTls,
  start,
  until,
} from "./fixtures/running-server.ts";

beforeEach(() => speakTls(true));
afterAll(() => speakTls(false));
afterEach(closeAll);

const HEALTH = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";

const issued = (ca?: string): TlsMaterial => tlsOf(authority.issue({ names: ["127.0.0.1"] }), ca);

/** The certificate that a new connection is shown, and the protocol that is agreed on. */
async function shown(port: number, options: tls.ConnectionOptions = {}) {
  const socket = tls.connect({ host: "127.0.0.1", port, ca: authority.cert, ...options });
  await once(socket, "secureConnect");
  const raw = socket.getPeerCertificate().raw.toString("base64");
  const protocol = socket.getProtocol();
  socket.destroy();
  return { raw, protocol };
}

describe("certificates that are replaced", () => {
  test("cost no request, and new connections get the new one", async () => {
    const source = new ReplacedTls(issued());
    const { port, predictor } = await start({}, {}, { tls: source });
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const asking = await RawClient.open(port, predictHead(BODY.length) + BODY);
    const idle = await RawClient.open(port, HEALTH);
    await until(() => predictor.requests.length === 1 && idle.statuses.length === 1);
    const before = await shown(port);

    const after = [];
    for (let turn = 0; turn < 5; turn += 1) {
      source.replace(issued());
      after.push((await shown(port)).raw);
    }
    held.open();
    idle.socket.write(HEALTH);
    await until(() => asking.statuses.length === 1 && idle.statuses.length === 2);

    expect(new Set([before.raw, ...after]).size).toBe(6);
    expect([asking.statuses, idle.statuses]).toEqual([[200], [200, 200]]);
  });

  test("keep the lowest protocol: TLS 1.2", async () => {
    const source = new ReplacedTls(issued());
    const { port } = await start({}, {}, { tls: source });
    source.replace(issued());
    const old = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "ALL:@SECLEVEL=0" } as const;

    await expect(shown(port, old)).rejects.toThrow(/alert|protocol|version/i);
    expect((await shown(port, { maxVersion: "TLSv1.2" })).protocol).toBe("TLSv1.2");
    expect((await shown(port)).protocol).toBe("TLSv1.3");
  });

  test("of authorities are those that count from then on, also for sessions of before", async () => {
    const [first, second] = [testAuthority("first"), testAuthority("second")];
    const source = new ReplacedTls(issued(first.cert));
    const { port } = await start({}, {}, { tls: source });
    const client = { ...first.issue({ names: ["client"] }), ca: authority.cert };
    speaking.tls = client;
    const session = await sessionOf(port, client);
    const before = await postPredict(port, BODY);

    source.replace(issued(second.cert));
    const refused = await postPredict(port, BODY).catch((error: unknown) => error);
    const resumed = await firstStatus(port, { ...client, session });

    expect(before.status).toBe(200);
    expect(refused).toBeInstanceOf(Error);
    expect(resumed).toBeUndefined();
  });
});

/** A session that a connection could be resumed with; none if it ends before there is one. */
async function sessionOf(
  port: number,
  options: tls.ConnectionOptions,
): Promise<Buffer | undefined> {
  const socket = tls.connect({ host: "127.0.0.1", port, ...options });
  socket.on("error", () => undefined);
  const session = await new Promise<Buffer | undefined>((resolve) => {
    socket.once("session", resolve).once("close", () => resolve(undefined));
  });
  socket.destroy();
  return session;
}

/** The status of a request for the model's state; none where the connection ends without one. */
async function firstStatus(
  port: number,
  options: tls.ConnectionOptions,
): Promise<number | undefined> {
  speaking.tls = options;
  const request = { method: "GET", path: "/v1/models/retrieval" };
  return (await send(port, request).catch(() => undefined))?.status;
}

describe("a server that asks for clients' certificates", () => {
  const clients = testAuthority("clients");
  const open = () => start({}, {}, { tls: fixedTls(clients.cert) });

  test("answers those who show one, and everybody's probes", async () => {
    const { port } = await open();
    const without = [];
    for (const path of ["/healthz", "/livez", "/readyz", "/v1/models", "/openapi.json", "/nope"]) {
      without.push((await send(port, { method: "GET", path })).status);
    }
    const refused = await postPredict(port, BODY);
    speaking.tls = { ca: authority.cert, ...clients.issue() };
    const answered = await postPredict(port, BODY);

    expect(without).toEqual([200, 200, 200, 401, 401, 401]);
    expect([refused.status, errorOf(refused.text)]).toEqual([
      401,
      "A client certificate is needed here, and none was sent",
    ]);
    expect(answered.status).toBe(200);
  });

  test.each([
    ["of another authority", () => testAuthority("clients").issue()],
    ["that has ended", () => clients.issue({ days: -1 })],
  ])("ends a connection that shows one %s, and sessions of it too", async (_, issue) => {
    const { port } = await open();
    const options = { ca: authority.cert, ...issue() };
    const session = await sessionOf(port, options);

    expect(await firstStatus(port, options)).toBeUndefined();
    expect(await firstStatus(port, { ...options, session })).toBeUndefined();
  });

  test("does not take a resumed session without a certificate for one with", async () => {
    const { port } = await open();
    const options = { ca: authority.cert };

    const session = await sessionOf(port, options);
    const socket = tls.connect({ host: "127.0.0.1", port, ...options, session });
    await once(socket, "secureConnect");
    const isReused = socket.isSessionReused();
    socket.destroy();

    expect(isReused).toBe(true);
    expect(await firstStatus(port, { ...options, session })).toBe(401);
  });
});

describe("clients that do not get through a handshake", () => {
  /** The first message of a handshake, as a real client writes it. */
  async function clientHello(): Promise<Buffer> {
    const server = net.createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as net.AddressInfo;
    const client = tls.connect({ host: "127.0.0.1", port });
    client.on("error", () => undefined);
    const [socket] = (await once(server, "connection")) as [net.Socket];
    const [hello] = (await once(socket, "data")) as [Buffer];
    client.destroy();
    socket.destroy();
    server.close();
    return hello;
  }

  test("are cut in time, whether they are silent or send a byte now and then", async () => {
    const { port } = await start({ handshakeTimeoutMs: 300 });
    const hello = await clientHello();
    const silent = net.connect(port, "127.0.0.1").on("error", () => undefined);
    const slow = net.connect(port, "127.0.0.1").on("error", () => undefined);
    // A byte that is written to a connection already cut is answered with a reset, which is a cut as well.
    const ends = [silent, slow].map(
      (socket) => new Promise((resolve) => socket.resume().once("close", resolve)),
    );
    let sent = 0;

    while (!slow.closed && sent < hello.length - 1) {
      if (!slow.destroyed) slow.write(hello.subarray(sent, (sent += 1)));
      await sleep(20);
    }
    await Promise.all(ends);

    expect(sent).toBeLessThan(hello.length - 1);
    expect((await postPredict(port, BODY)).status).toBe(200);
  });

  test("give way to others when all places are taken", async () => {
    const { port, gaveUp } = await start({ connectionsMax: 3 });
    const silent = [1, 2, 3].map(() =>
      net
        .connect(port, "127.0.0.1")
        .on("error", () => undefined)
        .resume(),
    );
    await Promise.all(silent.map((socket) => once(socket, "connect")));

    const answer = await postPredict(port, BODY);
    await until(() => silent.some(({ closed }) => closed));

    expect(answer.status).toBe(200);
    expect(gaveUp).toContain("connection resting");
    for (const socket of silent) socket.destroy();
  });

  test("are cut when the server closes, however long they could take", async () => {
    const { port, server } = await start({ handshakeTimeoutMs: 60_000 });
    const silent = net
      .connect(port, "127.0.0.1")
      .on("error", () => undefined)
      .resume();
    await once(silent, "connect");
    await postPredict(port, BODY);

    await server.close();
    await until(() => silent.closed);

    expect(silent.destroyed).toBe(true);
  });

  test.each([
    ["HTTP without TLS", Buffer.from(HEALTH)],
    ["noise", Buffer.from(Array.from({ length: 5000 }, (_, at) => (at * 7919) % 251))],
    [
      "a record longer than any",
      Buffer.concat([Buffer.from("160301ffff", "hex"), Buffer.alloc(70_000)]),
    ],
    ["nothing at all, and an end", Buffer.alloc(0)],
  ])("are cut at once when they send %s", async (_, bytes) => {
    const { port, answered, gaveUp } = await start();
    const socket = net.connect({ host: "127.0.0.1", port, allowHalfOpen: true });
    socket.on("error", () => undefined).resume();
    await once(socket, "connect");
    const closed = new Promise((resolve) => socket.once("close", resolve));

    socket.end(bytes);
    await until(() => socket.readableEnded || socket.closed);
    socket.destroy();
    await closed;

    expect(answered).toEqual([]);
    await until(() => gaveUp.includes("connection handshake"));
    expect((await postPredict(port, BODY)).status).toBe(200);
  });
});
