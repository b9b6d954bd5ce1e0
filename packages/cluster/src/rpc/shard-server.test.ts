// A worker's server under hostile streams, slow readers, probes and drains, on real sockets.

import { credentials, makeClientConstructor } from "@grpc/grpc-js";
import type { Client } from "@grpc/grpc-js";
import { fingerprint, systemClock } from "@winnow/core";
import { service as healthService } from "grpc-health-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../fixtures/eventually.ts";
import { RawGrpcClient, framed } from "../grpc-door/fixtures/raw-grpc-client.ts";
import { seededEnvironment as environment } from "../../../../test/doubles/seeded-environment.ts";
import { EchoWorker } from "./doubles/echo-worker.ts";
import { lookupOf, rowReply } from "./fixtures/any-frames.ts";
import type { WorkerReply } from "./frames/frames.ts";
import type { RouterFrame } from "./generated/winnow/shard/v1/RouterFrame.ts";
import { GrpcConnector } from "./grpc-connector.ts";
import { ClientCredentials } from "../tls/grpc-credentials.ts";
import { WorkerChannel } from "./shard-channel.ts";
import { WorkerServer } from "./shard-server.ts";
import type { WorkerServerSettings } from "./shard-server.ts";
import { createClient, frameMessages, shardService } from "./frames/shard-service.ts";
import type { ExchangeCall } from "./frames/shard-service.ts";
import type { ProgramQuery } from "./worker-connector.ts";

const programMessages = shardService["GetProgram"]!;

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
    const client = createClient(address, new ClientCredentials(undefined).of("127.0.0.1"));
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

  test("runs what waits for replies when they have left, and at once where none wait", async () => {
    worker.isHolding = true;
    const channel = await openChannel();
    const answered = ask(channel, 7);
    await eventually(() => expect(worker.batches).toHaveLength(1));
    const [link] = worker.links;
    const ran: string[] = [];
    link!.afterReplies(() => ran.push("without replies"));
    link!.reply(rowReply(worker.batches[0]![0]!));

    const left = new Promise<void>((resolve) => {
      link!.afterReplies(() => {
        ran.push("after replies");
        resolve();
      });
    });
    ran.push("later");
    await left;

    expect(ran).toEqual(["without replies", "later", "after replies"]);
    expect(await answered).toMatchObject({ answer: { kind: "lookup" } });
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
    // Waits longer than the keepalive that would kill calls after a GOAWAY.
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

  describe("under attack", () => {
    const restart = async (settings: Partial<WorkerServerSettings>): Promise<void> => {
      server.close();
      server = await WorkerServer.listen({ service: worker, environment }, settings);
      address = `127.0.0.1:${server.port}`;
    };
    const attackers: RawGrpcClient[] = [];
    const attack = (): RawGrpcClient => {
      const attacker = new RawGrpcClient(server.port);
      attackers.push(attacker);
      return attacker;
    };
    afterEach(() => {
      for (const attacker of attackers.splice(0)) attacker.close();
    });
    const version = { model: "movies", version: 1, fingerprint: fingerprint("f") };

    test("R1: streams without a hello are few, give way to routers, and end", async () => {
      await restart({ streamsMax: 64, helloMs: 1500, connectionCheckMs: 20 });
      const clients = Array.from({ length: 8 }, attack);
      const streams = clients.flatMap((client) =>
        Array.from({ length: 100 }, () => client.begin("/winnow.shard.v1.Shard/Exchange")),
      );
      await eventually(() => expect(server.links).toBe(64));

      const channel = await openChannel();
      const answered = await ask(channel, 7);
      // No stream gets a hello, and all are ended.
      await eventually(() => expect(server.links).toBe(1));

      expect(answered.answer.kind).toBe("lookup");
      expect(channel.state).toBe("open");
      expect(streams.every(({ receivedBytes }) => receivedBytes === 0)).toBe(true);
    });

    test("R1: frames that do not end are counted, and given up", async () => {
      await restart({ connectionCheckMs: 20, bodyStallMs: 400, helloMs: 60_000 });
      const calls = Array.from({ length: 3 }, () =>
        attack().begin("/winnow.shard.v1.Shard/Exchange"),
      );
      const hello = frameMessages.requestSerialize({ hello: { router_id: "x" } });
      for (const { stream } of calls) {
        stream.write(framed(hello));
        stream.write(framed(Buffer.alloc(4 * 1024 * 1024), { announced: 8 * 1024 * 1024 }));
      }
      const held = (): number => server.held()[0]!.bytes;
      await eventually(() => expect(held()).toBeGreaterThan(12 * 1024 * 1024));

      const channel = await openChannel();
      await Promise.all(calls.map(({ closed }) => closed));

      expect((await ask(channel, 7)).answer.kind).toBe("lookup");
      expect(held()).toBe(0);
    });

    test("R1: a program asked for without bound is packed once, with a bound", async () => {
      await restart({ programTableBytesMax: 1000 });
      const asked: ProgramQuery[] = [];
      let isPacking = 0;
      let most = 0;
      worker.program = async (query) => {
        asked.push(query);
        isPacking += 1;
        most = Math.max(most, isPacking);
        await new Promise((resolve) => setTimeout(resolve, 50));
        isPacking -= 1;
        return Buffer.alloc(3_000_000, query.tableBytesMax & 0xff);
      };

      const bounds = [2 ** 50, 2 ** 40, 5000, 7, 2 ** 50, 8, 9, 10];
      const programs = await Promise.all(
        bounds.map((tableBytesMax) => connector.program(address, { version, tableBytesMax })),
      );

      expect(asked.map(({ tableBytesMax }) => tableBytesMax)).toEqual([1000, 7, 8, 9, 10]);
      expect(most).toBe(1);
      expect(programs.map((bytes) => bytes[0])).toEqual(
        [1000, 1000, 1000, 7, 1000, 8, 9, 10].map((b) => b & 0xff),
      );
      expect(programs.every(({ length }) => length === 3_000_000)).toBe(true);
    });

    test("R1: programs that nobody reads keep few in memory, until they are given up", async () => {
      await restart({
        programsPackedMax: 2,
        connectionCheckMs: 20,
        answerStallMs: 1000,
      });
      let packed = 0;
      worker.program = () => {
        packed += 1;
        return Promise.resolve(Buffer.alloc(20_000_000));
      };
      const message = (bound: number): Buffer =>
        programMessages.requestSerialize({ ...version, table_bytes_max: bound });
      const calls = Array.from({ length: 6 }, (_, bound) => {
        const call = attack().begin("/winnow.shard.v1.Shard/GetProgram");
        call.stream.pause().end(framed(message(bound)));
        return call;
      });
      await eventually(() => expect(packed).toBe(2));

      const program = await connector.program(address, { version, tableBytesMax: 1000 });

      expect(program).toHaveLength(20_000_000);
      await eventually(() => expect(server.held()[1]!.bytes).toBe(0));
      expect(calls.every(({ status }) => status !== 0)).toBe(true);
    });

    test("L2: a program that does not come is given up", async () => {
      await restart({ programTimeoutMs: 100 });
      worker.program = () => new Promise(() => undefined);

      const asked = connector.program(address, { version, tableBytesMax: 1 });

      await expect(asked).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    });
  });

  test("an order to drain reaches the worker, and its refusal the caller in its words", async () => {
    await connector.drainWorker(address, "an order", 2000);

    expect(worker.drains).toEqual(["an order"]);
    await expect(connector.drainWorker(address, "never", 2000)).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: expect.stringContaining("Nobody may drain this") as string,
    });
  });

  test.each([
    ["127.0.0.1", true],
    ["0.0.0.0", false],
  ])("an order to drain at %s is of a member: %s", async (host, isFromMember) => {
    const listening = await WorkerServer.listen({ service: worker, environment }, { host });
    try {
      await connector.drainWorker(`127.0.0.1:${listening.port}`, "an order", 2000);
      expect(worker.drainsOfMembers).toEqual([isFromMember]);
    } finally {
      listening.close();
    }
  });
});
