// A collector of OpenTelemetry traces on the loopback: takes OTLP over HTTP as JSON, and keeps the spans. It
// can be slow or refuse.

import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A span as it was sent. */
export interface ReceivedSpan {
  readonly service: string;
  readonly name: string;
  /** OTLP's number: 1 internal, 2 server, 3 client. */
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly startMs: number;
  readonly endMs: number;
  readonly isError: boolean;
  readonly attributes: Readonly<Record<string, unknown>>;
}

interface SentSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status: { readonly code?: number };
  readonly attributes: readonly SentAttribute[];
}

interface SentAttribute {
  readonly key: string;
  readonly value: Readonly<Record<string, unknown>>;
}

interface SentTraces {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly SentAttribute[] };
    readonly scopeSpans: readonly { readonly spans: readonly SentSpan[] }[];
  }[];
}

const NS_PER_MS = 1e6;
const STATUS_ERROR = 2;

/** Takes spans at `http://127.0.0.1:port/v1/traces`. */
export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** What requests are answered with. */
  status = 200;
  /** The message with which it answers. */
  answer = "{}";
  requests = 0;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        this.requests += 1;
        const isTaken = this.status === 200 && request.url === "/v1/traces";
        if (isTaken) this.#take(JSON.parse(Buffer.concat(chunks).toString("utf8")) as SentTraces);
        response.writeHead(request.url === "/v1/traces" ? this.status : 404);
        response.end(this.answer);
      });
    });
  }

  /** Listens on a free port. */
  static async listen(): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver();
    await new Promise<void>((resolve) => {
      receiver.#server.listen(0, "127.0.0.1", resolve);
    });
    return receiver;
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The spans of one trace. */
  ofTrace(traceId: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.traceId === traceId);
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #take({ resourceSpans }: SentTraces): void {
    for (const { resource, scopeSpans } of resourceSpans) {
      const service = String(attributesOf(resource.attributes)["service.name"]);
      for (const span of scopeSpans.flatMap(({ spans }) => spans)) {
        this.spans.push({
          service,
          name: span.name,
          kind: span.kind,
          traceId: span.traceId,
          spanId: span.spanId,
          parentSpanId: span.parentSpanId,
          startMs: Number(span.startTimeUnixNano) / NS_PER_MS,
          endMs: Number(span.endTimeUnixNano) / NS_PER_MS,
          isError: span.status.code === STATUS_ERROR,
          attributes: attributesOf(span.attributes),
        });
      }
    }
  }
}

function attributesOf(sent: readonly SentAttribute[]): Record<string, unknown> {
  return Object.fromEntries(sent.map(({ key, value }) => [key, Object.values(value)[0]]));
}
