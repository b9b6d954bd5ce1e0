// The same cases on gRPC over loopback and on the network inside one process.

import { silentLogger, systemClock } from "@winnow/core";
import { connectorCases } from "./connector.cases.ts";
import { GrpcConnector } from "./grpc-connector.ts";
import { MemoryNetwork } from "./memory-network.ts";
import { WorkerServer } from "./shard-server.ts";

const environment = { clock: systemClock, random: Math.random, log: silentLogger };

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
