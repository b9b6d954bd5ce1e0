// The reader of model directories as a worker runs it, in whichever of its threads reads: with the checks of each
// version, and object stores.

import { createDenseEngine, createRowChecks, onnxRuntimeVersion } from "@winnow/accelerator";
import { isObjectUrl, systemClock } from "@winnow/core";
import {
  ObjectMirror,
  OpenUpdates,
  RangeReader,
  openModelVersion,
  objectStores,
  storeEnvironment,
} from "@winnow/model";

import type { ReaderSettings } from "../compute-thread-data.ts";
import { denseCheck } from "./dense-check.ts";
import { type KeptShapes, noShapes, shapesKeptIn } from "./kept-shapes.ts";
import { LocalModelReader } from "./model-reader.ts";
import { checkSources } from "./sources-check.ts";
import { uncutCheck } from "./uncut-check.ts";

/** A reader on the calling thread. What is kept of dense parts lies in `keptFolder`; `undefined`: nothing is kept. */
export function directoryReader(
  { partitionBytes, uncutBytesMax, modelCache }: ReaderSettings,
  keptFolder: string | undefined,
): LocalModelReader {
  // Both do nothing before the first version of an object store.
  const ranges = new RangeReader(storeEnvironment(), modelCache);
  const mirror = new ObjectMirror({
    store: objectStores(storeEnvironment(), modelCache),
    files: ranges,
  });
  const openUpdates = new OpenUpdates();
  const options = { partitionBytes, checks: createRowChecks(), store: ranges, openUpdates };
  const checkUncut = uncutCheck(uncutBytesMax);
  const checkDense = denseCheck(() => createDenseEngine(), systemClock, keptShapes(keptFolder));
  return new LocalModelReader(
    (directory, updateBytes) => openModelVersion(directory, { ...options, updateBytes }),
    async (program, directory) => {
      await checkSources(program, directory);
      await checkUncut(program, directory);
      await checkDense(program, directory);
    },
    async (location) => {
      if (isObjectUrl(location)) return mirror.open(location);
      return { directory: location, release: () => undefined };
    },
  );
}

function keptShapes(folder: string | undefined): KeptShapes {
  if (folder === undefined) return noShapes;
  try {
    return shapesKeptIn(folder, onnxRuntimeVersion());
  } catch {
    return noShapes; // Without ONNX Runtime nothing was loaded.
  }
}
