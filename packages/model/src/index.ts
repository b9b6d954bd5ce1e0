// Entrance of the package: model directories as programs and readable tables.

export { openModelVersion } from "./model-directory.ts";
export type { BoundFile, ChunkGenerator, ModelVersion, PartitionReader } from "./model-version.ts";
export { writeDemo } from "./saved-model/writer/demo.ts";
export type { DemoOptions } from "./saved-model/writer/demo.ts";
export { lookupRowsOf } from "./saved-model/writer/model-description.ts";
export type {
  RankingModel,
  RetrievalModel,
  WriteOptions,
  WrittenLayer,
  WrittenLookup,
  WrittenMatrix,
} from "./saved-model/writer/model-description.ts";
export { writeRankingModel, writeRetrievalModel } from "./saved-model/writer/saved-model-writer.ts";
