// A worker's server under hostile streams, slow readers, probes and drains, on real sockets.

import { credentials, makeClientConstructor } from "@grpc/grpc-js";
import type { Client } from "@grpc/grpc-js";
import { silentLogger, systemClock } from "@winnow/core";
import { service as healthService } from "grpc-health-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { EchoWorker, lookupOf, rowReply } from "./frames.cases.ts";
import type { WorkerReply } from "./frames.ts";
import type { RouterFrame } from "./generated/winnow/shard/v1/RouterFrame.ts";
import { GrpcConnector } from "./grpc-connector.ts";
import { WorkerChannel } from "./shard-channel.ts";
import { WorkerServer } from "./shard-server.ts";
import { createClient, frameMessages } from "./shard-service.ts";
import type { ExchangeCall } from "./shard-service.ts";

const environment = { clock: systemClock, random: Math.random, log: silentLogger };

/** Waits for a condition; long enough for a busy machine. */
const eventually = (assertion: () => void): Promise<void> => vi.waitFor(assertion, 10_000);

interface HealthClient extends Client {
  Check(
    request: { service: string },
    callback: (error: Error | null, reply?: { status: string }) => void,
  ): void;
}

describe("WorkerServer", () => {
  let worker: EchoWorker;
  let server: WorkerServer;
  let connector: GrpcConnector;
  let address: string;
  const clients: Pick<Client, "close">[] = [];
  const channels: WorkerChannel[] = [];

  beforeEach(async () => {
    worker = new EchoWorker();
    server = await WorkerServer.listen(
      { service: worker, environment },
      { unreadBytesMax: 4 * 1024 * 1024 },
    );
    address = `127.0.0.1:${server.port}`;
    connector = new GrpcConnector(systemClock);
  });
  afterEach(() => {
    for (const channel of channels.splice(0)) channel.close();
    for (const client of clients.splice(0)) client.close();
    connector.close();
    server.close();
  });

  const openChannel = async (): Promise<WorkerChannel> => {
    const channel = new WorkerChannel(
      { environment, connector, routerId: "r1" },
      {
        onAnnouncement: () => undefined,
        onPong: () => undefined,
        onDrain: () => undefined,
        onDisconnect: () => undefined,
      },
      { address },
    );
    channels.push(channel);
    await eventually(() => expect(channel.state).toBe("open"));
    return channel;
  };
  const ask = (channel: WorkerChannel, row: number): Promise<WorkerReply> =>
    new Promise((resolve, reject) => {
      const asked = channel.ask(lookupOf(row, Infinity), resolve);
      if (asked.state === "refused") reject(new Error(asked.reason));
    });
  const rawStream = (): { stream: ExchangeCall; codes: (number | undefined)[] } => {
    const client = createClient(address);
    clients.push(client);
    const stream = client.Exchange();
    const codes: (number | undefined)[] = [];
    stream.on("data", () => undefined);
    stream.on("error", (error: Error & { code?: number }) => codes.push(error.code));
    return { stream, codes };
  };

  test("answers 2000 questions of two routers, each its own", async () => {
    const routers = [await openChannel(), await openChannel()];

    const answers = await Promise.all(
      Array.from({ length: 2000 }, async (_, row) => {
        const { answer } = await ask(routers[row % 2]!, row);
        return answer.kind === "lookup" ? answer.vectors[0] : answer.kind;
      }),
    );

    expect(answers).toEqual(Array.from({ length: 2000 }, (_, row) => row));
    expect(worker.batches.length).toBeLessThan(200);
  });

  test("a hostile stream ends with an error, and its neighbour feels nothing", async () => {
    const channel = await openChannel();
    const hello = { hello: { router_id: "x" } };
    const evil: RouterFrame[][] = [
      [{ ping: { sequence: 1 } }],
      [hello, hello],
      [hello, {}],
      [hello, { queries: { queries: [{ id: 1, partitions: Buffer.from([1]) }] } }],
      [hello, { queries: { queries: [{ id: 1 }] } }],
      [{ hello: { router_id: "x".repeat(1000) } }],
    ];

    for (const frames of evil) {
      const { stream, codes } = rawStream();
      for (const frame of frames) stream.write(frameMessages.requestSerialize(frame));
      await eventually(() => expect(codes).toHaveLength(1));
      expect([3, 9]).toContain(codes[0]);
    }
    const { stream, codes } = rawStream();
    stream.write(frameMessages.requestSerialize(hello));
    stream.write(Buffer.from([0x12, 0x7f, 0x0a]));
    await eventually(() => expect(codes).toEqual([3]));

    expect((await ask(channel, 7)).answer.kind).toBe("lookup");
    expect(server.links).toBe(1);
  });

  test("R1: a router that does not read its replies is cut off", async () => {
    const { stream } = rawStream();
    stream.pause();
    stream.write(frameMessages.requestSerialize({ hello: { router_id: "slow" } }));
    await eventually(() => expect(worker.links).toHaveLength(1));
    const vectors = new Float32Array(256 * 1024);
    const reply = { id: 1, queueUs: 0, computeUs: 0, answer: { kind: "lookup", vectors } } as const;

    for (let sent = 0; sent < 60 && worker.closed === 0; sent += 1) {
      worker.links[0]!.reply(reply);
      await new Promise((resolve) => setImmediate(resolve));
    }

    expect(worker.closed).toBe(1);
    expect(server.links).toBe(0);
  });

  test("a reply that fits no frame is answered RESOURCE_EXHAUSTED instead", async () => {
    const channel = await openChannel();
    worker.isHolding = true;
    const asked = ask(channel, 1);
    await eventually(() => expect(worker.batches).toHaveLength(1));

    const vectors = new Float32Array(9 * 1024 * 1024);
    const { id } = worker.batches[0]![0]!;
    worker.links[0]!.reply({ id, queueUs: 0, computeUs: 0, answer: { kind: "lookup", vectors } });

    expect((await asked).answer).toMatchObject({
      kind: "failure",
      error: { code: "RESOURCE_EXHAUSTED" },
    });
  });

  test("answers the three probes", async () => {
    const Health = makeClientConstructor(healthService, "Health");
    const client = new Health(address, credentials.createInsecure()) as unknown as HealthClient;
    clients.push(client);
    const check = (service: string): Promise<string> =>
      new Promise((resolve) => {
        client.Check({ service }, (error, reply) => resolve(reply?.status ?? String(error)));
      });
    const all = () =>
      Promise.all(["", "winnow.startup", "winnow.shard.v1.Shard"].map((name) => check(name)));

    const before = await all();
    server.setHealth({ started: true, ready: false });
    const started = await all();
    server.setHealth({ started: true, ready: true });
    const ready = await all();

    expect(before).toEqual(["SERVING", "NOT_SERVING", "NOT_SERVING"]);
    expect(started).toEqual(["SERVING", "SERVING", "NOT_SERVING"]);
    expect(ready).toEqual(["SERVING", "SERVING", "SERVING"]);
  });

  test("I5: a drain loses no question, ends the streams, and then stops listening", async () => {
    const channel = await openChannel();
    worker.isHolding = true;
    const asked = ask(channel, 5);
    await eventually(() => expect(worker.batches).toHaveLength(1));

    const drained = server.drain(5000);
    await eventually(() => expect(channel.state).toBe("draining"));
    await expect(ask(channel, 6)).rejects.toThrow("DRAINING");
    // Longer than the keepalive that kills calls after a GOAWAY.
    await new Promise((resolve) => setTimeout(resolve, 1800));
    worker.links[0]!.reply(rowReply(worker.batches[0]![0]!));
    const { answer } = await asked;
    await drained;

    expect(answer.kind).toBe("lookup");
    expect(worker.closed).toBe(1);
    await expect(connector.describe(address, 2000)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  test("a drain ends after its grace, whoever holds on", async () => {
    const { stream, codes } = rawStream();
    stream.write(frameMessages.requestSerialize({ hello: { router_id: "clinging" } }));
    await eventually(() => expect(worker.links).toHaveLength(1));

    await server.drain(50);

    await eventually(() => expect(codes).toHaveLength(1));
    expect(worker.closed).toBe(1);
  });

  test("ends the stream of a router from which nothing is heard, and of no other", async () => {
    server.close();
    server = await WorkerServer.listen({ service: worker, environment }, { silentRouterMs: 150 });
    address = `127.0.0.1:${server.port}`;
    const channel = await openChannel();
    const pings = setInterval(() => channel.ping(1), 20);

    const { stream, codes } = rawStream();
    stream.write(frameMessages.requestSerialize({ hello: { router_id: "vanished" } }));
    await eventually(() => expect(codes).toEqual([14]));
    clearInterval(pings);

    expect(channel.state).toBe("open");
    expect(server.links).toBe(1);
  });
});
