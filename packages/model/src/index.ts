// Entrance of the package: model directories as programs and readable tables, and the encodings of a
// SavedModel's files that a writer shares.

export { MODEL_FILES, isModelFile, openModelVersion } from "./model-directory.ts";
export { OpenUpdates } from "./item-updates/open-updates.ts";
export { UPDATE_FILE } from "./item-updates/update-file.ts";
export { adviceOnFormats } from "./other-formats.ts";
export type { ReadingOptions } from "./saved-model/version-files.ts";
export { ObjectMirror, removeMirrors } from "./object-store/object-mirror.ts";
export type { MirroredVersion } from "./object-store/object-mirror.ts";
export type { ObjectStore, StoredObject } from "./object-store/object-store.ts";
export { cacheBytes } from "./object-store/cached-store.ts";
export type { CacheSettings } from "./object-store/cached-store.ts";
export { RangeReader } from "./object-store/range-reader.ts";
export { CacheCounts } from "./object-store/cache-counts.ts";
export type { CacheTallies } from "./object-store/cache-counts.ts";
export { storeEnvironment } from "./object-store/store-settings.ts";
export { objectStores } from "./object-store/object-stores.ts";
export type {
  BoundFile,
  ChunkGenerator,
  ItemChanges,
  ItemDescription,
  ModelVersion,
  PartitionReader,
} from "./model-version.ts";
export { numberOfDtype } from "./saved-model/bundle/data-type.ts";
export type { StoredDtype } from "./saved-model/bundle/data-type.ts";
export { columnBytes, encodeStringHeader } from "./saved-model/bundle/string-encoding.ts";
export { dataFileName } from "./saved-model/bundle/tensor-bundle.ts";
export { sliceKeyOf } from "./saved-model/bundle/tensor-slice.ts";
