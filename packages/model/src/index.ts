// Entrance of the package: model directories as programs and readable tables.

export { openModelVersion } from "./model-directory.ts";
export type { ModelVersion, PartitionReader } from "./model-version.ts";
