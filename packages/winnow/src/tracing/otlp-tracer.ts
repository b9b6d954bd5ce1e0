// OpenTelemetry spans, sent to a collector over HTTP. The SDK is loaded only if traces are sent. A collector
// that is away costs requests nothing: spans wait in a bounded queue, further ones are dropped, and the log
// has a line when the collector goes away and one when it comes back.

import { excerpt } from "@winnow/core";
import type { Environment, SpanStart, TraceSpan, Tracer } from "@winnow/core";
import type * as OpenTelemetryApi from "@opentelemetry/api";
import type { Span, Tracer as OpenTelemetryTracer } from "@opentelemetry/api";
import type * as OpenTelemetrySdk from "@opentelemetry/sdk-trace";
import type { ReadableSpan, Sampler, SpanExporter } from "@opentelemetry/sdk-trace";
import { wallMs } from "../process/process-settings.ts";
import type { TracingSettings } from "./tracing-settings.ts";

/** The service that records. */
export interface TracedService {
  /** `winnow-router`, `winnow-worker`, unless OTEL_SERVICE_NAME says otherwise. */
  readonly name: string;
  readonly version: string;
  /** Distinguishes several processes of a service. */
  readonly instance: string;
}

/** A tracer that can be ended. */
export interface ProcessTracer extends Tracer {
  /** Sends the waiting spans, for at most a second. */
  close(): Promise<void>;
}

const CLOSE_MS = 1000;
const silent = (): void => undefined;
const SILENT = { error: silent, warn: silent, info: silent, debug: silent, verbose: silent };
/** Ms between two lines of what the SDK warns of. */
const WARNING_MS = 60_000;

/** Opens a tracer. */
export async function openOtlpTracer(
  settings: TracingSettings,
  service: TracedService,
  environment: Pick<Environment, "clock" | "log">,
): Promise<ProcessTracer> {
  const [api, sdk, resources, { OTLPTraceExporter }] = await Promise.all([
    import("@opentelemetry/api"),
    import("@opentelemetry/sdk-trace"),
    import("@opentelemetry/resources"),
    import("@opentelemetry/exporter-trace-otlp-http"),
  ]);
  const exporter = new OTLPTraceExporter(settings.url === undefined ? {} : { url: settings.url });
  const own = resources.resourceFromAttributes({
    "service.name": settings.serviceName ?? service.name,
    "service.version": service.version,
    "service.instance.id": service.instance,
  });
  // OTEL_RESOURCE_ATTRIBUTES has precedence, except for the name.
  const named = resources.detectResources({ detectors: [resources.envDetector] });
  const provider = new sdk.TracerProvider({
    resource: own.merge(named),
    sampler: samplerOf(sdk, settings),
    spanProcessors: [
      new sdk.BatchSpanProcessor({
        exporter: toldOnce(exporter, settings, { ...environment, diag: api.diag }),
        maxQueueSize: settings.queueSpansMax,
        maxExportBatchSize: Math.min(settings.batchSpansMax, settings.queueSpansMax),
        scheduledDelayMillis: settings.sendIntervalMs,
        exportTimeoutMillis: settings.sendTimeoutMs,
      }),
    ],
  });
  const recorder = new SpanRecorder(
    api,
    provider.getTracer("winnow", service.version),
    environment,
  );
  environment.log.info("traces are sent", { to: settings.target, sampler: settings.sampler });
  return {
    begin: (start) => recorder.begin(start),
    close: async () => {
      const late = new Promise<void>((resolve) => {
        environment.clock.setTimer(CLOSE_MS, resolve);
      });
      // Spans that the collector did not take are lost; the log says so.
      await Promise.race([provider.shutdown().catch(() => undefined), late]);
    },
  };
}

type Sdk = typeof OpenTelemetrySdk;
type Api = typeof OpenTelemetryApi;

function samplerOf(sdk: Sdk, { sampler, ratio }: TracingSettings): Sampler {
  const root = sampler.endsWith("always_on")
    ? new sdk.AlwaysOnSampler()
    : sampler.endsWith("always_off")
      ? new sdk.AlwaysOffSampler()
      : new sdk.TraceIdRatioBasedSampler(ratio);
  return sampler.startsWith("parentbased") ? new sdk.ParentBasedSampler({ root }) : root;
}

type ExportDone = Parameters<SpanExporter["export"]>[1];

/**
 * An exporter whose failures are logged once, until it succeeds again. Spans that find the queue full, and those that a
 * collector leaves out of what it takes, are only warned of by the SDK, which writes nothing by itself.
 */
function toldOnce(
  exporter: SpanExporter,
  { target }: TracingSettings,
  { clock, log, diag }: Pick<Environment, "clock" | "log"> & Pick<Api, "diag">,
): SpanExporter {
  let isAway = false;
  let lostSpans = 0;
  let silentUntilMs = 0;
  const warn = (...words: readonly unknown[]): void => {
    if (isAway || clock.nowMs() < silentUntilMs) return;
    silentUntilMs = clock.nowMs() + WARNING_MS;
    log.warn("traces are incomplete", { by: target, message: excerpt(words.join(" ")) });
  };
  // Where several roles are one process, the last one tells.
  diag.setLogger({ ...SILENT, warn }, { suppressOverrideMessage: true });
  return {
    export: (spans: ReadableSpan[], done: ExportDone) => {
      exporter.export(spans, (result) => {
        if (result.error === undefined) {
          if (isAway) log.warn("traces are taken again", { by: target, lostSpans });
          isAway = false;
          lostSpans = 0;
        } else {
          lostSpans += spans.length;
          if (!isAway)
            log.warn("traces are not taken and are lost", { by: target, error: result.error });
          isAway = true;
        }
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    ...(exporter.forceFlush !== undefined && { forceFlush: () => exporter.forceFlush!() }),
  };
}

/** Turns the spans of a router or worker into spans of the SDK. */
class SpanRecorder {
  readonly api: Api;
  readonly tracer: OpenTelemetryTracer;
  readonly #clock: Environment["clock"];

  constructor(api: Api, tracer: OpenTelemetryTracer, { clock }: Pick<Environment, "clock">) {
    this.api = api;
    this.tracer = tracer;
    this.#clock = clock;
  }

  begin({ name, startMs, parent, attributes = {} }: SpanStart): TraceSpan | undefined {
    const { ROOT_CONTEXT, SpanKind, trace } = this.api;
    const { traceId = "", spanId = "", isSampled = false } = parent ?? {};
    const remote = { traceId, spanId, traceFlags: isSampled ? 1 : 0, isRemote: true };
    const context =
      parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, remote);
    // The process's clock has no date, and the time of day may be set while a process runs.
    const offsetMs = wallMs() - this.#clock.nowMs();
    const span = this.tracer.startSpan(
      name,
      { kind: SpanKind.SERVER, startTime: startMs + offsetMs, attributes: { ...attributes } },
      context,
    );
    return span.isRecording() ? new RecordedSpan(this, span, offsetMs) : undefined;
  }
}

class RecordedSpan implements TraceSpan {
  readonly #recorder: SpanRecorder;
  readonly #span: Span;
  readonly #offsetMs: number;
  #isEnded = false;

  constructor(recorder: SpanRecorder, span: Span, offsetMs: number) {
    this.#recorder = recorder;
    this.#span = span;
    this.#offsetMs = offsetMs;
  }

  get context(): TraceSpan["context"] {
    const { traceId, spanId } = this.#span.spanContext();
    return { traceId, spanId, isSampled: true };
  }

  child(...[name, startMs, attributes = {}]: Parameters<TraceSpan["child"]>): TraceSpan {
    const { api, tracer } = this.#recorder;
    const { CLIENT, INTERNAL } = api.SpanKind;
    // Maps of services are drawn from pairs of a client's span and the server's below it.
    const kind = "winnow.worker" in attributes ? CLIENT : INTERNAL;
    const span = tracer.startSpan(
      name,
      { kind, startTime: startMs + this.#offsetMs, attributes: { ...attributes } },
      api.trace.setSpan(api.ROOT_CONTEXT, this.#span),
    );
    return new RecordedSpan(this.#recorder, span, this.#offsetMs);
  }

  /** Only the first end counts: a question may be cancelled after it was answered. */
  end(...[endMs, attributes, fault]: Parameters<TraceSpan["end"]>): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    if (attributes !== undefined) this.#span.setAttributes({ ...attributes });
    const { SpanStatusCode } = this.#recorder.api;
    if (fault !== undefined) this.#span.setStatus({ code: SpanStatusCode.ERROR, message: fault });
    this.#span.end(endMs + this.#offsetMs);
  }
}
