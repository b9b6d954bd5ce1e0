// Traces of requests: where a span stands in its trace, as W3C's traceparent and our frames carry it, and
// what code that works on a request tells of its stages. Who records spans is chosen by the process that
// starts; without a tracer there is no span, and code that asks `span?.child(…)` makes nothing.
//
//   client ─ traceparent ─▶ request ─┬─▶ stages of the router ─▶ a question to a worker ─ frame ─▶ its queue, its scan
//                                    └─▶ …

/** Where a span stands in its trace. Only spans that are recorded are told of. */
export interface TraceContext {
  /** 32 hexadecimal digits, lower case, not all zero. */
  readonly traceId: string;
  /** 16 of them. */
  readonly spanId: string;
  /** Whether whoever began the trace records it. */
  readonly isSampled: boolean;
}

/** What is told of a span. */
export type TraceAttributes = Readonly<Record<string, string | number | boolean>>;

/** Something that takes time, as it is recorded; times are those of the process's clock. */
export interface TraceSpan {
  readonly context: TraceContext;
  /** A part of it. */
  child(name: string, startMs: number, attributes?: TraceAttributes): TraceSpan;
  /** Its end; `fault`: why it failed. */
  end(endMs: number, attributes?: TraceAttributes, fault?: string): void;
}

/** What a span begins with. */
export interface SpanStart {
  readonly name: string;
  readonly startMs: number;
  /** The span in another process that this one belongs to. */
  readonly parent?: TraceContext | undefined;
  readonly attributes?: TraceAttributes;
}

/** Records spans; must not throw, nor wait. */
export interface Tracer {
  /** A span of work that another process asks for; `undefined`: it is not sampled. */
  begin(start: SpanStart): TraceSpan | undefined;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;
const SAMPLED = 1;

/**
 * What a header `traceparent` says, by W3C's rules: a version above ours may have more behind, ff is none, and
 * what cannot be read is as if it were not there.
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

/** What a frame says; `undefined` for what a later release may say in another way: nothing depends on it. */
export function traceContextOf(bytes: Uint8Array): TraceContext | undefined {
  if (bytes.length !== TRACE_CONTEXT_BYTES) return undefined;
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("hex");
  const traceId = text.slice(0, 2 * SPAN_ID_AT);
  const spanId = text.slice(2 * SPAN_ID_AT, 2 * FLAGS_AT);
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (bytes[FLAGS_AT]! & SAMPLED) !== 0 };
}
