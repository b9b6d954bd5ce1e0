// Entrance of the package: starts a worker.

export type { StartCompute } from "./compute/compute-start.ts";
export type { VersionPolicy } from "./version-policy.ts";
export { startWorker } from "./worker.ts";
export type { Worker, WorkerDependencies } from "./worker.ts";
export type { NamedModel, WorkerOptions } from "./worker-settings.ts";
