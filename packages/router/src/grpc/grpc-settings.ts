// Every limit and wait of the gRPC side, with its unit. Options (all optional) come in, settings (all
// present) go out; `resolveGrpcOptions` is the one place of defaults.

import { descriptorLimit, fittingConnections, fittingMemory, memoryLimitBytes } from "@winnow/core";

/** What an operator may set. Names end in their unit. */
export type GrpcOptions = Partial<GrpcSettings>;

/** The settings with all defaults filled in. */
export interface GrpcSettings {
  /**
   * Milliseconds until a call is given up with DEADLINE_EXCEEDED; a client's own deadline counts if
   * it is shorter. 0: one day. Default 30,000.
   */
  readonly requestTimeoutMs: number;
  /**
   * Open connections; beyond this number, the one that has been without a call for longest is closed. Default
   * 4,096, at most a quarter of the descriptors that clients may have.
   */
  readonly connectionsMax: number;
  /** Milliseconds for the TLS handshake; then the connection is cut. Default 10,000. */
  readonly handshakeTimeoutMs: number;
  /** Calls open at once, from their first byte to their last; more get UNAVAILABLE. Default 512. */
  readonly callsMax: number;
  /**
   * Calls of one connection open at once. Clients get the number (SETTINGS_MAX_CONCURRENT_STREAMS) and
   * queue further calls. Default 128.
   */
  readonly callsPerConnectionMax: number;
  /** Health watches open at once; more get UNAVAILABLE. Default 512. */
  readonly watchesMax: number;
  /** Health watches of one connection. A client needs one for each service. Default 4. */
  readonly watchesPerConnectionMax: number;
  /**
   * Bytes of all requests that are arriving or being worked on; more get UNAVAILABLE. Default 512 MiB, at most
   * an eighth of the memory.
   */
  readonly requestBytesInFlightMax: number;
  /**
   * Of these bytes, how many are reserved for requests of up to `smallBodyBytes`. Default 64 MiB, at most a
   * 64th of the memory.
   */
  readonly bodyReserveBytes: number;
  /** Bytes up to which a request is small. Default 256 KiB. */
  readonly smallBodyBytes: number;
  /** Milliseconds within which a request must bring another 64 KiB, or its end. Default 10,000. */
  readonly bodyStallMs: number;
  /** Milliseconds for a whole request to arrive; then DEADLINE_EXCEEDED. Default 30,000. */
  readonly bodyTimeoutMs: number;
  /**
   * Bytes of all answers that clients have not read; more get UNAVAILABLE. Default 512 MiB, at most an eighth
   * of the memory.
   */
  readonly answerBytesInFlightMax: number;
  /** Milliseconds within which a client must read another 64 KiB, or the rest; then it is cut off. Default 10,000. */
  readonly answerStallMs: number;
  /** Milliseconds within which a whole answer must be read; then the client is cut off. Default 60,000. */
  readonly answerTimeoutMs: number;
  /** Milliseconds between two checks for requests and answers that are too slow. Default 1,000. */
  readonly connectionCheckMs: number;
  /**
   * Bytes of one message, request or answer, unpacked; more get RESOURCE_EXHAUSTED. TensorFlow
   * Serving takes 2 GiB. Default 64 MiB, at most a sixteenth of the memory.
   */
  readonly messageBytesMax: number;
  /**
   * Bytes that the tensors of one request take in memory. A message of ten bytes can declare a shape of
   * terabytes and one value to repeat. Default 64 MiB, at most a sixteenth of the memory.
   */
  readonly tensorBytesMax: number;
  /**
   * Bytes that the tensors of all requests under way take in memory; requests that need more get UNAVAILABLE. Those of up
   * to 64 KiB do not count. Default 512 MiB, at most an eighth of the memory.
   */
  readonly tensorBytesInFlightMax: number;
  /** Names in `output_filter` or `metadata_field`, and inputs, of one request. Default 1,024. */
  readonly namesMax: number;
  /** Milliseconds of silence on a connection until its client is pinged. Default 60,000. */
  readonly keepaliveMs: number;
  /** Milliseconds within which the client must answer the ping. Default 20,000. */
  readonly keepaliveTimeoutMs: number;
  /** Milliseconds between two checks of whether the router is ready, for the health service. Default 200. */
  readonly healthLookMs: number;
  /** Milliseconds a drain may take before calls are cut. Default 30,000. */
  readonly drainTimeoutMs: number;
  /** Milliseconds that connections have to close after the last call of a drain. Default 500. */
  readonly drainIdleMs: number;
}

const MEBIBYTE = 1024 * 1024;

const DEFAULTS: GrpcSettings = {
  requestTimeoutMs: 30_000,
  connectionsMax: 4096,
  handshakeTimeoutMs: 10_000,
  callsMax: 512,
  callsPerConnectionMax: 128,
  watchesMax: 512,
  watchesPerConnectionMax: 4,
  requestBytesInFlightMax: 512 * MEBIBYTE,
  bodyReserveBytes: 64 * MEBIBYTE,
  smallBodyBytes: 256 * 1024,
  bodyStallMs: 10_000,
  bodyTimeoutMs: 30_000,
  answerBytesInFlightMax: 512 * MEBIBYTE,
  answerStallMs: 10_000,
  answerTimeoutMs: 60_000,
  connectionCheckMs: 1000,
  messageBytesMax: 64 * MEBIBYTE,
  tensorBytesMax: 64 * MEBIBYTE,
  tensorBytesInFlightMax: 512 * MEBIBYTE,
  namesMax: 1024,
  keepaliveMs: 60_000,
  keepaliveTimeoutMs: 20_000,
  healthLookMs: 200,
  drainTimeoutMs: 30_000,
  drainIdleMs: 500,
};

/** Fills in what the operator left out; `undefined` counts as left out. */
export function resolveGrpcOptions(
  options: GrpcOptions,
  memoryBytes: number = memoryLimitBytes(),
  descriptors: number = descriptorLimit(),
): GrpcSettings {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const connectionsMax = fittingConnections(DEFAULTS.connectionsMax, 1 / 4, descriptors);
  const fitting = { ...fittingDefaults(memoryBytes), connectionsMax };
  return { ...DEFAULTS, ...fitting, ...Object.fromEntries(given) };
}

/** What is lower by default where there is less memory than 4 GiB, or than 1 GiB for one message. */
function fittingDefaults(memoryBytes: number): Partial<GrpcSettings> {
  const { messageBytesMax, tensorBytesMax, bodyReserveBytes } = DEFAULTS;
  const { requestBytesInFlightMax, answerBytesInFlightMax, tensorBytesInFlightMax } = DEFAULTS;
  return {
    messageBytesMax: fittingMemory(messageBytesMax, 1 / 16, memoryBytes),
    tensorBytesMax: fittingMemory(tensorBytesMax, 1 / 16, memoryBytes),
    tensorBytesInFlightMax: fittingMemory(tensorBytesInFlightMax, 1 / 8, memoryBytes),
    requestBytesInFlightMax: fittingMemory(requestBytesInFlightMax, 1 / 8, memoryBytes),
    bodyReserveBytes: fittingMemory(bodyReserveBytes, 1 / 64, memoryBytes),
    answerBytesInFlightMax: fittingMemory(answerBytesInFlightMax, 1 / 8, memoryBytes),
  };
}
