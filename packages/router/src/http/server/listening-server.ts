// Node's server below fastify: HTTP, or HTTPS with certificates that can be replaced while it listens.

import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import { createHttpsServer } from "@winnow/cluster";
import type { TlsSource } from "@winnow/cluster";
import type { HttpSettings } from "../http-settings.ts";
import { HEADERS_MAX } from "./request-host.ts";

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
    // `assertOneHost` says what is missing.
    requireHostHeader: false,
  };
  // Of more, Node would leave those beyond out; one more shows `assertOneHost` that there are more.
  const headers = { maxHeadersCount: HEADERS_MAX + 1 };
  if (tls === undefined) {
    // A client may end its side of a connection and wait for its answer, as `nc -N` does; without this Node ends both.
    return Object.assign(createServer(limits, handler), headers, { httpAllowHalfOpen: true });
  }
  const { handshakeTimeoutMs: handshakeTimeout } = settings;
  const server = createHttpsServer({ ...limits, handshakeTimeout }, handler, { tls, onFailure });
  return Object.assign(server, headers);
}
