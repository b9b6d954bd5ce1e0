// A small HTTP server of the worker, on a port of its own: metrics for Prometheus, and the probes as URLs, so
// that monitoring needs no gRPC and clients see no metrics. The event loop that serves the streams answers
// here too, so any answer proves that it is running.
//
//   GET /metrics            the page
//   GET /healthz, /livez    200: the event loop runs
//   GET /readyz             200 when the first assignment is loaded or refused; 503 in drain
//
// With certificates the port speaks HTTPS alone. Where clients must show a certificate, probes are answered
// without one, because a kubelet has none.

import { createServer } from "node:http";
import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

import {
  TooManyRequests,
  assertCertified,
  authorizationOf,
  createHttpsServer,
  keepRoom,
} from "@winnow/cluster";
import type { KeyGuard, TlsSource } from "@winnow/cluster";
import { WinnowError, hostPort, httpStatusOf, toWinnowError } from "@winnow/core";

/** Sources of the pages that are served. */
export interface MetricsServerParts {
  readonly metrics: { text(): Promise<string> };
  readonly worker: { readonly isReady: boolean };
  /** Only who presents a key with the role for states is shown the metrics. Default: everybody is. */
  readonly keys?: KeyGuard | undefined;
  /**
   * Certificates of the port. If they name client authorities, only clients with a certificate of theirs are
   * shown the metrics. Default: plain HTTP.
   */
  readonly tls?: TlsSource | undefined;
}

/** A listening server. */
export interface MetricsServer {
  /** The port that the server listens on. */
  readonly port: number;
  /** Stops at once. */
  close(): Promise<void>;
}

/** Connections held at once; scrapers and probes need a few. One without a request is cut for a new one. */
const CONNECTIONS_MAX = 64;
const HEADER_BYTES_MAX = 8192;
const REQUEST_TIMEOUT_MS = 5000;
const TIMEOUT_CHECK_MS = 1000;
/** A connection on which nothing moves for this long is cut: that of a client which does not read its answer, too. */
const STALL_MS = 15_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Listens; port 0 takes any free one. @throws WinnowError UNAVAILABLE when the port is taken */
export async function listenForMetrics(
  parts: MetricsServerParts,
  address: { readonly host: string; readonly port: number },
): Promise<MetricsServer> {
  const limits = {
    maxHeaderSize: HEADER_BYTES_MAX,
    headersTimeout: REQUEST_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    connectionsCheckingInterval: TIMEOUT_CHECK_MS,
  };
  const handler: RequestListener = (request, response) => void answer(parts, request, response); // Never rejects.
  const { tls } = parts;
  const server: Server =
    tls === undefined
      ? createServer(limits, handler)
      : createHttpsServer({ ...limits, handshakeTimeout: HANDSHAKE_TIMEOUT_MS }, handler, { tls });
  server.setTimeout(STALL_MS);
  keepRoom(server, CONNECTIONS_MAX);
  await listening(server, address);
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listening(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const message = `Cannot listen for metrics on ${hostPort(host, port)} (${cause.code}); choose another with --metrics-port`;
      reject(new WinnowError("UNAVAILABLE", message, { cause }));
    });
    server.listen(port, host, resolve);
  });
}

const PLAIN_TEXT = "text/plain; charset=utf-8";
const PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8";

async function answer(
  parts: MetricsServerParts,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const isRead = request.method === "GET" || request.method === "HEAD";
  const page = isRead
    ? await pageOf(parts, request)
    : { status: 405, body: "Only GET and HEAD are answered here\n" };
  const { status, body, type = PLAIN_TEXT, headers } = page;
  const length = Buffer.byteLength(body);
  response.writeHead(status, { ...headers, "content-type": type, "content-length": length });
  response.end(request.method === "HEAD" ? undefined : body);
}

interface Page {
  readonly status: number;
  readonly body: string;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

async function pageOf(parts: MetricsServerParts, request: IncomingMessage): Promise<Page> {
  const { metrics, worker } = parts;
  const { url = "" } = request;
  const [path = ""] = url.split("?", 1);
  switch (path) {
    case "/metrics":
      return refusalOf(parts, request) ?? metricsPage(metrics);
    case "/healthz":
    case "/livez":
      return { status: 200, body: "ok\n" };
    case "/readyz":
      return worker.isReady
        ? { status: 200, body: "ready\n" }
        : { status: 503, body: "not ready: loading the first assignment, or draining\n" };
    default:
      return { status: 404, body: "Here are /metrics, /healthz, /livez and /readyz\n" };
  }
}

function refusalOf({ keys, tls }: MetricsServerParts, request: IncomingMessage): Page | undefined {
  try {
    assertCertified(tls, request.socket);
    keys?.admit(authorizationOf(request), ["status"]).release();
    return undefined;
  } catch (error) {
    const { code, message } = toWinnowError(error);
    return { status: httpStatusOf(code), body: `${message}\n`, headers: headersOfRefusal(error) };
  }
}

/** The headers that a router's refusals have, too. */
function headersOfRefusal(error: unknown): Readonly<Record<string, string>> {
  if (error instanceof TooManyRequests) return { "retry-after": String(error.retryAfterSeconds) };
  return toWinnowError(error).code === "UNAUTHENTICATED" ? { "www-authenticate": "Bearer" } : {};
}

async function metricsPage(metrics: MetricsServerParts["metrics"]): Promise<Page> {
  try {
    return { status: 200, body: await metrics.text(), type: PROMETHEUS_TEXT };
  } catch (error) {
    return { status: 500, body: `${toWinnowError(error).message}\n` };
  }
}
