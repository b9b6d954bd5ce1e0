// Whether and how traces are recorded, by the flag and OpenTelemetry's variables.

import { describe, expect, test } from "vitest";
import { tracingSettings } from "./tracing-settings.ts";

const ENDPOINT = "http://collector:4318";

describe("traces", () => {
  test("are recorded where an endpoint is named, by the flag before variables", () => {
    const variable = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://other:4318" };

    expect(tracingSettings(undefined, {})).toBeUndefined();
    expect(tracingSettings("", { OTEL_EXPORTER_OTLP_ENDPOINT: "" })).toBeUndefined();
    expect(tracingSettings(undefined, variable)).toMatchObject({ target: "http://other:4318/" });
    expect(tracingSettings(undefined, variable)?.url).toBeUndefined();
    expect(tracingSettings(`${ENDPOINT}/`, variable)).toMatchObject({
      target: `${ENDPOINT}/`,
      url: `${ENDPOINT}/v1/traces`,
      sampler: "parentbased_always_on",
      queueSpansMax: 2048,
    });
  });

  test.each([{ OTEL_SDK_DISABLED: "true" }, { OTEL_TRACES_EXPORTER: "none" }])(
    "are not with %j",
    (variables) => {
      expect(tracingSettings(ENDPOINT, variables)).toBeUndefined();
    },
  );

  test("are sampled and queued as the variables say", () => {
    const settings = tracingSettings(ENDPOINT, {
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0.25",
      OTEL_BSP_MAX_QUEUE_SIZE: "100",
      OTEL_BSP_SCHEDULE_DELAY: "50",
      OTEL_SERVICE_NAME: "recommender",
    });

    expect(settings).toMatchObject({
      sampler: "parentbased_traceidratio",
      ratio: 0.25,
      queueSpansMax: 100,
      sendIntervalMs: 50,
      serviceName: "recommender",
    });
  });

  test("are shown without the password of their endpoint", () => {
    expect(tracingSettings("https://me:secret@host/otlp?key=1", {})?.target).toBe(
      "https://host/otlp",
    );
  });

  test.each([
    ["collector:4318", {}, 'Cannot send traces to "collector:4318": write a URL'],
    [ENDPOINT, { OTEL_TRACES_SAMPLER: "some" }, "is one of always_on, always_off"],
    [ENDPOINT, { OTEL_TRACES_SAMPLER_ARG: "2" }, "a number from 0 to 1"],
    [ENDPOINT, { OTEL_BSP_MAX_QUEUE_SIZE: "0" }, "a whole number from 1"],
    [ENDPOINT, { OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }, "over HTTP, to port 4318"],
  ])("to %s with %j are refused", (endpoint, variables, fault) => {
    expect(() => tracingSettings(endpoint, variables)).toThrow(fault);
  });
});
