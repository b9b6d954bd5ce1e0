// Entry of the reader thread: opens and reads model directories for the compute thread, which starts this
// thread with its settings.

import { getEnvironmentData, parentPort, workerData } from "node:worker_threads";

import { createDenseEngine, createRowChecks, onnxRuntimeVersion } from "@winnow/accelerator";
import { isObjectUrl, systemClock } from "@winnow/core";
import {
  ObjectMirror,
  RangeReader,
  openModelVersion,
  objectStores,
  storeEnvironment,
} from "@winnow/model";

import type { ReaderSettings } from "./compute-thread-data.ts";
import { denseCheck } from "./reader/dense-check.ts";
import { type KeptShapes, noShapes, shapesKeptIn } from "./reader/kept-shapes.ts";
import { LocalModelReader } from "./reader/model-reader.ts";
import { serveReader } from "./reader/reader-channel.ts";
import { uncutCheck } from "./reader/uncut-check.ts";

if (parentPort === null) throw new RangeError("this file runs in a thread");
// Both do nothing before the first version of an object store.
const { partitionBytes, uncutBytesMax, modelCache } = workerData as ReaderSettings;
const ranges = new RangeReader(storeEnvironment(), modelCache);
const mirror = new ObjectMirror({
  store: objectStores(storeEnvironment(), modelCache),
  files: ranges,
});
const options = { partitionBytes, checks: createRowChecks(), store: ranges };
const checkUncut = uncutCheck(uncutBytesMax);
const checkDense = denseCheck(() => createDenseEngine(), systemClock, keptShapes());
const reader = new LocalModelReader(
  (directory) => openModelVersion(directory, options),
  async (program, directory) => {
    await checkUncut(program, directory);
    await checkDense(program, directory);
  },
  async (location) => {
    if (isObjectUrl(location)) return mirror.open(location);
    return { directory: location, release: () => undefined };
  },
);
serveReader(parentPort, reader);

/** Beside the bytecode of the bundle; modules that are run one by one keep nothing. */
function keptShapes(): KeptShapes {
  const folder = getEnvironmentData("winnow.kept-folder");
  if (typeof folder !== "string") return noShapes;
  try {
    return shapesKeptIn(folder, onnxRuntimeVersion());
  } catch {
    return noShapes; // Without ONNX Runtime nothing was loaded.
  }
}
