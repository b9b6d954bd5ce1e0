// The generator against servers that answer in pieces, in chunks, late or not at all.

import { getEventListeners } from "node:events";
import { type Server, type Socket, createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { systemClock } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { seededRandom } from "../questions/seeded-random.ts";
import { HttpConnection } from "./http-connection.ts";
import type { LoadAnswer } from "./load-connection.ts";
import { type LoadPlan, type LoadResult, runLoad } from "./load-run.ts";

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** A server that hands each request's socket on; gives its port. */
async function serve(answer: (socket: Socket, request: string) => void): Promise<number> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.on("data", (chunk: Buffer) => answer(socket, chunk.toString()));
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

const target = (port: number) => {
  return { host: "127.0.0.1", port, isSecure: false, ca: undefined };
};

function ask(connection: HttpConnection): Promise<LoadAnswer> {
  return new Promise((resolve) => connection.send(Buffer.from("POST / HTTP/1.1\r\n\r\n"), resolve));
}

const OK = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

describe("a connection", () => {
  test("reads answers in any pieces, with a length or in chunks, one after the other", async () => {
    const texts = [
      "HTTP/1.1 200 OK\r\nX-Thing: a b\r\nContent-Length: 11\r\n\r\nhello world",
      "HTTP/1.1 503 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7;x=y\r\n0\r\n\r\nzz\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ];
    for (const size of [1, 3, 7, 1000]) {
      const queue = [...texts];
      const port = await serve((socket) => {
        const text = queue.shift()!;
        for (let at = 0; at < text.length; at += size) socket.write(text.slice(at, at + size));
      });
      const connection = new HttpConnection(target(port));
      const answers = [await ask(connection), await ask(connection), await ask(connection)];
      connection.end("done");

      expect(answers.map(({ status }) => status)).toEqual([200, 503, 200]);
      expect(answers.map((answer) => answer.body().toString())).toEqual([
        "hello world",
        "hello0\r\n\r\nzz",
        "",
      ]);
      expect(answers[0]!.header("x-thing")).toBe("a b");
    }
  });

  test("says why there is no answer, and connects again for the next", async () => {
    const behaviours = [
      (socket: Socket) => socket.destroy(),
      (socket: Socket) => socket.write("no HTTP\r\n\r\n"),
      (socket: Socket) => socket.write("HTTP/1.1 200 OK\r\n\r\nno length"),
      (socket: Socket) =>
        socket.end("HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length: 2\r\n\r\n{}"),
      (socket: Socket) => socket.write(OK),
    ];
    const port = await serve((socket) => behaviours.shift()!(socket));
    const connection = new HttpConnection(target(port));
    const answers: LoadAnswer[] = [];
    for (let number = 0; number < 5; number += 1) answers.push(await ask(connection));
    connection.end("done");
    const refused = await ask(new HttpConnection(target(1)));

    expect(answers.map(({ status }) => status)).toEqual([0, 0, 0, 200, 200]);
    expect(answers[2]!.fault()).toContain("no HTTP/1.1 with a length");
    expect(refused.fault()).toContain("ECONNREFUSED");
  });
});

function run(port: number, changes: Partial<LoadPlan>, signal?: AbortSignal): Promise<LoadResult> {
  const request = {
    bytes: Buffer.from("POST / HTTP/1.1\r\n\r\n"),
    model: "m",
    instances: 2,
    number: 0,
  };
  const plan: LoadPlan = {
    connect: () => new HttpConnection(target(port)),
    connections: 4,
    durationMs: 600,
    perSecond: undefined,
    arrivals: "even",
    timeoutMs: 10_000,
    checkFraction: 0,
    next: () => request,
    ...changes,
  };
  const environment = { clock: systemClock, random: seededRandom(1) };
  return runLoad(plan, { ...environment, signal: signal ?? new AbortController().signal });
}

describe("load", () => {
  test("of a closed loop is as many requests as are answered", async () => {
    let asked = 0;
    const port = await serve((socket) => {
      asked += 1;
      socket.write(OK);
    });
    const { requests, instances, statuses, latencies } = await run(port, { durationMs: 200 });

    expect(requests).toBe(asked);
    expect(statuses).toEqual({ 200: asked });
    expect(instances).toBe(2 * asked);
    expect(latencies.count).toBe(asked);
  });

  test("of an open loop keeps its rate, and counts a standstill for all who would have come meanwhile", async () => {
    const answering = (stallMs: number): Promise<number> => {
      let startMs: number | undefined;
      return serve((socket) => {
        const nowMs = performance.now();
        startMs ??= nowMs;
        const sinceMs = nowMs - startMs;
        // From 200 ms on, nobody is answered until the standstill is over.
        const waitMs = sinceMs > 200 ? Math.max(0, 200 + stallMs - sinceMs) : 0;
        setTimeout(() => socket.write(OK), waitMs);
      });
    };
    const load = { connections: 2, durationMs: 1000 };
    const open = await run(await answering(500), { ...load, perSecond: 100 });
    const closed = await run(await answering(500), load);

    expect(open.requests + open.unsent).toBeGreaterThanOrEqual(95);
    expect(open.requests + open.unsent).toBeLessThanOrEqual(101);
    // Half of the second: of 100 requests some 50 come in it, and wait for 250 ms on average.
    expect(open.latencies.p90Ms).toBeGreaterThan(300);
    // The same standstill costs a closed loop two slow answers, which hide among the quick ones.
    expect(closed.latencies.p90Ms).toBeLessThan(150);
    expect(closed.latencies.maxMs).toBeGreaterThan(400);
  });

  test("fails by timeouts and by refusals, and says what they said", async () => {
    let asked = 0;
    const port = await serve((socket) => {
      asked += 1;
      if (asked % 2 === 0) socket.write("HTTP/1.1 503 x\r\ncontent-length: 4\r\n\r\nbusy");
    });
    const { statuses, faults } = await run(port, { timeoutMs: 100 });

    expect(statuses[503]).toBeGreaterThan(0);
    expect(statuses[0]).toBeGreaterThan(0);
    expect(faults).toContain("503 busy");
    expect(faults).toContain("no answer within 100 ms");
  });

  test("ends on the signal with what was counted so far", async () => {
    const port = await serve((socket) => socket.write(OK));
    const stop = new AbortController();
    setTimeout(() => stop.abort(), 150);
    const startMs = performance.now();
    const result = await run(port, { durationMs: 60_000, checkFraction: 1 }, stop.signal);

    expect(performance.now() - startMs).toBeLessThan(30_000);
    expect(result.requests).toBeGreaterThan(0);
    expect(result.kept[0]!.answer.body().toString()).toBe("{}");
    expect(result.kept.length).toBeLessThanOrEqual(1000);
  });

  test("leaves nothing that waits for the signal, of which a ramp has one for all its steps", async () => {
    const port = await serve((socket) => socket.write(OK));
    const { signal } = new AbortController();
    await run(port, { durationMs: 20 }, signal);

    expect(getEventListeners(signal, "abort")).toEqual([]);
  });
});
