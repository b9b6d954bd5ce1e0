// Every limit and wait of the HTTP side, with its unit. Options (all optional) come in, settings (all
// present) go out; `resolveHttpOptions` is the one place of defaults. What one request may ask is limited by
// the predictor (`request-limits.ts`).

import { descriptorLimit, fittingConnections, fittingMemory, memoryLimitBytes } from "@winnow/core";

/** What an operator may set. Names end in their unit. */
export type HttpOptions = Partial<HttpSettings>;

/** The settings with all defaults filled in. */
export interface HttpSettings {
  /**
   * Milliseconds until a predict request is given up with 504; 0: one day. TensorFlow
   * Serving's `--rest_api_timeout_in_ms`. Default 30,000.
   */
  readonly requestTimeoutMs: number;
  /** Predict requests worked on at once; more get 503. Higher queues more before refusing. Default 2048. */
  readonly inFlightMax: number;
  /** Seconds a refused client is asked to wait. Default 1. */
  readonly retryAfterSeconds: number;
  /**
   * Bytes of one body, after unpacking; longer bodies get 413. Default 64 MiB, at most a sixteenth of the
   * memory.
   */
  readonly bodyBytesMax: number;
  /**
   * Bytes of all bodies that have arrived and are not answered; more get 503. Default 512 MiB, at most an
   * eighth of the memory.
   */
  readonly bodyBytesInFlightMax: number;
  /**
   * Of these bytes, how many are reserved for bodies of up to `smallBodyBytes`. Default 64 MiB, at most a 64th
   * of the memory.
   */
  readonly bodyReserveBytes: number;
  /** Bytes up to which a body is small: the event loop reads it at once, without a thread. Default 256 KiB. */
  readonly smallBodyBytes: number;
  /**
   * Threads that read bodies which are not small; they are started with the first such body. All but one may
   * be taken by bodies above 4 MiB. More read more bodies at once, and use more processors. Default 2.
   */
  readonly parserThreadsMax: number;
  /** Large bodies that wait for a thread; more get 503. Default 256. */
  readonly parserQueueMax: number;
  /**
   * Open connections. Beyond this number, the one that has been without a request for longest is closed for a
   * new one; if all have requests, the new one is closed. Default 10,000, at most half of the descriptors that clients may
   * have.
   */
  readonly connectionsMax: number;
  /** Bytes of a request's line and headers; more get 431. Default 16 KiB. */
  readonly headerBytesMax: number;
  /** Milliseconds for the TLS handshake; then the connection is cut. Default 10,000. */
  readonly handshakeTimeoutMs: number;
  /** Milliseconds for all headers of a request; then 408. Default 10,000. */
  readonly headersTimeoutMs: number;
  /** Milliseconds for a whole body; then 408. Default 30,000. */
  readonly bodyTimeoutMs: number;
  /** Milliseconds within which a body must bring another 64 KiB, or its end; then 408. Default 10,000. */
  readonly bodyStallMs: number;
  /**
   * Milliseconds for which the rest of a body is read and dropped once its request is refused; then the
   * connection is cut. Default 2,000: a client that is still sending gets to read why it was refused.
   */
  readonly discardMs: number;
  /**
   * Bytes of all answers that clients have not read; more get 503. Default 512 MiB, at most an eighth of the
   * memory.
   */
  readonly answerBytesInFlightMax: number;
  /** Milliseconds within which a whole answer must be read; then the connection is cut. Default 60,000. */
  readonly answerTimeoutMs: number;
  /** Milliseconds within which a client must read another 64 KiB, or the rest; then it is cut off. Default 10,000. */
  readonly answerStallMs: number;
  /** Milliseconds without memory for a small body until `/readyz` says 503. Default 10,000. */
  readonly unreadyAfterMs: number;
  /** Milliseconds between two checks for connections, bodies and answers that are too slow. Default 1,000. */
  readonly connectionCheckMs: number;
  /** Milliseconds for which an idle connection is kept; more than any load balancer's own timeout. Default 75,000. */
  readonly keepAliveTimeoutMs: number;
  /** Milliseconds a drain may take before connections are cut. Default 30,000. */
  readonly drainTimeoutMs: number;
  /** Milliseconds of a drain after which connections without a request are closed. Default 2,000. */
  readonly drainIdleMs: number;
  /** Milliseconds between two checks of the connections that remain in a drain. Default 20. */
  readonly drainPollMs: number;
  /** CORS headers on every answer: `--rest_api_enable_cors_support`. Default false. */
  readonly cors: boolean;
  /**
   * Whether paths that TensorFlow Serving does not have are answered: `/healthz`, `/livez`, `/readyz`,
   * `/openapi.json`, all of `/v2`, the list at `/v1/models` and the report at `/v1/cluster`. Default true.
   */
  readonly ownPaths: boolean;
  /** Path of the metrics page, as TensorFlow Serving's monitoring configuration names it. */
  readonly metricsPath: string;
}

const MEBIBYTE = 1024 * 1024;

const DEFAULTS: HttpSettings = {
  requestTimeoutMs: 30_000,
  inFlightMax: 2048,
  retryAfterSeconds: 1,
  bodyBytesMax: 64 * MEBIBYTE,
  bodyBytesInFlightMax: 512 * MEBIBYTE,
  bodyReserveBytes: 64 * MEBIBYTE,
  smallBodyBytes: 256 * 1024,
  parserThreadsMax: 2,
  parserQueueMax: 256,
  connectionsMax: 10_000,
  headerBytesMax: 16 * 1024,
  handshakeTimeoutMs: 10_000,
  headersTimeoutMs: 10_000,
  bodyTimeoutMs: 30_000,
  bodyStallMs: 10_000,
  discardMs: 2000,
  answerBytesInFlightMax: 512 * MEBIBYTE,
  answerTimeoutMs: 60_000,
  answerStallMs: 10_000,
  unreadyAfterMs: 10_000,
  connectionCheckMs: 1000,
  keepAliveTimeoutMs: 75_000,
  drainTimeoutMs: 30_000,
  drainIdleMs: 2000,
  drainPollMs: 20,
  cors: false,
  ownPaths: true,
  metricsPath: "/monitoring/prometheus/metrics",
};

/** Fills in what the operator left out; `undefined` counts as left out. */
export function resolveHttpOptions(
  options: HttpOptions,
  memoryBytes: number = memoryLimitBytes(),
  descriptors: number = descriptorLimit(),
): HttpSettings {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const connectionsMax = fittingConnections(DEFAULTS.connectionsMax, 1 / 2, descriptors);
  const fitting = { ...fittingDefaults(memoryBytes), connectionsMax };
  return { ...DEFAULTS, ...fitting, ...Object.fromEntries(given) };
}

/** What is lower by default where there is less memory than 4 GiB, or than 1 GiB for one body. */
function fittingDefaults(memoryBytes: number): Partial<HttpSettings> {
  const { bodyBytesMax, bodyBytesInFlightMax, bodyReserveBytes, answerBytesInFlightMax } = DEFAULTS;
  return {
    bodyBytesMax: fittingMemory(bodyBytesMax, 1 / 16, memoryBytes),
    bodyBytesInFlightMax: fittingMemory(bodyBytesInFlightMax, 1 / 8, memoryBytes),
    bodyReserveBytes: fittingMemory(bodyReserveBytes, 1 / 64, memoryBytes),
    answerBytesInFlightMax: fittingMemory(answerBytesInFlightMax, 1 / 8, memoryBytes),
  };
}
