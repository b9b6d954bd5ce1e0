// Finds the format of a version directory from the files in it.

import { WinnowError, excerpt } from "@winnow/core";
import { withAttributes } from "./attributes/attributed-version.ts";
import { EXPERIMENT_FILE } from "./experiment-directory/experiment-description.ts";
import { openExperiment } from "./experiment-directory/experiment-version.ts";
import type { ModelVersion } from "./model-version.ts";
import { DESCRIPTION_FILE } from "./onnx-directory/description/description.ts";
import { MODEL_FILE } from "./onnx-directory/graph/model-file.ts";
import { openOnnxDirectory } from "./onnx-directory/onnx-version.ts";
import { PIPELINE_FILE } from "./pipeline-directory/pipeline-description.ts";
import { openPipeline } from "./pipeline-directory/pipeline-version.ts";
import { openSavedModel } from "./saved-model/saved-model-version.ts";
import type { ReadingOptions } from "./saved-model/version-files.ts";
import { GRAPH_FILE } from "./saved-model/version-directory.ts";
import { StoredDirectory } from "./storage/stored-directory.ts";

/** Files that make a directory the version of a model. */
export const MODEL_FILES: readonly string[] = [
  GRAPH_FILE,
  MODEL_FILE,
  PIPELINE_FILE,
  EXPERIMENT_FILE,
];

/**
 * Opens a version directory (`/models/movies/7`) of any format Winnow reads; reads no table.
 * @throws WinnowError NOT_FOUND where there is no model, DATA_LOSS, INVALID_ARGUMENT or UNIMPLEMENTED
 * naming the file, and the signature and node where the graph is at fault
 */
export function openModelVersion(directory: string, options: ReadingOptions = {}): ModelVersion {
  const files = new StoredDirectory(directory, options.store);
  const has = (file: string): boolean => files.has(file);
  const over = [PIPELINE_FILE, EXPERIMENT_FILE].find(has);
  if (over !== undefined) {
    refuseBeside(directory, over, has);
    return (over === PIPELINE_FILE ? openPipeline : openExperiment)(directory, options);
  }
  if (has(GRAPH_FILE) && has(DESCRIPTION_FILE)) {
    const text = `it holds both ${GRAPH_FILE} and ${DESCRIPTION_FILE}; leave the files of one model`;
    throw new WinnowError("INVALID_ARGUMENT", `Cannot open ${excerpt(directory)}: ${text}`);
  }
  if (has(GRAPH_FILE)) return withAttributes(openSavedModel(directory, options), options.store);
  if (has(MODEL_FILE)) return withAttributes(openOnnxDirectory(directory, options), options.store);
  if (has(DESCRIPTION_FILE)) {
    const text = `it holds a ${DESCRIPTION_FILE}, but no ${MODEL_FILE}; the copy may be incomplete`;
    throw new WinnowError("NOT_FOUND", `Cannot open ${excerpt(directory)}: ${text}`);
  }
  if (has(`${GRAPH_FILE}txt`)) {
    const message = `Cannot open ${excerpt(directory)}: ${GRAPH_FILE}txt is text; save it as binary`;
    throw new WinnowError("UNIMPLEMENTED", message);
  }
  const message = `Cannot open ${excerpt(directory)}: it holds no ${MODEL_FILES.join(", no ")}`;
  throw new WinnowError("NOT_FOUND", message);
}

/** Refuses a directory that has a model besides an experiment or a pipeline. @throws WinnowError INVALID_ARGUMENT */
function refuseBeside(directory: string, over: string, has: (file: string) => boolean): void {
  const kinds = [EXPERIMENT_FILE, GRAPH_FILE, MODEL_FILE, DESCRIPTION_FILE];
  const beside = kinds.find((file) => file !== over && has(file));
  if (beside === undefined) return;
  const text = `it holds both ${over} and ${beside}; leave the files of one model`;
  throw new WinnowError("INVALID_ARGUMENT", `Cannot open ${excerpt(directory)}: ${text}`);
}
