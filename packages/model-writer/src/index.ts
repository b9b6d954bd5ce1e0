// Entrance of the package: SavedModels for the demo, tests and benchmarks.

export { BundleWriter } from "./bundle-writer.ts";
export type { WrittenTensor } from "./bundle-writer.ts";
export { writeDemo } from "./demo.ts";
export type { DemoOptions } from "./demo.ts";
export { lookupRowsOf } from "./model-description.ts";
export type {
  RankingModel,
  RetrievalModel,
  WriteOptions,
  WrittenLayer,
  WrittenLookup,
  WrittenMatrix,
} from "./model-description.ts";
export { writeRankingModel, writeRetrievalModel } from "./saved-model-writer.ts";
export { encodeTable } from "./table-writer.ts";
