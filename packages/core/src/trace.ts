// Traces of requests: the place of a span in its trace, as W3C's traceparent and Winnow's frames carry it,
// and the interface by which code that works on a request reports its stages. The process chooses the tracer;
// without one there are no spans, and `span?.child(…)` does nothing.
//
//   client ─ traceparent ─▶ request ─┬─▶ stages of the router ─▶ a question to a worker ─ frame ─▶ its queue, its scan
//                                    └─▶ …

/** The place of a span in its trace. Only recorded spans have one. */
export interface TraceContext {
  /** 32 hexadecimal digits, lower case, not all zero. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Whether the client that began the trace records it. */
  readonly isSampled: boolean;
}

/** What is recorded of a span. */
export type TraceAttributes = Readonly<Record<string, string | number | boolean>>;

/** An interval of time that is recorded; times are those of the process's clock. */
export interface TraceSpan {
  readonly context: TraceContext;
  /** Begins a span within this one. */
  child(name: string, startMs: number, attributes?: TraceAttributes): TraceSpan;
  /** Ends the span; `fault`: why it failed. */
  end(endMs: number, attributes?: TraceAttributes, fault?: string): void;
}

/** The beginning of a span. */
export interface SpanStart {
  readonly name: string;
  readonly startMs: number;
  /** The span in another process to which this one belongs. */
  readonly parent?: TraceContext | undefined;
  readonly attributes?: TraceAttributes;
}

/** Records spans; must neither throw nor wait. */
export interface Tracer {
  /** Begins a span for work that another process asked for; `undefined`: it is not sampled. */
  begin(start: SpanStart): TraceSpan | undefined;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;
const SAMPLED = 1;

/**
 * Reads a `traceparent` header by W3C's rules: a higher version may have further fields, ff is invalid, and
 * an invalid header counts as absent.
 */
export function parseTraceparent(header: unknown): TraceContext | undefined {
  const found = typeof header === "string" ? TRACEPARENT.exec(header) : null;
  if (found === null) return undefined;
  const [, version = "", traceId = "", spanId = "", flags = "", rest] = found;
  if (version === "ff" || (version === "00" && rest !== undefined)) return undefined;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & SAMPLED) !== 0 };
}

/** Bytes of a context in a frame: the ids, then the flags. */
const TRACE_CONTEXT_BYTES = 25;
const SPAN_ID_AT = 16;
const FLAGS_AT = 24;

/** A context as a frame carries it. */
export function traceContextBytes({ traceId, spanId, isSampled }: TraceContext): Uint8Array {
  const bytes = Buffer.from(`${traceId}${spanId}00`, "hex");
  bytes[FLAGS_AT] = isSampled ? SAMPLED : 0;
  return bytes;
}

/**
 * Reads the context of a frame; `undefined` for bytes that a later release may have written in another form.
 * Nothing depends on it.
 */
export function traceContextOf(bytes: Uint8Array): TraceContext | undefined {
  if (bytes.length !== TRACE_CONTEXT_BYTES) return undefined;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("hex");
  const traceId = text.slice(0, 2 * SPAN_ID_AT);
  const spanId = text.slice(2 * SPAN_ID_AT, 2 * FLAGS_AT);
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (bytes[FLAGS_AT]! & SAMPLED) !== 0 };
}
