// Entrance of the package: model directories as programs and readable tables, and the encodings of a
// SavedModel's files that a writer shares.

export { MODEL_FILES, openModelVersion } from "./model-directory.ts";
export type {
  BoundFile,
  ChunkGenerator,
  ItemDescription,
  ModelVersion,
  PartitionReader,
} from "./model-version.ts";
export { numberOfDtype } from "./saved-model/bundle/data-type.ts";
export type { StoredDtype } from "./saved-model/bundle/data-type.ts";
export { columnBytes, encodeStringHeader } from "./saved-model/bundle/string-encoding.ts";
export { dataFileName } from "./saved-model/bundle/tensor-bundle.ts";
export { sliceKeyOf } from "./saved-model/bundle/tensor-slice.ts";
