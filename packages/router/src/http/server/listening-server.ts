// The server of Node beneath fastify: HTTP, or HTTPS whose certificates may be replaced while it listens.

import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import { createHttpsServer } from "@winnow/cluster";
import type { TlsSource } from "@winnow/cluster";
import type { HttpSettings } from "../http-settings.ts";

/** Makes a server; it does not listen yet. `onFailure` hears of handshakes that fail. */
export function listeningServer(
  handler: RequestListener,
  settings: HttpSettings,
  { tls, onFailure }: { readonly tls: TlsSource | undefined; readonly onFailure: () => void },
): Server {
  const limits = {
    maxHeaderSize: settings.headerBytesMax,
    headersTimeout: settings.headersTimeoutMs,
    connectionsCheckingInterval: settings.connectionCheckMs,
    keepAliveTimeout: settings.keepAliveTimeoutMs,
    // Bodies have limits of their own (`request-body.ts`); Node's would answer a second time.
    requestTimeout: 0,
  };
  if (tls === undefined) return createServer(limits, handler);
  const { handshakeTimeoutMs: handshakeTimeout } = settings;
  return createHttpsServer({ ...limits, handshakeTimeout }, handler, { tls, onFailure });
}
