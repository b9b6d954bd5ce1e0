// Entrance of the package: starts a worker.

export { checkDenseParts } from "./compute/reader/dense-check.ts";
export type { StartCompute } from "./compute/compute-start.ts";
export { listenForMetrics } from "./metrics/metrics-server.ts";
export type { MetricsServer, MetricsServerParts } from "./metrics/metrics-server.ts";
export { createWorkerMetrics } from "./metrics/worker-metrics.ts";
export type { MetricsOptions } from "./metrics/worker-metrics.ts";
export type { VersionPolicy } from "./models/version-policy.ts";
export { startWorker } from "./worker-start.ts";
export type { WorkerDependencies } from "./worker-start.ts";
export type { Worker } from "./worker.ts";
export type { WorkerOptions } from "./worker-settings.ts";
export type { NamedModel } from "./models/model-replacement.ts";
