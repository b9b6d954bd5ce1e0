// The server of Node beneath fastify: HTTP, or HTTPS whose certificates may be replaced while it listens.
// A client's certificate is asked for, not demanded, so that probes, which have none, are answered:
// `isCertified` tells who showed a good one. One that is shown and not good ends the handshake.

import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { Socket } from "node:net";
import { secureOptions } from "@winnow/cluster";
import type { TlsSource } from "@winnow/cluster";
import type { HttpSettings } from "../http-settings.ts";

/** Makes a server; it does not listen yet. `onFailure` hears of handshakes that fail. */
export function listeningServer(
  handler: RequestListener,
  settings: HttpSettings,
  secure: { readonly tls: TlsSource | undefined; readonly onFailure: () => void },
): Server {
  const { tls, onFailure } = secure;
  const limits = {
    maxHeaderSize: settings.headerBytesMax,
    headersTimeout: settings.headersTimeoutMs,
    connectionsCheckingInterval: settings.connectionCheckMs,
    keepAliveTimeout: settings.keepAliveTimeoutMs,
    // Bodies have limits of their own (`request-body.ts`); Node's would answer a second time.
    requestTimeout: 0,
  };
  if (tls === undefined) return createServer(limits, handler);
  const server = createSecureServer(
    {
      ...limits,
      ...secureOptions(tls.material),
      handshakeTimeout: settings.handshakeTimeoutMs,
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
    onFailure();
  });
  server.prependListener("secureConnection", (socket) => {
    // Who resumes a session of TLS 1.3 counts as authorized even if the session has no certificate.
    const isShown = Object.keys(socket.getPeerCertificate()).length > 0;
    if (isShown && socket.authorized) certified.add(socket);
    if (!isShown || socket.authorized) return;
    socket.destroy();
    onFailure();
  });
  return server;
}

const certified = new WeakSet<Socket>();

/** Whether the client at the other end has shown a certificate that is believed. */
export function isCertified(socket: Socket): boolean {
  return certified.has(socket);
}
