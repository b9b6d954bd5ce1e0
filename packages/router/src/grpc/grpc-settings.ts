// Every limit and wait of the gRPC side, with its unit. Options outside are all optional; settings
// inside are complete; `resolveGrpcOptions` is the one place of defaults.

/** What an operator may set. Names end in their unit. */
export type GrpcOptions = Partial<GrpcSettings>;

/** All of it, decided. */
export interface GrpcSettings {
  /**
   * Milliseconds until a call is given up with DEADLINE_EXCEEDED; a client's own deadline counts if
   * it is shorter. 0 leaves it to the client. Default 30,000.
   */
  readonly requestTimeoutMs: number;
  /**
   * Calls open at once, from their first byte to their last; more get UNAVAILABLE. With
   * `messageBytesMax` it bounds the memory that requests can take. Default 512.
   */
  readonly callsMax: number;
  /** Bytes of all requests being worked on; more get UNAVAILABLE. Default 512 MiB. */
  readonly requestBytesInFlightMax: number;
  /**
   * Bytes of one message, request or answer, unpacked; more get RESOURCE_EXHAUSTED. TensorFlow
   * Serving takes 2 GiB. Default 64 MiB.
   */
  readonly messageBytesMax: number;
  /**
   * Bytes of the tensors of one request as they are computed with. A message of ten bytes can
   * declare a shape of terabytes and one value to repeat. Default 64 MiB.
   */
  readonly tensorBytesMax: number;
  /** Names in `output_filter` or `metadata_field`, and inputs, of one request. Default 1,024. */
  readonly namesMax: number;
  /** Milliseconds of silence on a connection until it is asked whether it lives. Default 60,000. */
  readonly keepaliveMs: number;
  /** Milliseconds it has for its answer. Default 20,000. */
  readonly keepaliveTimeoutMs: number;
  /** Milliseconds between looks whether the router has become ready, for health. Default 200. */
  readonly healthLookMs: number;
  /** Milliseconds a drain may take before calls are cut. Default 30,000. */
  readonly drainTimeoutMs: number;
  /** Milliseconds connections have to close after the last call of a drain. Default 500. */
  readonly drainIdleMs: number;
}

const MEBIBYTE = 1024 * 1024;

const DEFAULTS: GrpcSettings = {
  requestTimeoutMs: 30_000,
  callsMax: 512,
  requestBytesInFlightMax: 512 * MEBIBYTE,
  messageBytesMax: 64 * MEBIBYTE,
  tensorBytesMax: 64 * MEBIBYTE,
  namesMax: 1024,
  keepaliveMs: 60_000,
  keepaliveTimeoutMs: 20_000,
  healthLookMs: 200,
  drainTimeoutMs: 30_000,
  drainIdleMs: 500,
};

/** Fills in what the operator left out; `undefined` counts as left out. */
export function resolveGrpcOptions(options: GrpcOptions): GrpcSettings {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  return { ...DEFAULTS, ...Object.fromEntries(given) };
}
