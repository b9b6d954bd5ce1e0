// The tracer of a role's process, if there is one.

import type { Environment } from "@winnow/core";
import { processVariables } from "../process/process-settings.ts";
import type { ProcessTracer, TracedService } from "./otlp-tracer.ts";
import { tracingSettings } from "./tracing-settings.ts";

/** Flags of roles that can be traced. */
export interface TracingFlags {
  readonly otlpEndpoint?: string;
}

/**
 * Opens the tracer; `undefined`: no traces are recorded, and no code is loaded for them.
 * @throws WinnowError INVALID_ARGUMENT as `tracingSettings`
 */
export async function openTracing(
  { otlpEndpoint }: TracingFlags,
  service: TracedService,
  environment: Environment,
): Promise<ProcessTracer | undefined> {
  const settings = tracingSettings(otlpEndpoint, processVariables);
  if (settings === undefined) return undefined;
  const { openOtlpTracer } = await import("./otlp-tracer.ts");
  return openOtlpTracer(settings, service, environment);
}
