// Whether traces are recorded, and how, from the flag and from OpenTelemetry's own variables. Variables that
// the exporter reads itself (OTEL_EXPORTER_OTLP_HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE and others) are
// left to it.

import { WinnowError, excerpt } from "@winnow/core";

/** How traces are recorded. */
export interface TracingSettings {
  /** Where they are sent, for the log; without user and password. */
  readonly target: string;
  /** The flag's endpoint with the path for traces; `undefined`: the exporter reads its variables. */
  readonly url: string | undefined;
  readonly sampler: SamplerChoice;
  /** Fraction of the traces beginning here that ratio samplers record. */
  readonly ratio: number;
  /** Spans that wait to be sent; more are dropped. Default 2048. */
  readonly queueSpansMax: number;
  /** Spans of one message. Default 512. */
  readonly batchSpansMax: number;
  /** Ms between two messages. Default 5000 ms. */
  readonly sendIntervalMs: number;
  /** Ms for one message. Default 30,000 ms. */
  readonly sendTimeoutMs: number;
  readonly serviceName: string | undefined;
}

const SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;

/** Which traces are recorded, by OpenTelemetry's names. */
type SamplerChoice = (typeof SAMPLERS)[number];

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Reads the settings; `undefined`: no traces are recorded.
 * @throws WinnowError INVALID_ARGUMENT for a value that is not allowed
 */
export function tracingSettings(
  endpoint: string | undefined,
  variables: Variables,
): TracingSettings | undefined {
  const read = (name: string): string | undefined => given(variables[name]);
  const ofVariables =
    read("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") ?? read("OTEL_EXPORTER_OTLP_ENDPOINT");
  const flag = given(endpoint);
  const target = flag ?? ofVariables;
  if (target === undefined || isOff(read)) return undefined;
  refuseProtocol(read);
  const shown = urlOf(target);
  return {
    target: `${shown.origin}${shown.pathname}`,
    url: flag === undefined ? undefined : `${flag.replace(/\/+$/, "")}/v1/traces`,
    sampler: samplerOf(read("OTEL_TRACES_SAMPLER")),
    ratio: ratioOf(read("OTEL_TRACES_SAMPLER_ARG")),
    queueSpansMax: count(variables, "OTEL_BSP_MAX_QUEUE_SIZE", 2048),
    batchSpansMax: count(variables, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
    sendIntervalMs: count(variables, "OTEL_BSP_SCHEDULE_DELAY", 5000),
    sendTimeoutMs: count(variables, "OTEL_BSP_EXPORT_TIMEOUT", 30_000),
    serviceName: read("OTEL_SERVICE_NAME"),
  };
}

function given(text: string | undefined): string | undefined {
  return text === undefined || text === "" ? undefined : text;
}

type Read = (name: string) => string | undefined;

function isOff(read: Read): boolean {
  return (
    read("OTEL_SDK_DISABLED")?.toLowerCase() === "true" || read("OTEL_TRACES_EXPORTER") === "none"
  );
}

/** A gRPC port does not answer HTTP, so traces would be lost silently. */
function refuseProtocol(read: Read): void {
  const name = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
  const general = "OTEL_EXPORTER_OTLP_PROTOCOL";
  const [variable, protocol] =
    read(name) === undefined ? [general, read(general)] : [name, read(name)];
  if (protocol !== "grpc") return;
  const text = `${variable} is grpc: Winnow sends traces over HTTP, to port 4318 of a collector; say http/json`;
  throw new WinnowError("INVALID_ARGUMENT", text);
}

function urlOf(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol === "http:" || url?.protocol === "https:") return url;
  const what = `Cannot send traces to "${excerpt(text)}": write a URL such as http://collector:4318`;
  throw new WinnowError("INVALID_ARGUMENT", what);
}

function samplerOf(text: string = "parentbased_always_on"): SamplerChoice {
  const found = SAMPLERS.find((name) => name === text);
  if (found !== undefined) return found;
  const what = `OTEL_TRACES_SAMPLER is "${excerpt(text)}"; it is one of ${SAMPLERS.join(", ")}`;
  throw new WinnowError("INVALID_ARGUMENT", what);
}

function ratioOf(text: string = "1"): number {
  const ratio = Number(text);
  if (/^[\d.]+$/.test(text) && ratio >= 0 && ratio <= 1) return ratio;
  const what = `OTEL_TRACES_SAMPLER_ARG is "${excerpt(text)}"; it is a number from 0 to 1`;
  throw new WinnowError("INVALID_ARGUMENT", what);
}

function count(variables: Variables, name: string, fallback: number): number {
  const text = given(variables[name]);
  if (text === undefined) return fallback;
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  const what = `${name} is "${excerpt(text)}"; it is a whole number from 1 to 999999999`;
  throw new WinnowError("INVALID_ARGUMENT", what);
}
