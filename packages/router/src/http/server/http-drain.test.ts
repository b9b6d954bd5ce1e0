// How requests end early, and how the server ends without losing any.

import http from "node:http";
import net from "node:net";
import process from "node:process";
import { WinnowError, sleep, systemClock } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { postPredict, RawClient, send } from "../fixtures/http-client.ts";
import { drainConnections } from "./connection-drain.ts";
import { BODY, closeAll, errorOf, gate, start, until } from "./fixtures/running-server.ts";

const READY_QUESTION = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";

afterEach(closeAll);

describe("a request", () => {
  test("ends at the deadline, even with a predictor that ignores its signal", async () => {
    const { port, predictor } = await start({ requestTimeoutMs: 30 });
    const held = gate();
    predictor.beforeAnswer = () => held.opened;

    const received = await postPredict(port, BODY);

    expect([received.status, errorOf(received.text)]).toEqual([504, "No answer within 30 ms"]);
    expect(predictor.requests[0]?.context.signal.aborted).toBe(true);
    expect(predictor.pins).toBe(1);
    held.open();
    await until(() => predictor.pins === 0);
  });

  test("tells the predictor the deadline", async () => {
    const { port, predictor } = await start({ requestTimeoutMs: 5000 });
    const before = systemClock.nowMs();

    await postPredict(port, BODY);

    const { deadlineMs } = predictor.requests[0]!.context;
    expect(deadlineMs - before).toBeGreaterThan(4900);
    expect(deadlineMs - before).toBeLessThan(6000);
  });

  test("ends when the client goes away", async () => {
    const { port, predictor } = await start();
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const request = http.request({ port, method: "POST", path: "/v1/models/retrieval:predict" });
    request.on("error", () => undefined);
    request.end(BODY);
    await until(() => predictor.requests.length === 1);

    request.destroy();

    const { signal } = predictor.requests[0]!.context;
    await until(() => signal.aborted);
    expect((signal.reason as WinnowError).code).toBe("CANCELLED");
    held.open();
    await until(() => predictor.pins === 0);
  });

  test("a failure of the predictor keeps its code; a fault of the router does not tell itself", async () => {
    const { port, predictor } = await start();
    predictor.beforeAnswer = async () => {
      throw new WinnowError("UNAVAILABLE", "3 partitions are lost");
    };
    const lost = await postPredict(port, BODY);
    predictor.beforeAnswer = async () => {
      throw new RangeError("secret of the house");
    };
    const fault = await postPredict(port, BODY);

    expect([lost.status, errorOf(lost.text), lost.headers["retry-after"]]).toEqual([
      503,
      "3 partitions are lost",
      "1",
    ]);
    expect(fault.status).toBe(500);
    expect(fault.text).not.toContain("secret");
    expect(predictor.pins).toBe(0);
  });
});

describe("drain()", () => {
  test("answers what runs and what comes on open connections, then ends", async () => {
    const { server, port, predictor } = await start();
    const held = gate();
    predictor.beforeAnswer = () => held.opened;
    const running = postPredict(port, BODY);
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const ask = (path: string): Promise<http.IncomingMessage> =>
      new Promise((resolve, reject) => {
        http
          .get({ port, path, agent }, (response) => {
            response.resume();
            response.on("end", () => resolve(response));
          })
          .on("error", reject);
      });
    const before = await ask("/readyz");
    await until(() => predictor.requests.length === 1);

    const drained = server.drain();
    const after = await ask("/readyz");
    const refused = send(port, { method: "GET", path: "/readyz" }).then(
      () => "answered",
      () => "refused",
    );
    expect(await refused).toBe("refused");
    held.open();
    await drained;

    expect([before.statusCode, before.headers.connection]).toEqual([200, "keep-alive"]);
    expect([after.statusCode, after.headers.connection]).toEqual([503, "close"]);
    expect((await running).status).toBe(200);
    agent.destroy();
  });

  test("closes connections that ask nothing, and cuts what takes too long", async () => {
    const { server, port, predictor } = await start({ drainIdleMs: 10, drainTimeoutMs: 60 });
    predictor.beforeAnswer = () => new Promise(() => undefined);
    const idle = net.connect(port, "127.0.0.1");
    const idleClosed = new Promise<void>((resolve) => void idle.once("close", () => resolve()));
    const endless = postPredict(port, BODY).then(
      () => "answered",
      () => "cut",
    );
    await until(() => predictor.requests.length === 1);

    await server.drain();

    await idleClosed;
    expect(await endless).toBe("cut");
  });

  test("loses no request of clients that keep asking", async () => {
    const { server, port } = await start();
    const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
    let answered = 0;
    let lost = 0;
    let isOver = false;
    const client = async (): Promise<void> => {
      while (!isOver) {
        try {
          const status = await new Promise<number>((resolve, reject) => {
            const path = "/v1/models/retrieval:predict";
            const request = http.request({ port, method: "POST", path, agent }, (response) => {
              response.resume();
              response.on("end", () => resolve(response.statusCode ?? 0));
            });
            request.on("error", reject);
            request.end(BODY);
          });
          if (status === 200) answered++;
          else lost++;
        } catch (error) {
          // The listener is gone: a load balancer would not have sent this one here.
          if ((error as NodeJS.ErrnoException).code !== "ECONNREFUSED") lost++;
          isOver = true;
        }
      }
    };
    const clients = Array.from({ length: 8 }, client);
    await until(() => answered > 200);

    await server.drain();
    await Promise.all(clients);

    expect(lost).toBe(0);
    agent.destroy();
  });

  // A connection that the kernel has set up and the server has not accepted ends with the listening socket.
  test("answers those who had connected and were not accepted yet", async () => {
    const { server, port } = await start();
    const waiting = Array.from({ length: 40 }, () => postPredict(port, BODY));
    await connectedInKernel();

    const drained = server.drain();

    const statuses = (await Promise.all(waiting)).map(({ status }) => status);
    expect(statuses).toEqual(Array.from({ length: 40 }, () => 200));
    await drained;
  });

  test("answers a request that came while the process stood still, on a connection that was idle", async () => {
    const { server, port } = await start({ drainIdleMs: 300 });
    const client = await RawClient.open(port, READY_QUESTION);
    await until(() => client.statuses.length === 1);
    const drained = server.drain();
    await sleep(systemClock, 50);

    client.socket.write(READY_QUESTION);
    const endMs = performance.now() + 400;
    while (performance.now() < endMs);

    await until(() => client.isClosed);
    expect(client.statuses).toEqual([200, 503]);
    await drained;
  });

  test("stops listening after a while though each turn of the event loop brings a new connection", async () => {
    const server = net.createServer().listen(0);
    const arrive = (): void => {
      if (!server.listening) return;
      server.emit("connection", undefined);
      setImmediate(arrive);
    };
    arrive();

    const waits = { drainIdleMs: 2000, drainTimeoutMs: 100, drainPollMs: 5 };
    await drainConnections(server as http.Server, systemClock, waits);

    expect(server.listening).toBe(false);
  });
});

/** Lets sockets of this process that were just made connect, and no server of it accept them. */
function connectedInKernel(): Promise<void> {
  return new Promise((resolve) => {
    process.nextTick(() => process.nextTick(resolve));
  });
}
