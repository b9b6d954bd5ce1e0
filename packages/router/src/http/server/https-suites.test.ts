// Every limit on what clients may do with connections, bodies and answers, once more over TLS: the suites
// imported here connect as `speakTls` says.

import { expect, test } from "vitest";
import { RawClient, speaking } from "../fixtures/http-client.ts";
import { closeAll, speakTls, start } from "./fixtures/running-server.ts";

speakTls(true);
await import("./hostile-connections.test.ts");
await import("./http-limits.test.ts");
await import("./unread-answers.test.ts");
await import("./http-server.test.ts");
await import("../predict/slow-bodies.test.ts");

test("these suites do speak TLS", async () => {
  const { port } = await start();

  const client = await RawClient.open(port, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  await closeAll();

  expect(speaking.tls).toBeDefined();
  expect(client.socket).toHaveProperty("encrypted", true);
});
