// An HTTPS server whose certificates can be replaced while it listens. If there are authorities, a client is
// asked for a certificate but need not have one, so that probes, which have none, are answered;
// `assertCertified` checks whether a valid one was shown. An invalid certificate ends the handshake.

import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { Server, ServerOptions } from "node:https";
import type { Socket } from "node:net";
import { WinnowError } from "@winnow/core";
import type { TlsSource } from "./tls-files.ts";
import { secureOptions } from "./tls-material.ts";

/** The TLS settings of a server. */
export interface HttpsParts {
  readonly tls: TlsSource;
  /** Called for each failed handshake. */
  readonly onFailure?: () => void;
}

/** Makes a server, which does not listen yet. */
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
  // Called before Node's own listener, which would write an HTTP answer.
  server.prependListener("tlsClientError", (_, socket) => {
    socket.destroy();
    onFailure?.();
  });
  server.prependListener("secureConnection", (socket) => {
    // A client that resumes a TLS 1.3 session counts as authorized even if the session has no certificate.
    const isShown = Object.keys(socket.getPeerCertificate()).length > 0;
    if (isShown && socket.authorized) {
      certified.add(socket);
      socket.once("close", () => certified.delete(socket));
    }
    if (!isShown || socket.authorized) return;
    socket.destroy();
    onFailure?.();
  });
  return server;
}

/** Connections whose clients have shown a valid certificate. */
const certified = new WeakSet<Socket>();

/** Refuses a client without a valid certificate, if there are authorities. @throws WinnowError UNAUTHENTICATED */
export function assertCertified(tls: TlsSource | undefined, socket: Socket): void {
  if (tls?.material.ca === undefined || certified.has(socket)) return;
  const text = "A client certificate is needed here, and none was sent";
  throw new WinnowError("UNAUTHENTICATED", text);
}
