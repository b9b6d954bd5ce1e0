// A server of HTTPS whose certificates may be replaced while it listens. A client's certificate is asked for
// where there are authorities, not demanded, so that probes, which have none, are answered: `assertCertified`
// tells who showed a good one. One that is shown and not good ends the handshake.

import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { Server, ServerOptions } from "node:https";
import type { Socket } from "node:net";
import { WinnowError } from "@winnow/core";
import type { TlsSource } from "./tls-files.ts";
import { secureOptions } from "./tls-material.ts";

/** What a server speaks TLS with. */
export interface HttpsParts {
  readonly tls: TlsSource;
  /** Hears of handshakes that fail. */
  readonly onFailure?: () => void;
}

/** Makes a server; it does not listen yet. */
export function createHttpsServer(
  options: ServerOptions,
  handler: RequestListener,
  { tls, onFailure }: HttpsParts,
): Server {
  const server = createServer(
    {
      ...options,
      ...secureOptions(tls.material),
      requestCert: tls.material.ca !== undefined,
      rejectUnauthorized: false,
    },
    handler,
  );
  const unfollow = tls.follow((material) => server.setSecureContext(secureOptions(material)));
  server.once("close", unfollow);
  // Before Node's own listener, which would have an answer of HTTP written.
  server.prependListener("tlsClientError", (_, socket) => {
    socket.destroy();
    onFailure?.();
  });
  server.prependListener("secureConnection", (socket) => {
    // Who resumes a session of TLS 1.3 counts as authorized even if the session has no certificate.
    const isShown = Object.keys(socket.getPeerCertificate()).length > 0;
    if (isShown && socket.authorized) certified.add(socket);
    if (!isShown || socket.authorized) return;
    socket.destroy();
    onFailure?.();
  });
  return server;
}

/** Clients that have shown a certificate that is believed. */
const certified = new WeakSet<Socket>();

/** @throws WinnowError UNAUTHENTICATED for a client without a certificate, where authorities are believed */
export function assertCertified(tls: TlsSource | undefined, socket: Socket): void {
  if (tls?.material.ca === undefined || certified.has(socket)) return;
  const text = "A client certificate is needed here, and none was sent";
  throw new WinnowError("UNAUTHENTICATED", text);
}
