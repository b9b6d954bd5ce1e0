// The one error class of Winnow, for faults of the caller or the environment, with a gRPC code. A
// bug is a RangeError or an assertion, never this class. HTTP statuses follow TensorFlow Serving's
// own table (tensorflow_serving/model_servers/http_server.cc, ToHTTPStatusCode).

/** gRPC status codes by name, the vocabulary of every error that crosses a package border. */
export type ErrorCode =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

interface CodeNumbers {
  readonly grpc: number;
  readonly http: number;
}

const NUMBERS: Readonly<Record<ErrorCode, CodeNumbers>> = {
  CANCELLED: { grpc: 1, http: 499 },
  UNKNOWN: { grpc: 2, http: 500 },
  INVALID_ARGUMENT: { grpc: 3, http: 400 },
  DEADLINE_EXCEEDED: { grpc: 4, http: 504 },
  NOT_FOUND: { grpc: 5, http: 404 },
  ALREADY_EXISTS: { grpc: 6, http: 409 },
  PERMISSION_DENIED: { grpc: 7, http: 403 },
  RESOURCE_EXHAUSTED: { grpc: 8, http: 429 },
  FAILED_PRECONDITION: { grpc: 9, http: 400 },
  ABORTED: { grpc: 10, http: 409 },
  OUT_OF_RANGE: { grpc: 11, http: 400 },
  UNIMPLEMENTED: { grpc: 12, http: 501 },
  INTERNAL: { grpc: 13, http: 500 },
  UNAVAILABLE: { grpc: 14, http: 503 },
  DATA_LOSS: { grpc: 15, http: 500 },
  UNAUTHENTICATED: { grpc: 16, http: 401 },
};

const CODE_OF_GRPC_NUMBER: ReadonlyMap<number, ErrorCode> = new Map(
  Object.entries(NUMBERS).map(([code, numbers]) => [numbers.grpc, code as ErrorCode]),
);

/** An expected failure: says what could not be done, with which value, and what would work. */
export class WinnowError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = "WinnowError";
    this.code = code;
  }
}

/**
 * Makes an error for what is refused a thousand times a second: without a stack, since V8 takes a tenth of a refusal's
 * time to collect one that nobody reads.
 */
export function withoutStack<E extends WinnowError>(make: () => E): E {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return make();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** The HTTP status TensorFlow Serving answers for this code. */
export function httpStatusOf(code: ErrorCode): number {
  return NUMBERS[code].http;
}

/** The number of this code in a gRPC status. */
export function grpcStatusOf(code: ErrorCode): number {
  return NUMBERS[code].grpc;
}

/** The code of a gRPC status number; `UNKNOWN` for undefined numbers. */
export function codeOfGrpcStatus(status: number): ErrorCode {
  return CODE_OF_GRPC_NUMBER.get(status) ?? "UNKNOWN";
}

/** A caught value as an error: a `WinnowError` as it is, anything else as `INTERNAL`. */
export function toWinnowError(error: unknown): WinnowError {
  if (error instanceof WinnowError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new WinnowError("INTERNAL", message, { cause: error });
}

const TEXT_CHARACTERS_MAX = 256;

/** Text that came from outside, cut to 256 characters so that no message grows with its input. */
export function excerpt(text: string): string {
  return text.length <= TEXT_CHARACTERS_MAX ? text : `${text.slice(0, TEXT_CHARACTERS_MAX)}…`;
}
