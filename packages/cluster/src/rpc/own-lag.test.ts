// A process whose event loop was blocked for seconds must not blame its peer: neither side ends a
// healthy stream over it. A connection that is really dead is found, and replaced by a new one.

import net from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { systemClock } from "@winnow/core";
import { afterEach, describe, expect, test } from "vitest";
import { eventually } from "../fixtures/eventually.ts";
import { seededEnvironment as environment } from "../../../../test/doubles/seeded-environment.ts";
import { EchoWorker } from "./doubles/echo-worker.ts";
import { GrpcConnector } from "./grpc-connector.ts";
import { WorkerChannel } from "./shard-channel.ts";
import { WorkerServer } from "./shard-server.ts";

const open: (() => unknown)[] = [];

afterEach(() => {
  for (const close of open.splice(0).toReversed()) close();
});

async function serve(): Promise<{ server: WorkerServer; address: string }> {
  const server = await WorkerServer.listen({ service: new EchoWorker("w0"), environment });
  open.push(() => server.close());
  return { server, address: `127.0.0.1:${server.port}` };
}

function connect(address: string) {
  const connector = new GrpcConnector(systemClock);
  const told = { announcements: 0, disconnects: 0, pongs: 0 };
  const channel = new WorkerChannel(
    { environment, connector, routerId: "r1" },
    {
      onAnnouncement: () => (told.announcements += 1),
      onPong: () => (told.pongs += 1),
      onDrain: () => undefined,
      onDisconnect: () => (told.disconnects += 1),
    },
    { address },
  );
  open.push(() => {
    channel.close();
    connector.close();
  });
  return { connector, channel, told };
}

/** Blocks the event loop. */
function block(durationMs: number): void {
  const endMs = performance.now() + durationMs;
  while (performance.now() < endMs);
}

/**
 * Blocks the event loop twice in one turn: timers due in the first block run before the second, so
 * what they send has no answer when the second block ends.
 */
function blockTwice(firstMs: number, secondMs: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(() => {
      block(secondMs);
      resolve();
    }, firstMs);
    block(firstMs + 100);
  });
}

/** Relays TCP connections, and can fall silent without closing any of them. */
class Relay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  connections = 0;

  constructor(port: number) {
    this.#server = net.createServer((near) => {
      this.connections += 1;
      const far = net.connect(port, "127.0.0.1");
      for (const socket of [near, far]) {
        this.#sockets.add(socket);
        socket.on("error", () => undefined);
      }
      near.pipe(far).pipe(near);
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Connections open at this moment relay nothing from then on; later ones do. */
  silence(): void {
    for (const socket of this.#sockets) {
      socket.unpipe();
      socket.pause();
    }
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

async function relayTo(port: number): Promise<{ relay: Relay; address: string }> {
  const relay = new Relay(port);
  open.push(() => relay.close());
  return { relay, address: await relay.listen() };
}

describe("own lag", () => {
  test("L5: a loop that stood still for seconds ends no stream", async () => {
    const { server, address } = await serve();
    const { channel, told } = connect(address);
    await eventually(() => expect(channel.state).toBe("open"));

    await blockTwice(1200, 3200);
    channel.ping(1);
    await eventually(() => expect(told.pongs).toBe(1));

    expect([told.disconnects, server.links]).toEqual([0, 1]);
  });

  test("a loop that stood still while it connected finds the worker at the first try", async () => {
    const { address } = await serve();

    const { channel, told } = connect(address);
    block(1500);
    await eventually(() => expect(channel.state).toBe("open"));

    expect(told.disconnects).toBe(0);
  });

  test("a loop that stood still while it asked hears the answer", async () => {
    const { address } = await serve();
    const { connector } = connect(address);

    const described = connector.describe(address, 300);
    block(1000);

    expect((await described).workerId).toBe("w0");
  });
});

describe("a connection that died without a word", () => {
  test("is replaced by a new one when the worker is asked who it is", async () => {
    const { server } = await serve();
    const { relay, address } = await relayTo(server.port);
    const connector = new GrpcConnector(systemClock);
    open.push(() => connector.close());
    await connector.describe(address, 5000);

    relay.silence();
    const lost = await connector.describe(address, 200).catch((error: Error) => error.message);
    const found = await connector.describe(address, 5000);

    expect(lost).toMatch("No answer from the worker in 200 ms");
    expect([found.workerId, relay.connections]).toEqual(["w0", 2]);
  });

  test("is replaced by a new one when a stream on it gets no hello", async () => {
    const { server } = await serve();
    const { relay, address } = await relayTo(server.port);
    const { connector, channel, told } = connect(address);
    await eventually(() => expect(channel.state).toBe("open"));

    relay.silence();
    channel.close();
    const again = new WorkerChannel(
      { environment, connector, routerId: "r1" },
      {
        onAnnouncement: () => undefined,
        onPong: () => undefined,
        onDrain: () => undefined,
        onDisconnect: () => undefined,
      },
      { address, connectTimeoutMs: 200 },
    );
    open.push(() => again.close());
    await eventually(() => expect(again.state).toBe("open"));

    expect(told.disconnects).toBe(0);
    expect(relay.connections).toBeGreaterThan(1);
  });
});
