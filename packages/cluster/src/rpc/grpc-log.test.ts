// What grpc-js would write to the standard error by itself.

import { Server, ServerCredentials } from "@grpc/grpc-js";
import { silentLogger } from "@winnow/core";
import { expect, test } from "vitest";
import { logGrpcFaults } from "./grpc-log.ts";

test("an address that is taken is told in the log, not beside it", async () => {
  const told: unknown[] = [];
  logGrpcFaults({ ...silentLogger, warn: (...line) => told.push(line) });
  const first = new Server();
  const second = new Server();
  const port = await bind(first, 0);

  await expect(bind(second, port)).rejects.toThrow(/EADDRINUSE/u);

  expect(told).toEqual([["grpc-js", { message: expect.stringContaining("No address added") }]]);
  first.forceShutdown();
  second.forceShutdown();
});

async function bind(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const credentials = ServerCredentials.createInsecure();
    server.bindAsync(`127.0.0.1:${port}`, credentials, (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
}
