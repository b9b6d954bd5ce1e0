// Every limit of the door once more over TLS: the suite imported here connects as `speaking` says.

import { expect, test } from "vitest";
import { testAuthority } from "../../../../test/fixtures/certificates.ts";
import { ReplacedTls, tlsOf } from "../../../../test/doubles/replaced-tls.ts";
import { RawGrpcClient, speaking } from "./fixtures/raw-grpc-client.ts";

speaking.tls = new ReplacedTls(tlsOf(testAuthority().issue({ names: ["127.0.0.1"] })));
await import("./grpc-door.test.ts");

test("this suite does speak TLS", () => {
  const client = new RawGrpcClient(1);

  expect(client.session.encrypted).not.toBe(false);
  client.close();
});
