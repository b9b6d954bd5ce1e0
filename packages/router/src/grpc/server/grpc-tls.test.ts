// The public gRPC port with TLS: clients with and without certificates, certificates that are replaced, and
// handshakes that do not end.

import { once } from "node:events";
import net from "node:net";
import { credentials } from "@grpc/grpc-js";
import { peerNamed } from "@winnow/cluster";
import { afterEach, describe, expect, test } from "vitest";
import { testAuthority } from "../../../../../test/fixtures/certificates.ts";
import { ReplacedTls, tlsOf } from "../../../../../test/doubles/replaced-tls.ts";
import { RETRIEVAL, clientOf, closeAll, start } from "../fixtures/grpc-client.ts";
import type { Running, ServingClient } from "../fixtures/grpc-client.ts";

const authority = testAuthority();
const issued = () => authority.issue({ names: ["127.0.0.1"] });

afterEach(closeAll);

/** A client that believes the authority, and shows a certificate where one is given. */
function secureClient({ port }: Running, shown?: { cert: string; key: string }) {
  const [key, cert] =
    shown === undefined ? [] : [shown.key, shown.cert].map((each) => Buffer.from(each));
  const { verify } = peerNamed("127.0.0.1");
  const secure = credentials.createSsl(Buffer.from(authority.cert), key, cert, verify);
  return clientOf("PredictionService", port, secure);
}

const ask = (client: ServingClient): Promise<unknown> =>
  client.call("Predict", RETRIEVAL).then(
    () => "answered",
    (error: unknown) => (error as { code: number }).code,
  );

describe("the gRPC port with TLS", () => {
  test("answers, and goes on when its certificate is replaced", async () => {
    const source = new ReplacedTls(tlsOf(issued()));
    const running = await start({}, undefined, { tls: source });
    const client = secureClient(running);

    const answers = [await ask(client)];
    for (let turn = 0; turn < 3; turn += 1) {
      source.replace(tlsOf(issued()));
      answers.push(await ask(client), await ask(secureClient(running)));
    }

    expect(new Set(answers)).toEqual(new Set(["answered"]));
    expect(await ask(running.prediction)).toBe(14);
  });

  test("with authorities for clients answers those who show a certificate alone", async () => {
    const running = await start({}, undefined, {
      tls: new ReplacedTls(tlsOf(issued(), authority.cert)),
    });

    expect(await ask(secureClient(running))).toBe(14);
    expect(await ask(secureClient(running, testAuthority().issue()))).toBe(14);
    expect(await ask(secureClient(running, authority.issue()))).toBe("answered");
    expect(running.gaveUp).toContain("connection handshake");
  });

  test("cuts a connection whose handshake does not end", async () => {
    const tls = new ReplacedTls(tlsOf(issued()));
    const running = await start({ handshakeTimeoutMs: 200 }, undefined, { tls });
    const silent = net
      .connect(running.port, "127.0.0.1")
      .on("error", () => undefined)
      .resume();

    await once(silent, "close");

    expect(running.gaveUp).toEqual(["connection handshake"]);
    expect(await ask(secureClient(running))).toBe("answered");
  });
});
