// Where a worker looks for models: in directories of this machine or in object stores, told apart by the form
// of the path. The code for object stores is loaded when the first one is named.

import { isObjectUrl, joinObjectUrl } from "@winnow/core";
import { fileStorage } from "./model-storage.ts";
import type { ModelStorage } from "./version-watch.ts";

/** Directories of this machine and prefixes of object stores. */
function eitherStorage(
  files: ModelStorage,
  loadObjects: () => Promise<ModelStorage>,
): ModelStorage {
  let objects: Promise<ModelStorage> | undefined;
  const of = async (location: string): Promise<ModelStorage> => {
    if (!isObjectUrl(location)) return files;
    objects ??= loadObjects();
    return objects;
  };
  return {
    directories: async (location) => (await of(location)).directories(location),
    stamp: async (location) => (await of(location)).stamp(location),
    stamps: async (location, names) => (await of(location)).stamps?.(location, names),
    join: (location, name) =>
      isObjectUrl(location) ? joinObjectUrl(location, name) : files.join(location, name),
    realPath: async (location) => (await of(location)).realPath(location),
  };
}

/** The storage that a worker watches. */
export const modelStorage: ModelStorage = eitherStorage(fileStorage, async () => {
  const [{ objectStores, removeMirrors, storeEnvironment }, { objectStorage }] = await Promise.all([
    import("@winnow/model"),
    import("./object-storage.ts"),
  ]);
  process.once("exit", removeMirrors);
  return objectStorage(objectStores(storeEnvironment()));
});
