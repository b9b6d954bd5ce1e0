// TensorFlow Serving's monitoring configuration file (`--monitoring_config_file`): whether and
// where metrics are shown. Winnow shows them without a file as well.

import type { MessageShape } from "../text-proto/text-message.ts";
import { readMessage } from "../text-proto/text-message.ts";

/** Where metrics are shown; `undefined`: nowhere. */
export interface MonitoringConfig {
  readonly metricsPath: string | undefined;
}

const DEFAULT_PATH = "/monitoring/prometheus/metrics";

/** Paths of predictions and states, probes, the console and the description of the API. */
const TAKEN =
  /^\/(?:$|v1(?:\/|$)|v2(?:\/|$)|console(?:\/|$)|(?:healthz|livez|readyz|openapi\.json)$)/i;

const CONFIG: MessageShape = {
  name: "MonitoringConfig",
  fields: {
    prometheus_config: {
      kind: "message",
      shape: {
        name: "PrometheusConfig",
        fields: { enable: { kind: "bool" }, path: { kind: "string" } },
      },
    },
  },
};

/** The configuration without a file: metrics are shown. */
export const defaultMonitoring: MonitoringConfig = { metricsPath: DEFAULT_PATH };

/** Reads the file's text; `source` names it in errors. @throws WinnowError INVALID_ARGUMENT */
export function readMonitoringConfig(text: string, source: string): MonitoringConfig {
  const prometheus = readMessage(text, CONFIG, source).message("prometheus_config");
  if (prometheus?.flag("enable") !== true) return { metricsPath: undefined };
  const metricsPath = prometheus.text("path") || DEFAULT_PATH;
  if (!/^\/[\x21-\x7E]*$/.test(metricsPath) || /[?#]/.test(metricsPath)) {
    throw prometheus.fault(`path is a URL's path, as in ${DEFAULT_PATH}`, "path");
  }
  if (TAKEN.test(metricsPath)) {
    const text = `path "${metricsPath}" is answered with something else; take another, such as /metrics or ${DEFAULT_PATH}`;
    throw prometheus.fault(text, "path");
  }
  return { metricsPath };
}
