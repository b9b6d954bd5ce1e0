// Node's server below fastify: HTTP, or HTTPS with certificates that can be replaced while it listens.

import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import { createHttpsServer } from "@winnow/cluster";
import type { TlsSource } from "@winnow/cluster";
import type { HttpSettings } from "../http-settings.ts";

/** Makes a server, which does not listen yet. `onFailure` is called for failed handshakes. */
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
    // Bodies have their own limits (`request-body.ts`); Node's timeout would answer a second time.
    requestTimeout: 0,
  };
  if (tls === undefined) return createServer(limits, handler);
  const { handshakeTimeoutMs: handshakeTimeout } = settings;
  return createHttpsServer({ ...limits, handshakeTimeout }, handler, { tls, onFailure });
}
