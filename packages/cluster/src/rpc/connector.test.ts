// The same cases on gRPC over loopback and on the network inside one process.

import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { systemClock } from "@winnow/core";
import { expect, onTestFinished, test, vi } from "vitest";
import { eventually } from "../fixtures/eventually.ts";
import { seededEnvironment as environment } from "../../../../test/doubles/seeded-environment.ts";
import { connectorCases } from "./connector.cases.ts";
import { EchoWorker } from "./doubles/echo-worker.ts";
import { lookupOf } from "./fixtures/any-frames.ts";
import { GrpcConnector } from "./grpc-connector.ts";
import { MemoryNetwork } from "./doubles/memory-network.ts";
import { WorkerServer } from "./shard-server.ts";

connectorCases("gRPC", async (service) => {
  const server = await WorkerServer.listen({ service, environment });
  const connector = new GrpcConnector(systemClock);
  return {
    connector,
    address: `127.0.0.1:${server.port}`,
    vacantAddress: "127.0.0.1:1",
    close: () => {
      connector.close();
      server.close();
    },
  };
});

test("a worker is called without the proxies that variables name", async () => {
  vi.stubEnv("http_proxy", "http://127.0.0.1:1");
  onTestFinished(() => void vi.unstubAllEnvs());
  const server = await WorkerServer.listen({ service: new EchoWorker("w1"), environment });
  const connector = new GrpcConnector(systemClock);

  const announced = connector.describe(`127.0.0.1:${server.port}`, 2000);
  await expect(announced).resolves.toMatchObject({ workerId: "w1" });

  connector.close();
  server.close();
});

connectorCases("MemoryNetwork", (service) => {
  const network = new MemoryNetwork(systemClock);
  network.listen("w7:7600", service);
  return Promise.resolve({
    connector: network,
    address: "w7:7600",
    vacantAddress: "nobody:7600",
    close: () => network.close(),
  });
});

test("a new stream reaches who is at the address now, not whom an older one still holds on to", async () => {
  const servers = await Promise.all(
    ["w1", "w2"].map((id) => WorkerServer.listen({ service: new EchoWorker(id), environment })),
  );
  let target = servers[0]!.port;
  const relay = createServer((socket) => {
    const onward = connect(target, "127.0.0.1");
    socket.pipe(onward).pipe(socket);
    for (const end of [socket, onward]) end.on("error", () => end.destroy());
  });
  await new Promise<void>((resolve) => {
    relay.listen(0, "127.0.0.1", resolve);
  });
  const address = `127.0.0.1:${(relay.address() as AddressInfo).port}`;
  const connector = new GrpcConnector(systemClock);
  const met: string[] = [];
  const greet = (): void => {
    const stream = connector.open(address, {
      onFrame: (frame) => frame.kind === "state" && met.push(frame.announcement.workerId),
      onWritable: () => undefined,
      onClose: () => undefined,
    });
    stream.send({ kind: "hello", routerId: "r1", wantsMembers: true });
  };

  greet();
  await eventually(() => expect(met).toEqual(["w1"]));
  target = servers[1]!.port;
  greet();
  await eventually(() => expect(met).toEqual(["w1", "w2"]));

  connector.close();
  for (const server of servers) server.close();
  relay.close();
});

test("after a program that did not come, the next one is asked for on a new connection", async () => {
  const service = new EchoWorker("w1");
  service.programBytes = Buffer.alloc(1000);
  const server = await WorkerServer.listen({ service, environment });
  const sockets: Socket[] = [];
  const relay = createServer((socket) => {
    const onward = connect(server.port, "127.0.0.1");
    socket.pipe(onward).pipe(socket);
    sockets.push(socket, onward);
    for (const end of [socket, onward]) end.on("error", () => end.destroy());
  });
  await new Promise<void>((resolve) => {
    relay.listen(0, "127.0.0.1", resolve);
  });
  const address = `127.0.0.1:${(relay.address() as AddressInfo).port}`;
  const connector = new GrpcConnector(systemClock);
  await connector.describe(address, 2000);
  // As a machine that vanishes: its connections are not reset, and nothing more comes on them.
  for (const socket of sockets) socket.unpipe().pause();

  const query = { version: lookupOf(1).version, tableBytesMax: 1 };
  const late = connector.program(address, query, AbortSignal.timeout(100));
  await expect(late).rejects.toMatchObject({ name: "TimeoutError" });
  const program = await connector.program(address, query, AbortSignal.timeout(2000));

  expect(program).toHaveLength(1000);
  connector.close();
  server.close();
  for (const socket of sockets) socket.destroy();
  relay.close();
});
