// A door at a real server of grpc-js, under clients that misbehave as no stub does: what they hold
// is bounded, they are given up in time, and another client is answered meanwhile.

import type { ClientHttp2Session } from "node:http2";
import { Server as NetServer } from "node:net";
import { Duplex } from "node:stream";
import { gzipSync } from "node:zlib";
import { Server, status } from "@grpc/grpc-js";
import type {
  ServerDuplexStream,
  ServerInterceptor,
  ServerUnaryCall,
  sendUnaryData,
} from "@grpc/grpc-js";
import { nextLoopTurn, systemClock } from "@winnow/core";
import { afterEach, describe, expect, test, vi } from "vitest";
import { eventually } from "../fixtures/eventually.ts";
import { portCredentials } from "../tls/grpc-credentials.ts";
import { DoorStream } from "./door-stream.ts";
import { GrpcDoor } from "./grpc-door.ts";
import type { GrpcDoorSettings, PlaceLimits } from "./grpc-door.ts";
import {
  DATA,
  END_HEADERS,
  END_STREAM,
  HEADERS,
  HTTP2_PREFACE,
  RST_STREAM,
  RawGrpcClient,
  SETTINGS_FRAME,
  WINDOW_UPDATE,
  callHeaders,
  framed,
  http2Frame,
  rawSocket,
  speaking,
} from "./fixtures/raw-grpc-client.ts";
import type { RawCall } from "./fixtures/raw-grpc-client.ts";

const KIBIBYTE = 1024;
const MEBIBYTE = 1024 * KIBIBYTE;
const ECHO = "/test.Service/Echo";
const STREAM = "/test.Service/Stream";

const SETTINGS: GrpcDoorSettings = {
  connectionsMax: 100,
  messageBytesMax: 16 * MEBIBYTE,
  requestBytesInFlightMax: 32 * MEBIBYTE,
  bodyReserveBytes: 4 * MEBIBYTE,
  smallBodyBytes: 256 * KIBIBYTE,
  bodyStallMs: 60_000,
  bodyTimeoutMs: 60_000,
  answerBytesInFlightMax: 64 * MEBIBYTE,
  answerStallMs: 60_000,
  answerTimeoutMs: 60_000,
  connectionCheckMs: 20,
};

interface Place {
  readonly door: GrpcDoor;
  readonly port: number;
  readonly gaveUp: string[];
  /** Calls that reached their handler and wait for an answer, because of `isHolding`. */
  readonly waiting: (() => void)[];
  isHolding: boolean;
  /** Bytes of an answer. */
  answerBytes: number;
  /** Streams that were handed to grpc-js. */
  begun: number;
}

const ended: (() => void)[] = [];

/** Resolves once a connection's other end has answered. */
function pinged(session: ClientHttp2Session): Promise<unknown> {
  return new Promise((resolve) => session.ping(resolve));
}
afterEach(() => {
  for (const end of ended.splice(0)) end();
});

const asIs = (bytes: Buffer): Buffer => bytes;

async function open(
  settings: Partial<GrpcDoorSettings> = {},
  limits: Partial<PlaceLimits> = {},
): Promise<Place> {
  const calls: PlaceLimits = {
    kind: "calls",
    max: 20,
    perConnectionMax: 20,
    keeps: "request",
    ...limits,
  };
  const streams: PlaceLimits = { ...calls, kind: "streams", keeps: "nothing" };
  const gaveUp: string[] = [];
  const door = new GrpcDoor({
    clock: systemClock,
    settings: { ...SETTINGS, ...settings },
    placeOf: (path) => (path === STREAM ? streams : calls),
    onGivenUp: (what, reason) => gaveUp.push(`${what} ${reason}`),
  });
  const place: Place = {
    door,
    gaveUp,
    waiting: [],
    isHolding: false,
    answerBytes: 0,
    begun: 0,
    port: 0,
  };
  const counting: ServerInterceptor = (_, call) => {
    place.begun += 1;
    return call as ReturnType<ServerInterceptor>;
  };
  const server = new Server({
    "grpc.max_receive_message_length": SETTINGS.messageBytesMax,
    interceptors: [door.interceptor, counting],
  });
  door.guard(server);
  const codec = {
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  };
  const answer = (request: Buffer): Buffer =>
    place.answerBytes > 0 ? Buffer.alloc(place.answerBytes) : request;
  server.addService(
    {
      Echo: { path: ECHO, requestStream: false, responseStream: false, ...codec },
      Stream: { path: STREAM, requestStream: true, responseStream: true, ...codec },
    },
    {
      Echo: (call: ServerUnaryCall<Buffer, Buffer>, reply: sendUnaryData<Buffer>) => {
        const send = (): void => reply(null, answer(call.request));
        if (place.isHolding) place.waiting.push(send);
        else send();
      },
      Stream: (call: ServerDuplexStream<Buffer, Buffer>) => {
        call.on("data", (message: Buffer) => call.write(answer(message)));
        call.on("end", () => call.end());
        call.on("error", () => undefined);
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", portCredentials(speaking.tls), (error, taken) =>
      error === null ? resolve(taken) : reject(error),
    );
  });
  ended.push(() => {
    server.forceShutdown();
    door.close();
  });
  return Object.assign(place, { port });
}

function connect({ port }: Place): RawGrpcClient {
  const client = new RawGrpcClient(port);
  ended.push(() => client.close());
  return client;
}

/** The answer that another client gets, on a connection of its own. */
async function otherClient(place: Place): Promise<number | undefined> {
  const client = connect(place);
  const call = client.begin(ECHO);
  call.stream.end(framed(Buffer.from("hello")));
  await call.closed;
  client.close();
  return call.status;
}

const held = ({ door }: Place, kind: "requests" | "answers"): number =>
  door.held().find((each) => each.kind === kind)!.bytes;

const allClosed = (calls: readonly RawCall[]): Promise<unknown> =>
  Promise.all(calls.map(({ closed }) => closed));

test.each(["2147484S", "35792M", "597H", "99999999H"])(
  "a deadline of more than 24 days, %s, does not end its call at once",
  async (timeout) => {
    const place = await open();
    const call = connect(place).begin(ECHO, { "grpc-timeout": timeout });

    // Another call takes longer than the millisecond after which a deadline that has passed ends one.
    expect(await otherClient(place)).toBe(status.OK);
    call.stream.end(framed(Buffer.from("hello")));
    await call.closed;

    expect(call.status).toBe(status.OK);
  },
);

test.each(["1m", "0S", "0H"])("a deadline of %s ends its call", async (timeout) => {
  const call = connect(await open()).begin(ECHO, { "grpc-timeout": timeout });

  await call.closed;

  expect(call.status).toBe(status.DEADLINE_EXCEEDED);
});

describe("metadata", () => {
  test("have a length that clients are told", async () => {
    const client = connect(await open());
    client.begin(ECHO);

    await eventually(() => expect(client.session.remoteSettings.maxHeaderListSize).toBe(65_535));

    expect(client.session.remoteSettings.maxConcurrentStreams).toBeDefined();
  });

  test("that are longer end their call alone", async () => {
    const place = await open();
    const client = connect(place);
    const long = client.begin(
      ECHO,
      Object.fromEntries("abcd".split("").map((name) => [name, "x".repeat(20_000)])),
    );
    const other = client.begin(ECHO);
    other.stream.end(framed(Buffer.from("hello")));

    await allClosed([long, other]);

    expect(other.status).toBe(status.OK);
    expect(long.status).not.toBe(status.OK);
  });
});

describe("places", () => {
  test("R1: one connection takes its part of them, and others are answered", async () => {
    // A client that is slow to read what it was refused is not what this is about.
    const place = await open({ connectionCheckMs: 1000 }, { max: 20, perConnectionMax: 10 });
    const greedy = connect(place);

    const calls = Array.from({ length: 50 }, () => greedy.begin(ECHO));
    await eventually(() => expect(calls.filter(({ isClosed }) => isClosed)).toHaveLength(40));

    expect(place.door.streams).toBe(10);
    expect(calls.find(({ isClosed }) => isClosed)).toMatchObject({
      status: status.UNAVAILABLE,
      message: "All 10 places for calls of one connection are taken; try again",
    });
    expect(await otherClient(place)).toBe(status.OK);
  });

  test("R1: all taken by requests that do not come: the stillest give way", async () => {
    const place = await open({}, { max: 20, perConnectionMax: 10 });
    const greedy = [connect(place), connect(place)];
    const calls = greedy.flatMap((client) => Array.from({ length: 10 }, () => client.begin(ECHO)));
    await eventually(() => expect(place.door.streams).toBe(20));

    await eventually(async () => expect(await otherClient(place)).toBe(status.OK));

    await eventually(() => expect(calls.filter(({ isClosed }) => isClosed)).not.toHaveLength(0));
    expect(calls.find(({ isClosed }) => isClosed)?.status).toBe(status.UNAVAILABLE);
    expect(new Set(place.gaveUp)).toEqual(new Set(["body places"]));
  });

  test("those of calls that are worked on are nobody else's", async () => {
    const place = await open({}, { max: 3, perConnectionMax: 3 });
    place.isHolding = true;
    const client = connect(place);
    const calls = Array.from({ length: 3 }, () => client.begin(ECHO));
    for (const { stream } of calls) stream.end(framed(Buffer.from("hello")));
    await eventually(() => expect(place.waiting).toHaveLength(3));
    await new Promise((resolve) => setTimeout(resolve, 100));
    const looks = vi.spyOn(DoorStream.prototype, "stillLooks", "get");

    const refused = await otherClient(place);
    const looked = looks.mock.calls.length;
    looks.mockRestore();
    for (const answer of place.waiting) answer();
    await allClosed(calls);

    expect(refused).toBe(status.UNAVAILABLE);
    // Thousands may be refused in a second: none of them looks through all calls.
    expect(looked).toBe(0);
    expect(calls.map((call) => call.status)).toEqual([status.OK, status.OK, status.OK]);
    expect(place.door.streams).toBe(0);
  });

  test("R1: streams to nowhere, and of no gRPC, take places too, and leave them at once", async () => {
    const place = await open();
    const client = connect(place);

    const unknown = Array.from({ length: 20 }, () => client.begin("/no/Where"));
    await allClosed(unknown);
    const foreign = Array.from({ length: 20 }, () =>
      client.begin(ECHO, { "content-type": "text/plain" }),
    );
    await allClosed(foreign);

    expect(unknown.map((call) => call.status)).toEqual(unknown.map(() => status.UNIMPLEMENTED));
    await eventually(() => expect(place.door.streams).toBe(0));
    expect(held(place, "requests")).toBe(0);
  });

  test("of thousands of connections that come at once, none is dropped before it is accepted", async () => {
    const listen = vi.spyOn(NetServer.prototype, "listen");

    await open();

    expect(listen.mock.calls.map(([options]) => options)).toEqual([
      expect.objectContaining({ backlog: 4096 }),
    ]);
    listen.mockRestore();
  });

  test("R1: of too many connections those without a stream give way, the longest idle first", async () => {
    const place = await open({ connectionsMax: 3 });
    const busy = connect(place);
    const call = busy.begin(STREAM);
    const idle = connect(place);
    const used = connect(place);
    await eventually(() => expect(place.door.connections).toBe(3));
    const answered = used.begin(ECHO);
    answered.stream.end(framed(Buffer.alloc(1)));
    await answered.closed;

    expect(await otherClient(place)).toBe(status.OK);

    await eventually(() => expect(idle.session.destroyed).toBe(true));
    expect([busy.session.destroyed, used.session.destroyed]).toEqual([false, false]);
    expect(call.isClosed).toBe(false);
  });

  // Over TLS those give way first that have not ended their handshake.
  test.skipIf(speaking.tls !== undefined)(
    "R1: of several connections that come at once each takes the place of another",
    async () => {
      const place = await open({ connectionsMax: 8 });
      const idle = Array.from({ length: 8 }, () => connect(place));
      await eventually(() => expect(place.door.connections).toBe(8));
      await Promise.all(idle.map(({ session }) => pinged(session)));

      const newcomers = Array.from({ length: 6 }, () => connect(place));
      await Promise.all(newcomers.map(({ session }) => pinged(session)));

      const left = (): number => idle.filter(({ session }) => session.destroyed).length;
      await eventually(() => expect([place.door.connections, left()]).toEqual([8, 6]));
    },
  );
});

describe("streams that come at once", () => {
  /** A connection that the server knows, and that has told it nothing yet. */
  async function openSocket(place: Place): Promise<Duplex> {
    const socket = rawSocket(place.port);
    ended.push(() => socket.destroy());
    socket.on("error", () => undefined);
    const before = place.door.connections;
    socket.write(Buffer.concat([HTTP2_PREFACE, http2Frame(SETTINGS_FRAME)]));
    await new Promise((resolve) => socket.once("data", resolve));
    await eventually(() => expect(place.door.connections).toBeGreaterThanOrEqual(before));
    return socket;
  }

  /** So many calls, each followed by these frames of its stream. */
  const callsOf = (count: number, rest: (streamId: number) => Buffer): Buffer =>
    Buffer.concat(
      Array.from({ length: count }, (_, at) => 2 * at + 1).flatMap((streamId) => [
        http2Frame(HEADERS, callHeaders(ECHO), { streamId, flags: END_HEADERS }),
        rest(streamId),
      ]),
    );
  const unfinished = (): Buffer => Buffer.alloc(0);

  test("R1: begin a few in each turn of the event loop, and all in the end", async () => {
    const place = await open({}, { max: 200, perConnectionMax: 200 });
    const socket = await openSocket(place);
    const begunInTurns: number[] = [];

    socket.write(callsOf(200, unfinished));
    for (let before = 0; before < 200; before = place.begun) {
      await nextLoopTurn();
      begunInTurns.push(place.begun - before);
    }

    expect(Math.max(...begunInTurns)).toBe(16);
  });

  test("R1: and are reset at once never reach grpc-js, but for the first ones", async () => {
    const place = await open();
    const socket = await openSocket(place);
    const cancel = Buffer.of(0, 0, 0, 8);

    socket.write(callsOf(500, (streamId) => http2Frame(RST_STREAM, cancel, { streamId })));

    expect(await otherClient(place)).toBe(status.OK);
    // Bytes that are read in several pieces are those of as many turns.
    expect(place.begun).toBeLessThan(100);
    await eventually(() => expect(place.door.streams).toBe(0));
    expect(held(place, "requests")).toBe(0);
  });

  test("R1: and wait give their places to a connection that waits with fewer", async () => {
    const limits = { max: 400, perConnectionMax: 200 };
    const place = await open({ connectionCheckMs: 60_000 }, limits);
    place.isHolding = true;
    const greedy = [await openSocket(place), await openSocket(place)];
    const modest = await openSocket(place);
    const call = http2Frame(DATA, framed(Buffer.from("hello")), {
      streamId: 1,
      flags: END_STREAM,
    });

    for (const socket of greedy) socket.write(callsOf(200, unfinished));
    while (place.door.streams < 400) await nextLoopTurn();
    modest.write(callsOf(1, () => call));

    await eventually(() => expect(place.waiting).toHaveLength(1));
    await eventually(() => expect([place.door.streams, place.begun]).toEqual([400, 400]));
  });
});

describe("requests", () => {
  test("R1: that are never finished are held by what came of them, and given up in time", async () => {
    const place = await open({ bodyStallMs: 300 });
    const calls = Array.from({ length: 3 }, () => connect(place).begin(ECHO));
    for (const { stream } of calls) {
      stream.write(framed(Buffer.alloc(8 * MEBIBYTE), { announced: 9 * MEBIBYTE }));
    }
    await eventually(() => expect(held(place, "requests")).toBeGreaterThan(20 * MEBIBYTE));

    const other = await otherClient(place);
    await allClosed(calls);

    expect(other).toBe(status.OK);
    expect(calls.map((call) => call.status)).toEqual(calls.map(() => status.DEADLINE_EXCEEDED));
    expect(place.gaveUp).toEqual(calls.map(() => "body stalled"));
    expect([held(place, "requests"), place.door.streams]).toEqual([0, 0]);
  });

  test("R1: more of them than there is memory for: those that stall give way", async () => {
    const place = await open();
    const calls = Array.from({ length: 20 }, () => connect(place).begin(ECHO));
    let most = 0;
    for (const { stream } of calls) {
      stream.write(framed(Buffer.alloc(8 * MEBIBYTE), { announced: 9 * MEBIBYTE }));
    }

    await eventually(() => {
      most = Math.max(most, held(place, "requests"));
      expect(calls.filter(({ isClosed }) => isClosed).length).toBeGreaterThan(16);
    });

    expect(most).toBeLessThanOrEqual(SETTINGS.requestBytesInFlightMax);
    expect(new Set(place.gaveUp)).toEqual(new Set(["body memory"]));
    expect(await otherClient(place)).toBe(status.OK);
  });

  test("R1: that come byte by byte are held by what they take, not by their length", async () => {
    const place = await open();
    const call = connect(place).begin(ECHO);

    call.stream.write(framed(Buffer.alloc(0), { announced: 100 }));
    for (let count = 0; count < 20; count += 1) {
      const before = held(place, "requests");
      call.stream.write(Buffer.alloc(1));
      await eventually(() => expect(held(place, "requests")).toBeGreaterThan(before));
    }

    expect(held(place, "requests")).toBeGreaterThan(20 * 200);
  });

  test("that never say their end are given up, though their message is whole", async () => {
    const place = await open({ bodyStallMs: 100 });
    const call = connect(place).begin(ECHO);

    call.stream.write(framed(Buffer.from("hello")));
    await call.closed;

    expect(call.status).toBe(status.DEADLINE_EXCEEDED);
  });

  test("that go on after their answer are not read on", async () => {
    const place = await open();
    const call = connect(place).begin(ECHO);

    call.stream.write(framed(Buffer.alloc(0), { announced: 2 ** 31 }));
    await call.closed;

    expect(call.status).toBe(status.RESOURCE_EXHAUSTED);
    await eventually(() => expect(place.door.streams).toBe(0));
  });

  test("R1: on a long stream messages are held until they are whole, and waited for", async () => {
    const place = await open({ bodyStallMs: 300 });
    const call = connect(place).begin(STREAM);
    const message = framed(Buffer.alloc(3 * MEBIBYTE));
    for (let count = 0; count < 3; count += 1) call.stream.write(message);
    await eventually(() => expect(call.receivedBytes).toBe(3 * message.length));
    await new Promise((resolve) => setTimeout(resolve, 1000));
    const heldBetween = held(place, "requests");

    call.stream.write(message.subarray(0, MEBIBYTE));
    await eventually(() => expect(held(place, "requests")).toBeGreaterThanOrEqual(MEBIBYTE));
    await call.closed;

    expect(heldBetween).toBe(0);
    expect(place.gaveUp).toEqual(["body stalled"]);
    expect(held(place, "requests")).toBe(0);
  });
});

describe("packed requests", () => {
  const send = (place: Place, content: Buffer, encoding = "gzip"): RawCall => {
    const call = connect(place).begin(ECHO, { "grpc-encoding": encoding });
    call.stream.end(framed(content, { isPacked: true }));
    return call;
  };

  test("are unpacked", async () => {
    const place = await open();
    const content = Buffer.from("hello ".repeat(20_000));

    const call = send(place, gzipSync(content));
    await call.closed;

    expect([call.status, call.receivedBytes]).toEqual([status.OK, content.length + 5]);
    expect(held(place, "requests")).toBe(0);
  });

  test("R1: bombs take no more than the memory of requests, and leave none taken", async () => {
    const place = await open();
    const bomb = gzipSync(Buffer.alloc(15 * MEBIBYTE));
    let most = 0;

    const calls = Array.from({ length: 18 }, () => send(place, bomb));
    let isOver = false;
    void allClosed(calls).then(() => (isOver = true));
    await eventually(() => {
      most = Math.max(most, held(place, "requests"));
      expect(isOver).toBe(true);
    });

    expect(most).toBeLessThanOrEqual(SETTINGS.requestBytesInFlightMax);
    expect(most).toBeGreaterThan(0);
    expect(calls.filter((call) => call.status === status.UNAVAILABLE).length).toBeGreaterThan(0);
    expect(held(place, "requests")).toBe(0);
    expect(await otherClient(place)).toBe(status.OK);
  });

  test.each([
    ["longer than a message may be", gzipSync(Buffer.alloc(17 * MEBIBYTE)), "gzip", 8],
    ["that are not what they say", Buffer.from("no gzip"), "gzip", 13],
    ["in an unknown way", Buffer.from("?"), "br", 12],
  ])("%s are refused", async (...[, content, encoding, code]) => {
    const place = await open();

    const call = send(place, content, encoding);
    await call.closed;

    expect(call.status).toBe(code);
    expect(held(place, "requests")).toBe(0);
  });
});

describe("answers", () => {
  /** Calls whose answers are not read. */
  function unread(place: Place, count: number): RawCall[] {
    const calls = Array.from({ length: count }, () => connect(place).begin(ECHO));
    for (const { stream } of calls) {
      stream.pause();
      stream.end(framed(Buffer.from("hello")));
    }
    return calls;
  }

  test("R1: that nobody reads are held until they are cut off, and hold up nobody", async () => {
    const place = await open({ answerStallMs: 300 });
    place.answerBytes = 12 * MEBIBYTE;
    const calls = unread(place, 4);
    await eventually(() => expect(held(place, "answers")).toBeGreaterThan(48 * MEBIBYTE));

    place.answerBytes = 0;
    const other = await otherClient(place);
    await eventually(() => expect(place.door.streams).toBe(0));

    expect(other).toBe(status.OK);
    expect(place.gaveUp).toEqual(calls.map(() => "answer stalled"));
    expect(held(place, "answers")).toBe(0);
  });

  test("R1: more than there is memory for: unread ones give way, read ones arrive", async () => {
    const place = await open();
    place.answerBytes = 14 * MEBIBYTE;
    unread(place, 4);
    await eventually(() => expect(held(place, "answers")).toBeGreaterThan(56 * MEBIBYTE));

    await eventually(async () => expect(await otherClient(place)).toBe(status.OK));

    expect(new Set(place.gaveUp)).toEqual(new Set(["answer memory"]));
  });

  test("for which there is no memory are UNAVAILABLE", async () => {
    const place = await open({ answerBytesInFlightMax: MEBIBYTE });
    place.answerBytes = 2 * MEBIBYTE;

    expect(await otherClient(place)).toBe(status.UNAVAILABLE);
    expect(held(place, "answers")).toBe(0);
  });

  test.each([
    ["of a call are written in pieces of 64 KiB", ECHO, [64, 64, 64, 64, 44]],
    ["of a stream of messages in pieces of 256 KiB", STREAM, [256, 44]],
  ])("%s", async (_, path, pieces) => {
    const place = await open();
    place.answerBytes = 300 * KIBIBYTE - 5;
    const call = connect(place).begin(path);
    const writes = vi.spyOn(Duplex.prototype, "write");

    call.stream.end(framed(Buffer.from("hello")));
    await call.closed;
    const written = writes.mock.calls.map(([chunk]) => (chunk as Buffer).length);
    writes.mockRestore();

    // A call of grpc-js takes the message, which has 5 bytes less than what it writes to its stream.
    const large = written.filter((bytes) => bytes >= KIBIBYTE && bytes !== place.answerBytes);
    expect(large).toEqual(pieces.map((kibibytes) => kibibytes * KIBIBYTE));
    expect(call.receivedBytes).toBe(300 * KIBIBYTE);
  });

  test("that are read slowly arrive whole", async () => {
    const place = await open({ answerStallMs: 10_000 });
    place.answerBytes = 4 * MEBIBYTE;
    const [call] = unread(place, 1) as [RawCall];
    await eventually(() => expect(held(place, "answers")).toBeGreaterThan(0));

    while (held(place, "answers") > 0) {
      call.stream.resume();
      await new Promise((resolve) => setImmediate(resolve));
      call.stream.pause();
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    call.stream.resume();
    await call.closed;

    expect([call.status, call.receivedBytes]).toEqual([status.OK, 4 * MEBIBYTE + 5]);
    expect(place.gaveUp).toEqual([]);
  });

  test("R1: a client that reads nothing at all loses its connection", async () => {
    const place = await open({ answerStallMs: 300 });
    place.answerBytes = 14 * MEBIBYTE;
    const greeting = [
      HTTP2_PREFACE,
      // Flow control windows at their maximum: the server sends until the kernel takes no more.
      http2Frame(SETTINGS_FRAME, Buffer.from([0, 4, 0x7f, 0xff, 0xff, 0xff])),
      http2Frame(WINDOW_UPDATE, Buffer.from([0x7f, 0xff, 0, 0])),
    ];
    const calls = [1, 3].flatMap((streamId) => [
      http2Frame(HEADERS, callHeaders(ECHO), { streamId, flags: END_HEADERS }),
      http2Frame(DATA, framed(Buffer.from("hello")), { streamId, flags: END_STREAM }),
    ]);
    const socket = rawSocket(place.port)
      .pause()
      .on("error", () => undefined);
    ended.push(() => socket.destroy());
    socket.write(Buffer.concat([...greeting, ...calls]));
    await eventually(() => expect(held(place, "answers")).toBeGreaterThan(0));

    await eventually(() => expect(held(place, "answers")).toBe(0));
    await eventually(() => expect([place.door.streams, place.door.connections]).toEqual([0, 0]));
  });

  test("R1: a connection that broke the protocol keeps no stream, though Node 20 keeps it", async () => {
    const place = await open({ answerStallMs: 300 });
    const socket = rawSocket(place.port).on("error", () => undefined);
    ended.push(() => socket.destroy());
    const answered = http2Frame(HEADERS, callHeaders("/no/Where"), {
      streamId: 1,
      flags: END_HEADERS + END_STREAM,
    });
    const idle = http2Frame(DATA, framed(Buffer.alloc(1)), { streamId: 3 });

    let received = "";
    socket.on("data", (bytes) => (received += bytes.toString("latin1")));
    socket.write(Buffer.concat([HTTP2_PREFACE, http2Frame(SETTINGS_FRAME), answered, idle]));
    await eventually(() => expect(received).toContain("DATA: stream in idle"));
    socket.destroy();

    await eventually(() => expect([place.door.streams, place.door.connections]).toEqual([0, 0]));
  });
});
